//! Log links from templates and from the configuration.

use aileron_machinery::config::LogTemplate;
use aileron_machinery::log_links::{LinkInput, LogLinks, PodTime, TemplateVar, template_links};
use anyhow::Context as _;
use jiff::Timestamp;
use jiff::tz::Offset;
use serde::Deserialize;
use serde_json::Value;

use super::{Case, argument, unknown_function, value};
use crate::vectors::context::of_arguments;
use crate::vectors::installation::Installation;
use crate::vectors::messages::message_json;

/// `input` of a case.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Input {
    host_name: String,
    pod_name: String,
    #[serde(rename = "PodUID")]
    pod_uid: String,
    namespace: String,
    container_name: String,
    #[serde(rename = "ContainerID")]
    container_id: String,
    log_name: String,
    #[serde(rename = "PodRFC3339StartTime")]
    start: String,
    #[serde(rename = "PodRFC3339FinishTime")]
    finish: String,
    enable_vscode: bool,
    #[serde(rename = "AgentID")]
    agent_id: String,
    #[serde(rename = "ConnectorID")]
    connector_id: String,
    extra: Vec<Extra>,
    #[serde(rename = "NoTaskExecutionID")]
    without_id: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Extra {
    name: String,
    value: String,
}

pub(super) fn produce(case: &Case) -> anyhow::Result<Value> {
    let installation = Installation::of(case)?;
    let task = of_arguments(case, &installation)?.task;
    let given: Input = argument(case, "input")?;
    let extra: Vec<TemplateVar<'_>> =
        given.extra.iter().map(|extra| TemplateVar { name: &extra.name, value: extra.value.as_str().into() }).collect();
    let input = LinkInput {
        hostname: &given.host_name,
        pod_name: &given.pod_name,
        pod_uid: &given.pod_uid,
        namespace: &given.namespace,
        container_name: &given.container_name,
        container_id: &given.container_id,
        log_name: &given.log_name,
        pod_start: time(&given.start)?,
        pod_finish: time(&given.finish)?,
        id: (!given.without_id).then_some(&task.metadata.id),
        extra: &extra,
        template: Some(&task.template),
        vscode: given.enable_vscode,
        agent_id: &given.agent_id,
        connector_id: &given.connector_id,
    };
    let links = match case.function() {
        "tasklog.template" => {
            let template: LogTemplate = argument(case, "plugin")?;
            template_links(&template, &input)
        }
        "tasklog.fromConfig" => LogLinks::new(&installation.config.plugins.logs, Some(&task.template)).links(&input),
        _ => return Err(unknown_function(case)),
    };
    value(links.iter().map(message_json).collect::<Result<Vec<_>, _>>()?)
}

/// A time with its UTC offset, because links contain the offset.
fn time(text: &str) -> anyhow::Result<Option<PodTime>> {
    if text.is_empty() {
        return Ok(None);
    }
    let at: Timestamp = text.parse().with_context(|| format!("{text} is not a time"))?;
    let offset =
        jiff::fmt::temporal::DateTimeParser::new().parse_pieces(text)?.to_numeric_offset().unwrap_or(Offset::UTC);
    Ok(Some(PodTime::with_offset(at, offset)))
}
