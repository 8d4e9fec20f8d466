//! Tasks that start an editor instead of their code.

use k8s_openapi::api::core::v1::{Container, EnvVar, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The variable that turns a task into an editor session.
///
/// ```
/// use aileron_machinery::pod::env_var;
/// use aileron_machinery::pod::vscode::{ENABLE_VSCODE, is_vscode_enabled};
///
/// assert!(is_vscode_enabled(&[env_var::text(ENABLE_VSCODE, "true")]));
/// ```
pub const ENABLE_VSCODE: &str = "_F_E_VS";

/// Only current SDKs set this variable; their editor listens on another port.
const ACTION_NAME: &str = "ACTION_NAME";
const CURRENT_PORT: i32 = 6060;
const OLDER_PORT: i32 = 8080;

/// Whether the environment asks for an editor. Mirrors `flytek8s.IsVscodeEnabled`.
///
/// ```
/// use aileron_machinery::pod::env_var;
/// use aileron_machinery::pod::vscode::is_vscode_enabled;
///
/// assert!(is_vscode_enabled(&[env_var::text("_F_E_VS", "1")]));
/// assert!(!is_vscode_enabled(&[]));
/// ```
pub fn is_vscode_enabled(env: &[EnvVar]) -> bool {
    let value =
        env.iter().find(|variable| variable.name == ENABLE_VSCODE).and_then(|variable| variable.value.as_deref());
    value.is_some_and(is_true)
}

/// The texts that Go's `strconv.ParseBool` reads as true.
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// Adds a readiness probe: the container is ready when the editor answers. The editor may need more than four minutes
/// to start, because it may have to be downloaded first.
///
/// ```
/// use aileron_machinery::k8s_openapi::api::core::v1::Container;
/// use aileron_machinery::pod::vscode::{add_readiness_probe, is_vscode_enabled};
/// # use aileron_machinery::pod::env_var;
///
/// let mut container = Container { env: Some(vec![env_var::text("_F_E_VS", "true")]), ..Container::default() };
/// if is_vscode_enabled(container.env.as_deref().unwrap_or_default()) {
///     add_readiness_probe(&mut container);
/// }
/// assert!(container.readiness_probe.is_some());
/// ```
pub fn add_readiness_probe(container: &mut Container) {
    let is_current = container.env.iter().flatten().any(|variable| variable.name == ACTION_NAME);
    let port = if is_current { CURRENT_PORT } else { OLDER_PORT };
    container.readiness_probe = Some(Probe {
        http_get: Some(HTTPGetAction { port: IntOrString::Int(port), ..Default::default() }),
        initial_delay_seconds: Some(15),
        period_seconds: Some(5),
        failure_threshold: Some(50),
        ..Default::default()
    });
}
