//! Log links: the `plugins.logs` section, and the same shape inside the sections of single plugins.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{self, null_if_empty};

/// Link template for the Kubernetes dashboard of a local sandbox, upstream's default.
const SANDBOX_DASHBOARD_TEMPLATE: &str =
    "http://localhost:30082/#!/log/{{ .namespace }}/{{ .podName }}/pod?namespace={{ .namespace }}";

/// Which log links a task gets.
///
/// The plain default has every source switched off; [`LogConfig::kubernetes`] is what `plugins.logs` starts from.
///
/// ```
/// use aileron_machinery::config::LogConfig;
/// use aileron_machinery::log_links::{LinkInput, LogLinks};
///
/// let config = LogConfig::kubernetes();
/// let input = LinkInput { pod_name: "p-1", namespace: "team", ..LinkInput::default() };
/// let links = LogLinks::new(&config, None).links(&input);
/// assert_eq!(links[0].uri, "http://localhost:30082/#!/log/team/p-1/pod?namespace=team");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(transform = schema::without_example)]
pub struct LogConfig {
    /// Adds a link to AWS CloudWatch.
    pub cloudwatch_enabled: bool,
    /// AWS region of the CloudWatch logs. Deprecated: use `cloudwatch-template-uri`.
    pub cloudwatch_region: String,
    /// CloudWatch log group of the streams. Deprecated: use `cloudwatch-template-uri`.
    pub cloudwatch_log_group: String,
    /// Template of the CloudWatch link. If set, region and log group are not used.
    pub cloudwatch_template_uri: String,
    /// Adds a link to a Kubernetes dashboard.
    pub kubernetes_enabled: bool,
    /// Base URL of the Kubernetes dashboard. Deprecated: use `kubernetes-template-uri`.
    pub kubernetes_url: String,
    /// Template of the link to the Kubernetes dashboard. If set, `kubernetes-url` is not used.
    pub kubernetes_template_uri: String,
    /// Adds a link to Google Cloud Logging (Stackdriver).
    pub stackdriver_enabled: bool,
    /// Google Cloud project. Deprecated: use `stackdriver-template-uri`.
    pub gcp_project: String,
    /// Resource name of the logs in Google Cloud Logging. Deprecated: use `stackdriver-template-uri`.
    #[serde(rename = "stackdriver-logresourcename")]
    pub stackdriver_log_resource_name: String,
    /// Template of the Google Cloud Logging link. If set, project and resource name are not used.
    pub stackdriver_template_uri: String,
    /// Links that a task requests by name in its configuration `link_type`. The key is that name.
    #[schemars(extend("x-no-effect" = {
        "dynamicTemplateUris": "use `templateUris`",
        "messageFormat": "it is always JSON",
        "name": "the key of the entry is the name"
    }))]
    #[serde(serialize_with = "null_if_empty")]
    pub dynamic_log_links: BTreeMap<String, LogTemplate>,
    /// Additional links for every task.
    #[serde(serialize_with = "null_if_empty")]
    pub templates: Vec<LogTemplate>,
    /// Links to Azure Log Analytics.
    #[schemars(extend("x-no-effect" = {
        "dynamicTemplateUris": "not used for Azure links",
        "hideOnceFinished": "not used for Azure links",
        "linkType": "not used for Azure links",
        "messageFormat": "not used for Azure links",
        "name": "not used for Azure links",
        "showWhilePending": "not used for Azure links"
    }))]
    #[serde(serialize_with = "null_if_empty")]
    pub azure_log_templates: Vec<AzureLogTemplate>,
}

/// A log link. Its templates contain variables with data of the pod and the task, such as `{{ .podName }}`.
///
/// ```
/// use aileron_machinery::config::LogTemplate;
/// use aileron_machinery::serde_json::{self, json};
///
/// let template: LogTemplate = serde_json::from_value(json!({
///     "displayName": "Loki", "templateUris": ["https://loki.example.com/{{ .namespace }}/{{ .podName }}"],
/// }))?;
/// assert_eq!((template.display_name.as_str(), template.template_uris.len()), ("Loki", 1));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::without_example)]
pub struct LogTemplate {
    /// The name by which a task requests the links of `dynamicTemplateUris`.
    pub name: String,
    /// The displayed name of the link.
    pub display_name: String,
    /// Templates of the URL. Each template gives one link.
    #[serde(serialize_with = "null_if_empty")]
    pub template_uris: Vec<String>,
    /// Templates of the URL of links that a task requests by `name`. Each template gives one link.
    #[serde(serialize_with = "null_if_empty")]
    pub dynamic_template_uris: Vec<String>,
    /// Format of the log messages: 0 unknown, 1 CSV, 2 JSON.
    pub message_format: i32,
    /// Which data the templates may use.
    #[schemars(extend("x-no-effect" = "templates may use all data"))]
    pub scheme: TemplateScheme,
    /// Shows the link while the task is pending.
    pub show_while_pending: bool,
    /// Hides the link when the task has finished.
    pub hide_once_finished: bool,
    /// `external`, `dashboard` or `ide`. Any other value counts as `external`.
    pub link_type: String,
    /// URL of an icon for the link.
    #[schemars(extend("x-no-effect" = "it is not sent with the link, as in Flyte's executor"))]
    pub icon_uri: String,
}

/// A link whose query is compressed in the form that Azure expects.
///
/// ```
/// use aileron_machinery::config::{AzureLogTemplate, LogConfig, LogTemplate};
/// use aileron_machinery::log_links::{LinkInput, LogLinks};
///
/// let template = LogTemplate { template_uris: vec!["https://portal.example.com/q/".into()], ..Default::default() };
/// let link = AzureLogTemplate { template, query_format: Some("Logs | where Pod == \"{{ .podName }}\"".into()) };
/// let config = LogConfig { azure_log_templates: vec![link], ..LogConfig::default() };
/// let links = LogLinks::new(&config, None).links(&LinkInput { pod_name: "p-1", ..LinkInput::default() });
/// assert!(links[0].uri.starts_with("https://portal.example.com/q/H4sI"), "the query is compressed");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::without_example)]
pub struct AzureLogTemplate {
    /// The keys of an ordinary link.
    #[serde(flatten)]
    pub template: LogTemplate,
    /// The query in plain text. Not set means the built-in query for the logs of the pod.
    pub query_format: Option<String>,
}

/// Which data a link template may use.
///
/// ```
/// use aileron_machinery::config::{LogTemplate, TemplateScheme};
///
/// assert_eq!(LogTemplate::default().scheme, TemplateScheme::Pod);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::without_example)]
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
