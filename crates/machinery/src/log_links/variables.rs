//! The variables of link templates and their values.

use std::borrow::Cow;
use std::collections::BTreeMap;

use aileron_idl::flyteidl2::core::Identifier;
use aileron_kubekit::names::to_subdomain;
use jiff::Timestamp;
use jiff::tz::Offset;

use super::LinkInput;
use super::placeholders::{self, Placeholder};

/// A variable that only one plugin knows.
///
/// ```
/// use aileron_machinery::log_links::TemplateVar;
///
/// // `{{ .rayJobID }}` in a link template of this plugin.
/// let job = TemplateVar { name: "rayJobID", value: format!("job-{}", 7).into() };
/// assert_eq!(job.value, "job-7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateVar<'a> {
    /// Its name, matched in any letter case.
    pub name: &'a str,
    /// Its value; if empty, the variable stays in the text.
    pub value: Cow<'a, str>,
}

/// A moment as links show it: in seconds since 1970 and as a text.
///
/// ```
/// use aileron_machinery::jiff::{Timestamp, tz::Offset};
/// use aileron_machinery::log_links::{LinkInput, PodTime};
///
/// let start = Timestamp::from_second(1_700_000_000)?;
/// let input = LinkInput { pod_start: Some(start.into()), ..LinkInput::default() };
/// assert_eq!(input.pod_start, Some(PodTime::with_offset(start, Offset::UTC)));
/// # Ok::<(), aileron_machinery::jiff::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodTime {
    at: Timestamp,
    offset: Offset,
}

impl PodTime {
    /// A moment, written in the time zone at this offset.
    pub fn with_offset(at: Timestamp, offset: Offset) -> Self {
        Self { at, offset }
    }

    fn unix_seconds(self) -> i64 {
        self.at.as_second()
    }

    fn rfc3339(self) -> String {
        let at = Timestamp::from_second(self.unix_seconds()).unwrap_or(self.at);
        if self.offset == Offset::UTC { at.to_string() } else { at.display_with_offset(self.offset).to_string() }
    }
}

impl From<Timestamp> for PodTime {
    fn from(at: Timestamp) -> Self {
        Self { at, offset: Offset::UTC }
    }
}

/// Variables in the order in which upstream replaces them. The order matters only when a value contains a variable.
#[derive(Clone, Copy)]
enum Known {
    PodName,
    PodUid,
    Namespace,
    ContainerName,
    ContainerId,
    Hostname,
    AgentId,
    ConnectorId,
    NodeId,
    GeneratedName,
    TaskRetryAttempt,
    TaskId,
    TaskVersion,
    TaskOrg,
    TaskProject,
    TaskDomain,
    ExecutionName,
    RunName,
    ActionName,
    ExecutionProject,
    ExecutionDomain,
    PodRfc3339StartTime,
    PodRfc3339FinishTime,
    PodUnixStartTime,
    PodUnixFinishTime,
}

const LOG_NAME: &str = "logName";

const KNOWN: [(&str, Known); 25] = [
    ("podName", Known::PodName),
    ("podUID", Known::PodUid),
    ("namespace", Known::Namespace),
    ("containerName", Known::ContainerName),
    ("containerID", Known::ContainerId),
    ("hostname", Known::Hostname),
    ("agentID", Known::AgentId),
    ("connectorID", Known::ConnectorId),
    ("nodeID", Known::NodeId),
    ("generatedName", Known::GeneratedName),
    ("taskRetryAttempt", Known::TaskRetryAttempt),
    ("taskID", Known::TaskId),
    ("taskVersion", Known::TaskVersion),
    ("taskOrg", Known::TaskOrg),
    ("taskProject", Known::TaskProject),
    ("taskDomain", Known::TaskDomain),
    ("executionName", Known::ExecutionName),
    ("runName", Known::RunName),
    ("actionName", Known::ActionName),
    ("executionProject", Known::ExecutionProject),
    ("executionDomain", Known::ExecutionDomain),
    ("podRFC3339StartTime", Known::PodRfc3339StartTime),
    ("podRFC3339FinishTime", Known::PodRfc3339FinishTime),
    ("podUnixStartTime", Known::PodUnixStartTime),
    ("podUnixFinishTime", Known::PodUnixFinishTime),
];

/// The values for one round of rendering.
pub(super) struct Variables<'a> {
    input: &'a LinkInput<'a>,
    /// `taskConfig.*`, in the order in which the templates first named them.
    task_config: Vec<(String, &'a str)>,
}

impl LinkInput<'_> {
    pub(super) fn variables(&self) -> Variables<'_> {
        Variables { input: self, task_config: Vec::new() }
    }
}

impl<'a> Variables<'a> {
    /// Adds the entries of the task's configuration that a template names.
    pub(super) fn add_task_config(&mut self, template: &str, config: Option<&'a BTreeMap<String, String>>) {
        let Some(config) = config else { return };
        let mut rest = template;
        while let Some(at) = placeholders::next_open(rest) {
            rest = match placeholders::task_config(&rest[at..]) {
                Some(Placeholder { name, length }) => {
                    if let Some(value) = config.get(name) {
                        self.task_config.push((name.to_owned(), value));
                    }
                    &rest[at + length..]
                }
                None => &rest[at + 1..],
            };
        }
    }

    /// The template with every variable that has a value replaced by it, literally.
    pub(super) fn render(&self, template: &str) -> String {
        if placeholders::next_open(template).is_none() {
            return template.to_owned();
        }
        self.in_one_pass(template).unwrap_or_else(|| self.one_by_one(template))
    }

    /// The common case: variables stand apart from each other and no value looks like one. Else nothing.
    fn in_one_pass(&self, template: &str) -> Option<String> {
        let mut text = String::with_capacity(2 * template.len());
        let mut rest = template;
        while let Some(at) = placeholders::next_open(rest) {
            let found = placeholders::plain(&rest[at..])?;
            let (before, end) = (&rest[..at], at + found.length);
            text.push_str(before);
            match self.value(found.name) {
                value if value.is_empty() => text.push_str(&rest[at..end]),
                value if value.contains(['{', '}']) => return None,
                value => text.push_str(&value),
            }
            rest = &rest[end..];
        }
        text.push_str(rest);
        Some(text)
    }

    /// One variable after the other, so that the value of one may bring in those that follow it.
    fn one_by_one(&self, template: &str) -> String {
        let mut text = template.to_owned();
        let mut put = |name: &str, value: &str, task_config: bool| {
            if value.is_empty() {
                return;
            }
            let parse = if task_config { placeholders::task_config } else { placeholders::plain };
            if let Some(replaced) = placeholders::replace(&text, parse, name, value) {
                text = replaced;
            }
        };
        put(LOG_NAME, self.input.log_name, false);
        for TemplateVar { name, value } in self.input.extra {
            put(name, value, false);
        }
        for (name, known) in KNOWN {
            put(name, &self.known(known), false);
        }
        for (name, value) in &self.task_config {
            put(name, value, true);
        }
        text
    }

    /// The first value there is for a name; empty if there is none.
    fn value(&self, name: &str) -> Cow<'_, str> {
        if name.eq_ignore_ascii_case(LOG_NAME) && !self.input.log_name.is_empty() {
            return self.input.log_name.into();
        }
        let extra = self.input.extra.iter().find(|var| !var.value.is_empty() && var.name.eq_ignore_ascii_case(name));
        if let Some(extra) = extra {
            return (&*extra.value).into();
        }
        KNOWN
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map_or(Cow::Borrowed(""), |(_, known)| self.known(known))
    }

    fn known(&self, known: Known) -> Cow<'_, str> {
        let input = self.input;
        let id = input.id;
        let task = |part: fn(&Identifier) -> &str| id.and_then(|id| id.task.as_ref()).map_or("", part);
        let unix = |time: Option<PodTime>| time.map_or(0, PodTime::unix_seconds).to_string().into();
        let text = |time: Option<PodTime>| time.map(PodTime::rfc3339).unwrap_or_default().into();
        match known {
            Known::PodName => input.pod_name.into(),
            Known::PodUid => input.pod_uid.into(),
            Known::Namespace => input.namespace.into(),
            Known::ContainerName => input.container_name.into(),
            // Log collectors drop the name of the container runtime, so the link must too.
            Known::ContainerId => input.container_id.split("://").nth(1).unwrap_or(input.container_id).into(),
            Known::Hostname => input.hostname.into(),
            Known::AgentId => input.agent_id.into(),
            Known::ConnectorId => input.connector_id.into(),
            Known::NodeId => id.map_or("", |id| &id.unique_node_id).into(),
            Known::GeneratedName => id.map_or(Cow::Borrowed(""), |id| to_subdomain(&id.generated_name).into()),
            Known::TaskRetryAttempt => id.map_or(Cow::Borrowed(""), |id| id.retry_attempt.to_string().into()),
            Known::TaskId => task(|task| &task.name).into(),
            Known::TaskVersion => task(|task| &task.version).into(),
            Known::TaskOrg => task(|task| &task.org).into(),
            Known::TaskProject => task(|task| &task.project).into(),
            Known::TaskDomain => task(|task| &task.domain).into(),
            Known::ExecutionName | Known::RunName => id.map_or("", |id| &id.run).into(),
            Known::ActionName => id.map_or("", |id| &id.action).into(),
            Known::ExecutionProject => id.map_or("", |id| &id.project).into(),
            Known::ExecutionDomain => id.map_or("", |id| &id.domain).into(),
            Known::PodRfc3339StartTime => text(input.pod_start),
            Known::PodRfc3339FinishTime => text(input.pod_finish),
            Known::PodUnixStartTime => unix(input.pod_start),
            Known::PodUnixFinishTime => unix(input.pod_finish),
        }
    }
}
