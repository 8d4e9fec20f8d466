//! Tasks that start an editor instead of their code.

use k8s_openapi::api::core::v1::{Container, EnvVar, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The variable that turns a task into an editor session.
pub const ENABLE_VSCODE: &str = "_F_E_VS";

/// Only current SDKs set this variable; their editor listens on another port.
const ACTION_NAME: &str = "ACTION_NAME";
const CURRENT_PORT: i32 = 6060;
const OLDER_PORT: i32 = 8080;

/// Whether the environment asks for an editor. Mirrors `flytek8s.IsVscodeEnabled`.
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
