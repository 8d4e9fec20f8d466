//! What a plugin reads a phase from, besides the object.

use std::sync::Arc;

use aileron_idl::flyteidl2::core::ErrorDocument;
use k8s_openapi::api::core::v1::Pod;

use super::ObservedPhase;
use crate::task::TaskContext;

/// What `K8sPlugin::phase` may look at.
///
/// ```
/// use aileron_machinery::testing::{pod, task};
/// use aileron_machinery::{ObservedPhase, PhaseContext};
/// # use aileron_machinery::idl::flyteidl2::core::ErrorDocument;
/// # use aileron_machinery::serde_json::{Value, json};
///
/// let task = task("batch", &Value::Null);
/// let pods = [pod("worker-0", "main", &json!({"phase": "Running"}))];
/// let document = ErrorDocument::default();
/// let prior = ObservedPhase::default();
/// let context = PhaseContext::new(&task, &prior).with_pods(&pods).with_error_document(Some(&document));
/// assert_eq!(context.pods.len(), 1);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PhaseContext<'a> {
    /// The attempt.
    pub task: &'a TaskContext,
    /// What the round before saw.
    pub prior: &'a ObservedPhase,
    /// Pods of the attempt, if the plugin needs them, by name.
    pub pods: &'a [Arc<Pod>],
    /// The error document, if the plugin needs it, the object has failed, and there is one.
    pub error_document: Option<&'a ErrorDocument>,
}

impl<'a> PhaseContext<'a> {
    /// The attempt and what the round before saw; nothing that has to be fetched.
    pub fn new(task: &'a TaskContext, prior: &'a ObservedPhase) -> Self {
        Self { task, prior, pods: &[], error_document: None }
    }

    /// The same with the pods of the attempt.
    #[must_use]
    pub fn with_pods(self, pods: &'a [Arc<Pod>]) -> Self {
        Self { pods, ..self }
    }

    /// The same with the error document of the attempt.
    #[must_use]
    pub fn with_error_document(self, error_document: Option<&'a ErrorDocument>) -> Self {
        Self { error_document, ..self }
    }
}
