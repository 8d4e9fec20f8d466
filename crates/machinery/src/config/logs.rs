//! Log links: the `plugins.logs` section, and the same shape inside the sections of single plugins.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::null_if_empty;

/// Link template for the Kubernetes dashboard of a local sandbox, upstream's default.
const SANDBOX_DASHBOARD_TEMPLATE: &str =
    "http://localhost:30082/#!/log/{{ .namespace }}/{{ .podName }}/pod?namespace={{ .namespace }}";

/// Which log links a task gets.
///
/// The plain default has every source switched off; [`LogConfig::kubernetes`] is what `plugins.logs` starts from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct LogConfig {
    /// Adds a link to AWS CloudWatch.
    pub cloudwatch_enabled: bool,
    /// AWS region of the CloudWatch logs. Deprecated: use `cloudwatch-template-uri`.
    pub cloudwatch_region: String,
    /// CloudWatch log group of the streams. Deprecated: use `cloudwatch-template-uri`.
    pub cloudwatch_log_group: String,
    /// Template of the CloudWatch link; replaces region and log group.
    pub cloudwatch_template_uri: String,
    /// Adds a link to a Kubernetes dashboard.
    pub kubernetes_enabled: bool,
    /// Base address of the Kubernetes dashboard. Deprecated: use `kubernetes-template-uri`.
    pub kubernetes_url: String,
    /// Template of the Kubernetes dashboard link; replaces the base address.
    pub kubernetes_template_uri: String,
    /// Adds a link to Google Cloud Logging (Stackdriver).
    pub stackdriver_enabled: bool,
    /// Google Cloud project. Deprecated: use `stackdriver-template-uri`.
    pub gcp_project: String,
    /// Resource name of the logs in Google Cloud Logging. Deprecated: use `stackdriver-template-uri`.
    #[serde(rename = "stackdriver-logresourcename")]
    pub stackdriver_log_resource_name: String,
    /// Template of the Google Cloud Logging link; replaces project and resource name.
    pub stackdriver_template_uri: String,
    /// Links a task asks for by name (its `link_type` configuration), keyed by that name.
    #[serde(serialize_with = "null_if_empty")]
    pub dynamic_log_links: BTreeMap<String, LogTemplate>,
    /// Further links that every task gets.
    #[serde(serialize_with = "null_if_empty")]
    pub templates: Vec<LogTemplate>,
    /// Links into Azure Log Analytics.
    #[serde(serialize_with = "null_if_empty")]
    pub azure_log_templates: Vec<AzureLogTemplate>,
}

/// One link, written as templates over the pod's and the task's data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LogTemplate {
    /// Name of the link source.
    pub name: String,
    /// Text of the link.
    pub display_name: String,
    /// Templates of the address; one link each.
    #[serde(serialize_with = "null_if_empty")]
    pub template_uris: Vec<String>,
    /// Templates of the address of a dynamic link.
    #[serde(serialize_with = "null_if_empty")]
    pub dynamic_template_uris: Vec<String>,
    /// Format of the log messages: 0 unknown, 1 CSV, 2 JSON.
    pub message_format: i32,
    /// Which data the template may use. Deprecated: has no effect any more.
    pub scheme: TemplateScheme,
    /// Shows the link while the task is still pending.
    pub show_while_pending: bool,
    /// Hides the link when the task has finished.
    pub hide_once_finished: bool,
    /// `external`, `dashboard` or `ide`; other words count as `external`.
    pub link_type: String,
    /// Address of an icon for the link.
    pub icon_uri: String,
}

/// A link whose query part is compressed the way Azure expects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct AzureLogTemplate {
    /// Everything an ordinary link has.
    #[serde(flatten)]
    pub template: LogTemplate,
    /// The query in plain text; absent means the built-in query for the pod's logs.
    pub query_format: Option<String>,
}

/// Which data a link template may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TemplateScheme {
    /// Data of the pod.
    #[default]
    Pod,
    /// Data of the task execution.
    TaskExecution,
}

impl LogConfig {
    /// Links to the Kubernetes dashboard of a local sandbox: what `plugins.logs` holds when nothing is configured.
    #[must_use]
    pub fn kubernetes() -> Self {
        Self { kubernetes_enabled: true, kubernetes_template_uri: SANDBOX_DASHBOARD_TEMPLATE.into(), ..Self::default() }
    }
}
