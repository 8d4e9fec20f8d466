//! Links into Azure Log Analytics, which carry a whole query: compressed, in base64, escaped for a query string.

use std::io::Write as _;

use aileron_idl::flyteidl2::core::TaskLog;
use aileron_idl::flyteidl2::core::task_log::MessageFormat;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::LinkInput;
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

/// The data in the gzip format.
///
/// The compressed bytes are not those that Go's `compress/gzip` writes for the same data, but both decompress to the same
/// query. For one version of `flate2` they are always the same, so that a link does not change from one reconcile round
/// to the next.
fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing into a vector cannot fail.
    encoder.write_all(data).and_then(|()| encoder.finish()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    fn gunzip(data: &[u8]) -> String {
        let mut text = String::new();
        GzDecoder::new(data).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn compressed_data_decompresses_to_the_same_data_and_is_the_same_each_time() {
        for text in ["", "a", &"a".repeat(300), POD_LOGS_QUERY] {
            assert_eq!(gunzip(&gzip(text.as_bytes())), text);
            assert_eq!(gzip(text.as_bytes()), gzip(text.as_bytes()));
        }
    }

    #[test]
    fn a_link_carries_the_whole_query_after_the_configured_address() {
        let template = crate::config::LogTemplate { template_uris: vec!["https://q/".into()], ..Default::default() };
        let azure = AzureLogTemplate { template, query_format: Some("pods | where name == \"{{.podName}}\"".into()) };
        let mut links = Vec::new();
        push_links(&azure, &LinkInput { pod_name: "p-1", ..LinkInput::default() }, &mut links);
        let escaped = links[0].uri.strip_prefix("https://q/").unwrap();
        assert!(escaped.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'%'), "{escaped}");
        let (encoded, _) = url::form_urlencoded::parse(escaped.as_bytes()).next().unwrap();
        assert_eq!(gunzip(&STANDARD.decode(encoded.as_bytes()).unwrap()), "pods | where name == \"p-1\"");
    }
}
