//! Links from a task to its logs, and to whatever else the platform or the task wants to point at.
//!
//! A link is a template over the data of a pod and its task, `https://logs/{{ .namespace }}/{{ .podName }}`. Which
//! templates apply is said by three sources: the task's own metadata, the sections of the configuration for well-known
//! log stores, and dynamic links that a task asks for by name (`link_type` in its configuration).
//!
//! Nothing is prepared ahead: a scanner finds the variables of a template in one pass over its text, which is
//! cheaper than keeping compiled patterns per configuration.

mod azure;
mod placeholders;
mod pod;
mod variables;

use std::borrow::Cow;

use aileron_idl::flyteidl2::core::task_log::{LinkType, MessageFormat};
use aileron_idl::flyteidl2::core::{TaskLog, TaskTemplate};

use crate::TaskExecutionId;
use crate::config::{LogConfig, LogTemplate};

pub use variables::{PodTime, TemplateVar};

/// Name of the dynamic link that leads into an editor; an environment variable of the container asks for it too.
const VSCODE: &str = "vscode";

/// Key of the task's configuration that lists the dynamic links it wants.
const LINK_TYPE_KEY: &str = "link_type";

/// Everything that link templates can speak of. An empty text leaves its variable as it stands in the template.
///
/// Mirrors `tasklog.Input`.
///
/// ```
/// use aileron_machinery::config::LogTemplate;
/// use aileron_machinery::log_links::{LinkInput, template_links};
///
/// let input = LinkInput { pod_name: "head-0", namespace: "team", log_name: " (head)", ..LinkInput::default() };
/// let uris = vec!["/{{.podName}}".into()];
/// let template = LogTemplate { display_name: "Logs".into(), template_uris: uris, ..LogTemplate::default() };
/// let links = template_links(&template, &input);
/// assert_eq!((links[0].name.as_str(), links[0].uri.as_str()), ("Logs (head)", "/head-0"));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkInput<'a> {
    /// `hostname`.
    pub hostname: &'a str,
    /// `podName`.
    pub pod_name: &'a str,
    /// `podUID`.
    pub pod_uid: &'a str,
    /// `namespace`.
    pub namespace: &'a str,
    /// `containerName`.
    pub container_name: &'a str,
    /// `containerID`, with or without the name of the container runtime in front (`containerd://`).
    pub container_id: &'a str,
    /// `logName`; also ends the displayed name of every link.
    pub log_name: &'a str,
    /// `podRFC3339StartTime` and `podUnixStartTime`.
    pub pod_start: Option<PodTime>,
    /// `podRFC3339FinishTime` and `podUnixFinishTime`.
    pub pod_finish: Option<PodTime>,
    /// `nodeID`, `generatedName`, `taskID`, `executionName` and their like.
    pub id: Option<&'a TaskExecutionId>,
    /// Variables that only the calling plugin knows. They win over the others, except over `logName`.
    pub extra: &'a [TemplateVar<'a>],
    /// The task, whose configuration chooses dynamic links and fills `taskConfig.*`.
    pub template: Option<&'a TaskTemplate>,
    /// The container serves an editor.
    pub vscode: bool,
    /// `agentID`.
    pub agent_id: &'a str,
    /// `connectorID`.
    pub connector_id: &'a str,
}

/// The links that a configuration and a task ask for.
///
/// Mirrors `logs.InitializeLogPlugins`.
///
/// ```
/// use aileron_machinery::config::LogConfig;
/// use aileron_machinery::log_links::LogLinks;
/// use aileron_machinery::testing::{pod, running, task};
/// # use aileron_machinery::serde_json::Value;
///
/// let task = task("batch", &Value::Null);
/// let url = "https://dashboard".into();
/// let config = LogConfig { kubernetes_enabled: true, kubernetes_url: url, ..LogConfig::default() };
/// let links = LogLinks::new(&config, Some(&task.template));
/// let pod = running(&pod("p-1", "main", &Value::Null));
/// assert_eq!(links.of_pod(&task, &pod)[0].uri, "https://dashboard/#!/log/p-d/p-1/pod?namespace=p-d");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LogLinks<'a> {
    config: &'a LogConfig,
    task_links: &'a [TaskLog],
}

/// What the links of one template have in common.
#[derive(Clone, Copy)]
struct Look<'a> {
    display_name: &'a str,
    message_format: i32,
    show_while_pending: bool,
    hide_once_finished: bool,
    link_type: LinkType,
}

impl<'a> LogLinks<'a> {
    /// The links of a configuration section and, if given, those that the task's metadata adds in front.
    pub fn new(config: &'a LogConfig, template: Option<&'a TaskTemplate>) -> Self {
        let task_links = template.and_then(|template| template.metadata.as_ref()).map_or(&[][..], |m| &m.log_links);
        Self { config, task_links }
    }

    /// All links for one container.
    ///
    /// ```
    /// use aileron_machinery::config::{LogConfig, LogTemplate};
    /// use aileron_machinery::log_links::{LinkInput, LogLinks};
    ///
    /// let uris = vec!["https://ray/{{.podName}}".into()];
    /// let own = LogTemplate { display_name: "Console".into(), template_uris: uris, ..LogTemplate::default() };
    /// let config = LogConfig { templates: vec![own], ..LogConfig::default() };
    /// let links = LogLinks::new(&config, None).links(&LinkInput { pod_name: "head-0", ..LinkInput::default() });
    /// assert_eq!(links[0].uri, "https://ray/head-0");
    /// ```
    pub fn links(&self, input: &LinkInput<'_>) -> Vec<TaskLog> {
        let mut links = Vec::new();
        for link in self.task_links {
            let look =
                Look { message_format: link.message_format, link_type: LinkType::Dashboard, ..Look::json(&link.name) };
            links.push(look.link(&link.uri, input));
        }
        for (display_name, uri) in self.well_known() {
            links.push(Look::json(display_name).link(&uri, input));
        }
        for azure in &self.config.azure_log_templates {
            azure::push_links(azure, input, &mut links);
        }
        for template in &self.config.templates {
            push_template_links(template, input, &mut links);
        }
        for (name, template) in &self.config.dynamic_log_links {
            let look = Look { message_format: MessageFormat::Json.into(), ..Look::of(template) };
            look.push_dynamic(name, &template.template_uris, input, &mut links);
        }
        links
    }

    /// Log stores with a switch of their own: displayed name and link template.
    fn well_known(&self) -> impl Iterator<Item = (&'static str, Cow<'a, str>)> + use<'a> {
        let config = self.config;
        let or_built = |template: &'a str, built: &dyn Fn() -> String| -> Cow<'a, str> {
            if template.is_empty() { built().into() } else { template.into() }
        };
        let kubernetes = config.kubernetes_enabled.then(|| {
            let built = || {
                let base = &config.kubernetes_url;
                format!("{base}/#!/log/{{{{ .namespace }}}}/{{{{ .podName }}}}/pod?namespace={{{{ .namespace }}}}")
            };
            ("Kubernetes Logs", or_built(&config.kubernetes_template_uri, &built))
        });
        let cloudwatch = config.cloudwatch_enabled.then(|| {
            let built = || {
                let (region, group) = (&config.cloudwatch_region, &config.cloudwatch_log_group);
                format!(
                    "https://console.aws.amazon.com/cloudwatch/home?region={region}#logEventViewer:group={group};\
                     stream=var.log.containers.\
                     {{{{ .podName }}}}_{{{{ .namespace }}}}_{{{{ .containerName }}}}-{{{{ .containerId }}}}.log"
                )
            };
            ("Cloudwatch Logs", or_built(&config.cloudwatch_template_uri, &built))
        });
        let stackdriver = config.stackdriver_enabled.then(|| {
            let built = || {
                let (project, resource) = (&config.gcp_project, &config.stackdriver_log_resource_name);
                format!(
                    "https://console.cloud.google.com/logs/viewer?project={project}\
                     &angularJsUrl=%2Flogs%2Fviewer%3Fproject%3D{project}&resource={resource}\
                     &advancedFilter=resource.labels.pod_name%3D{{{{ .podName }}}}"
                )
            };
            ("Google Cloud Logs", or_built(&config.stackdriver_template_uri, &built))
        });
        [kubernetes, cloudwatch, stackdriver].into_iter().flatten()
    }
}

impl<'a> Look<'a> {
    /// How the links to log stores look.
    fn json(display_name: &'a str) -> Self {
        Self {
            display_name,
            message_format: MessageFormat::Json.into(),
            show_while_pending: false,
            hide_once_finished: false,
            link_type: LinkType::External,
        }
    }

    fn of(template: &'a LogTemplate) -> Self {
        Self {
            display_name: &template.display_name,
            message_format: template.message_format,
            show_while_pending: template.show_while_pending,
            hide_once_finished: template.hide_once_finished,
            link_type: link_type(&template.link_type),
        }
    }

    /// One link, its name a template as well.
    fn link(&self, uri: &str, input: &LinkInput<'_>) -> TaskLog {
        let variables = input.variables();
        let name = format!("{}{}", variables.render(self.display_name), variables.render(input.log_name));
        self.task_log(name, variables.render(uri))
    }

    /// Links that appear only if the task asks for them by this name.
    fn push_dynamic(&self, name: &str, uris: &[String], input: &LinkInput<'_>, links: &mut Vec<TaskLog>) {
        if uris.is_empty() || !input.wants(name) {
            return;
        }
        let look = Self { link_type: if name == VSCODE { LinkType::Ide } else { self.link_type }, ..*self };
        let mut variables = input.variables();
        for uri in uris {
            variables.add_task_config(uri, input.template.map(|template| &template.config));
            let name = format!("{}{}", self.display_name, input.log_name);
            links.push(look.task_log(name, variables.render(uri)));
        }
    }

    fn task_log(&self, name: String, uri: String) -> TaskLog {
        TaskLog {
            uri,
            name,
            message_format: self.message_format,
            show_while_pending: self.show_while_pending,
            hide_once_finished: self.hide_once_finished,
            link_type: self.link_type.into(),
            ready: true,
            ..TaskLog::default()
        }
    }
}

impl LinkInput<'_> {
    /// The task asks for the dynamic link of this name.
    fn wants(&self, name: &str) -> bool {
        let listed = self
            .template
            .and_then(|template| template.config.get(LINK_TYPE_KEY))
            .filter(|listed| !listed.is_empty())
            .is_some_and(|listed| listed.split(',').any(|wanted| wanted == name));
        listed || (self.vscode && name == VSCODE)
    }
}

/// The links of one template, static ones first.
///
/// Mirrors `tasklog.TemplateLogPlugin.GetTaskLogs`.
///
/// ```
/// use aileron_machinery::config::LogTemplate;
/// use aileron_machinery::log_links::{LinkInput, TemplateVar, template_links};
///
/// let template = LogTemplate { template_uris: vec!["https://spark/{{ .appID }}".into()], ..LogTemplate::default() };
/// let extra = [TemplateVar { name: "appID", value: "app-7".into() }];
/// let input = LinkInput { extra: &extra, ..LinkInput::default() };
/// assert_eq!(template_links(&template, &input)[0].uri, "https://spark/app-7");
/// ```
pub fn template_links(template: &LogTemplate, input: &LinkInput<'_>) -> Vec<TaskLog> {
    let mut links = Vec::with_capacity(template.template_uris.len());
    push_template_links(template, input, &mut links);
    links
}

fn push_template_links(template: &LogTemplate, input: &LinkInput<'_>, links: &mut Vec<TaskLog>) {
    let look = Look::of(template);
    links.extend(template.template_uris.iter().map(|uri| look.link(uri, input)));
    look.push_dynamic(&template.name, &template.dynamic_template_uris, input, links);
}

/// The kind of link a configuration names; a name nobody knows is an ordinary link.
fn link_type(name: &str) -> LinkType {
    LinkType::from_str_name(&name.to_uppercase()).unwrap_or(LinkType::External)
}

#[cfg(test)]
mod tests;
