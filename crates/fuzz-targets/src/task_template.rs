//! Any bytes as an encoded task template: a plugin is chosen, and its object is built.

use aileron_action::{Action, TaskAction, TaskActionSpec, Template};
use aileron_kubekit::names::is_subdomain;
use aileron_preview::render::Offline;
use k8s_openapi::ByteString;
use serde_json::Value;

use crate::answer::{Answer, explained};
use crate::error::TargetError;
use crate::installation::installations;

/// Builds objects from bytes.
#[derive(Clone)]
pub struct Builder {
    installations: Vec<Offline>,
}

impl Builder {
    /// Builds under the installations of this crate.
    ///
    /// # Errors
    /// When an installation cannot be made.
    pub fn new() -> Result<Self, TargetError> {
        Ok(Self::with(installations()?))
    }

    /// Builds under these installations; their templates are replaced.
    #[must_use]
    pub fn with(installations: Vec<Offline>) -> Self {
        Self { installations }
    }

    /// Builds the object of an encoded task template; the first byte chooses the installation.
    pub fn build(&self, data: &[u8]) -> Answer<Value> {
        let Some((choice, bytes)) = data.split_first() else { return Answer::Unreadable };
        let Some(installation) = self.installations.get(usize::from(*choice) % self.installations.len().max(1)) else {
            return Answer::Unreadable;
        };
        // As the executor decodes it.
        let spec = TaskActionSpec { task_template: ByteString(bytes.to_vec()), ..TaskActionSpec::default() };
        let Template::Decoded(template) = Action::new(TaskAction::new("a", spec), None).template else {
            return Answer::Unreadable;
        };
        let mut offline = installation.clone();
        // A type that is empty never gets as far as a plugin.
        offline.action.spec.task_type =
            if template.r#type.is_empty() { "python".to_owned() } else { template.r#type.clone() };
        offline.template = (*template).clone();
        render(&offline)
    }
}

/// Builds the object, and checks that it could be sent or that the error says something.
pub(crate) fn render(offline: &Offline) -> Answer<Value> {
    match offline.render() {
        Ok(rendered) => {
            check_object(&rendered.object);
            Answer::Made(rendered.object)
        }
        Err(error) => Answer::Refused(explained(&error)),
    }
}

fn check_object(object: &Value) {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    assert!(is_subdomain(name), "{name:?} cannot be the name of an object");
    assert!(object["kind"].is_string() && object["apiVersion"].is_string(), "an object without a kind");
    let has_container = || object["spec"]["containers"].as_array().is_some_and(|list| !list.is_empty());
    assert!(object["kind"] != "Pod" || has_container(), "a pod without containers");
}
