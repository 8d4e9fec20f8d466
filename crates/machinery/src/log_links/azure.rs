//! Links into Azure Log Analytics, which carry a whole query: compressed, in base64, escaped for a query string.

use aileron_idl::flyteidl2::core::TaskLog;
use aileron_idl::flyteidl2::core::task_log::MessageFormat;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::LinkInput;
use super::gzip::gzip;
use crate::config::AzureLogTemplate;

/// What the container wrote from an hour before the pod began until an hour after its end. Clocks of the log store and
/// the cluster differ, hence the hours. Upstream's default.
const POD_LOGS_QUERY: &str = r#"let StartTime = datetime_add('hour', -1, datetime("{{.podRFC3339StartTime}}"));
let FinishTime = datetime_add('hour', 1, datetime("{{.podRFC3339FinishTime}}"));
ContainerLogV2
| where TimeGenerated between (StartTime .. FinishTime)
 and ContainerName == "{{.containerName}}"
 and PodName == "{{.podName}}"
 and PodNamespace == "{{.namespace}}""#;

/// Mirrors `tasklog.AzureLogsTemplatePlugin.GetTaskLogs`.
pub(super) fn push_links(azure: &AzureLogTemplate, input: &LinkInput<'_>, links: &mut Vec<TaskLog>) {
    let template = &azure.template;
    if template.template_uris.is_empty() {
        return;
    }
    let query = input.variables().render(azure.query_format.as_deref().unwrap_or(POD_LOGS_QUERY));
    let encoded = STANDARD.encode(gzip(query.as_bytes()));
    let escaped: String = url::form_urlencoded::byte_serialize(encoded.as_bytes()).collect();
    links.extend(template.template_uris.iter().map(|uri| TaskLog {
        name: format!("{}{}", template.display_name, input.log_name),
        uri: format!("{uri}{escaped}"),
        message_format: MessageFormat::Json.into(),
        ..TaskLog::default()
    }));
}
