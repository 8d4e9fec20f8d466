//! A pod while it is being built.

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::PRIMARY_CONTAINER_KEY;
use crate::PluginError;

/// A pod while layers are applied to it.
///
/// ```
/// use aileron_machinery::pod::build_pod;
/// use aileron_machinery::testing::{task, variable};
/// # use aileron_machinery::serde_json::Value;
///
/// let mut draft = build_pod(&task("kettle", &Value::Null), Default::default())?;
/// draft.set_variable("LITRES", "2")?;
/// draft.primary()?.working_dir = Some("/kitchen".into());
/// draft.label("kitchen.example.com/room", "2");
/// draft.annotate("kitchen.example.com/note", "boils twice");
/// draft.end_with_primary();
/// let pod = draft.into_pod();
/// assert_eq!(variable(&pod, "LITRES"), Some("2"));
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodDraft {
    /// Labels and annotations.
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: PodSpec,
    /// Name of the container that runs the task.
    pub primary_container: String,
}

impl PodDraft {
    /// The container that runs the task.
    pub fn primary(&mut self) -> Result<&mut Container, PluginError> {
        let name = &self.primary_container;
        // If several containers have this name, the last one, as upstream. The API server refuses such a pod.
        self.spec.containers.iter_mut().rfind(|container| container.name == *name).ok_or_else(|| {
            PluginError::bad_task_specification(format!(
                "invalid TaskSpecification, primary container [{name}] not defined"
            ))
        })
    }

    /// Sets an environment variable of the container that runs the task. Replaces a variable of the same name.
    pub fn set_variable(&mut self, name: &str, value: impl Into<String>) -> Result<(), PluginError> {
        let variables = self.primary()?.env.get_or_insert_default();
        variables.retain(|variable| variable.name != name);
        variables.push(EnvVar { name: name.to_owned(), value: Some(value.into()), value_from: None });
        Ok(())
    }

    /// The task ends when the container that runs it ends, even if other containers still run.
    pub fn end_with_primary(&mut self) {
        self.annotate(PRIMARY_CONTAINER_KEY, self.primary_container.clone());
    }

    /// The finished pod.
    pub fn into_pod(self) -> Pod {
        Pod { metadata: self.metadata, spec: Some(self.spec), status: None }
    }

    /// Adds a label. Replaces one of the same name.
    pub fn label(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.metadata.labels.get_or_insert_default().insert(name.into(), value.into());
    }

    /// Adds an annotation. Replaces one of the same name.
    pub fn annotate(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.metadata.annotations.get_or_insert_default().insert(name.into(), value.into());
    }
}
