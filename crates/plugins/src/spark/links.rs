//! Links from a Spark application to its logs and to Spark's own user interface.

use aileron_idl::flyteidl2::core::TaskLog;
use aileron_idl::flyteidl2::core::task_log::{LinkType, MessageFormat};
use aileron_machinery::TaskContext;
use aileron_machinery::log_links::{LinkInput, LogLinks};
use aileron_machinery::pod::vscode::is_vscode_enabled;

use super::config::SparkConfig;
use super::resource::{SparkApplication, SparkApplicationStatus, state};

/// The displayed name of the link to a driver's user interface, by which it is also recognised.
pub(super) const DRIVER_UI: &str = "Spark Driver UI";

/// Spark's user interface: the driver's while it runs, the history server's afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UserInterface {
    /// Under which name it stands in the custom information of a phase.
    pub(super) key: &'static str,
    name: &'static str,
    /// Its address.
    pub(super) uri: String,
}

impl UserInterface {
    /// The interface that an application has now.
    pub(super) fn of(status: &SparkApplicationStatus, config: &SparkConfig) -> Option<Self> {
        let history = &config.spark_history_server_url;
        let id = &status.spark_application_id;
        let address = &status.driver_info.web_ui_ingress_address;
        match status.application_state.state.as_str() {
            state::FAILED | state::COMPLETED if !id.is_empty() && !history.is_empty() => {
                Some(Self { key: "sparkHistoryUI", name: "Spark History UI", uri: format!("{history}/history/{id}") })
            }
            state::RUNNING if !address.is_empty() => {
                Some(Self { key: "sparkDriverUI", name: DRIVER_UI, uri: with_scheme(address) })
            }
            _ => None,
        }
    }

    /// The link to it. Consoles without a special view for Spark show only links.
    pub(super) fn link(&self) -> TaskLog {
        TaskLog {
            uri: self.uri.clone(),
            name: self.name.to_owned(),
            ready: true,
            message_format: MessageFormat::Json.into(),
            link_type: LinkType::Dashboard.into(),
            ..TaskLog::default()
        }
    }
}

/// Links to the logs of an application, by the four sections of the configuration.
///
/// # Differs from upstream
///
/// Links that a task asks for by name (`link_type`) appear here as they do for pods; upstream lost them.
pub(super) fn log_links(
    task: &TaskContext,
    config: &SparkConfig,
    application: &SparkApplication,
    status: &SparkApplicationStatus,
) -> Vec<TaskLog> {
    let logs = &config.logs;
    let of = |section| LogLinks::new(section, Some(&task.template));
    let input = |pod_name| LinkInput {
        pod_name,
        namespace: application.metadata.namespace.as_deref().unwrap_or_default(),
        id: Some(&task.metadata.id),
        template: Some(&task.template),
        ..LinkInput::default()
    };
    let driver = status.driver_info.pod_name.as_str();
    let name = application.metadata.name.as_deref().unwrap_or_default();

    let mut links = Vec::new();
    if !driver.is_empty() {
        let vscode = is_vscode_enabled(&application.spec.driver.env);
        links.extend(of(&logs.mixed).links(&LinkInput { vscode, ..input(driver) }));
    }
    links.extend(of(&logs.user).links(&input(driver)));
    links.extend(of(&logs.system).links(&input(name)));
    let all_user = of(&logs.all_user).links(&input(name));
    // They are about more than the driver, so they are useful before it runs.
    links.extend(all_user.into_iter().map(|link| TaskLog { show_while_pending: true, ..link }));
    links
}

/// The address with a scheme; only newer operators write one.
fn with_scheme(address: &str) -> String {
    if ["https://", "http://"].iter().any(|scheme| address.starts_with(scheme)) {
        address.to_owned()
    } else {
        format!("https://{address}")
    }
}
