//! What a plugin declares about itself and its tasks, as plain values.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::kind::ObjectRef;
use crate::TaskContext;
use crate::pod::needs_inputs;

/// How the plugin manager must treat a plugin's objects.
///
/// ```
/// use aileron_machinery::PluginProperties;
///
/// // The operator appends 16 characters to the names of objects, and deletes them itself.
/// let properties = PluginProperties::default().with_name_max_length(47).without_delete_on_finalize();
/// assert_eq!(properties.generated_name_max_length, Some(47));
/// assert!(properties.disable_delete_on_finalize);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct PluginProperties {
    /// Longest name its objects may have, where the operator derives longer names from it.
    pub generated_name_max_length: Option<usize>,
    /// Its objects must not be owned by the action.
    pub disable_owner_references: bool,
    /// Its objects must not get our finalizer.
    pub disable_finalizer: bool,
    /// Its objects must outlive the action.
    pub disable_delete_on_finalize: bool,
    /// The plugin reads the definition of its kind, so that one request fetches the definition whenever it changes.
    pub reads_definition: bool,
}

impl PluginProperties {
    /// Names of objects are shortened to this length, without losing uniqueness.
    #[must_use]
    pub fn with_name_max_length(mut self, length: usize) -> Self {
        self.generated_name_max_length = Some(length);
        self
    }

    /// Objects get no owner reference.
    ///
    /// ```
    /// use aileron_machinery::PluginProperties;
    ///
    /// // Objects that outlive their action and that the executor does not hold back.
    /// let properties = PluginProperties::default().without_owner_references().without_finalizer();
    /// assert!(properties.disable_owner_references && properties.disable_finalizer);
    /// ```
    #[must_use]
    pub fn without_owner_references(mut self) -> Self {
        self.disable_owner_references = true;
        self
    }

    /// Objects get no finalizer.
    #[must_use]
    pub fn without_finalizer(mut self) -> Self {
        self.disable_finalizer = true;
        self
    }

    /// Objects are never deleted after their end.
    #[must_use]
    pub fn without_delete_on_finalize(mut self) -> Self {
        self.disable_delete_on_finalize = true;
        self
    }

    /// The definition of the kind is given to `read_definition`.
    ///
    /// ```
    /// use aileron_machinery::PluginProperties;
    ///
    /// assert!(PluginProperties::default().with_definition().reads_definition);
    /// ```
    #[must_use]
    pub fn with_definition(mut self) -> Self {
        self.reads_definition = true;
        self
    }
}

/// What the plugin manager must fetch before it calls the plugin, since the plugin cannot fetch anything itself.
///
/// ```
/// use aileron_machinery::Needs;
/// use aileron_machinery::testing::task;
/// # use aileron_machinery::serde_json::Value;
///
/// let task = task("batch", &Value::Null);
/// let needs = Needs::of_pod(&task).with_pods().with_error_document();
/// assert!(needs.pods && needs.error_document);
/// assert!(!needs.inputs, "no argument of this task refers to an input");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Needs {
    /// The input literals, for `build`. One read from storage.
    pub inputs: bool,
    /// The pods that bear the labels of the attempt, for `phase`. They come from the watch cache.
    pub pods: bool,
    /// The error document that the task may have written, for `phase`. One read from storage in every round after
    /// `ended` has said that the object failed; before that, and for an object that ended well, the document is absent.
    /// (A success is checked against the error document by the manager itself.)
    pub error_document: bool,
    /// The pod that the platform builds for the task, for `build`.
    pub base_pod: bool,
}

impl Needs {
    /// Nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// What [`build_pod`](crate::pod::build_pod) needs: the inputs, if arguments of the task refer to them.
    pub fn of_pod(task: &TaskContext) -> Self {
        Self::none().with_inputs_if(needs_inputs(task))
    }

    /// Also the inputs.
    ///
    /// ```
    /// use aileron_machinery::Needs;
    ///
    /// assert!(Needs::none().with_inputs().inputs);
    /// ```
    #[must_use]
    pub fn with_inputs(self) -> Self {
        self.with_inputs_if(true)
    }

    /// Also the inputs, on a condition.
    ///
    /// ```
    /// use aileron_machinery::{Needs, arguments};
    ///
    /// // A plugin with arguments of its own in `custom`.
    /// let arguments = ["--litres={{ .inputs.litres }}".to_owned()];
    /// assert!(Needs::none().with_inputs_if(arguments::needs_inputs(&arguments)).inputs);
    /// ```
    #[must_use]
    pub fn with_inputs_if(mut self, condition: bool) -> Self {
        self.inputs |= condition;
        self
    }

    /// Also the pods of the attempt.
    #[must_use]
    pub fn with_pods(mut self) -> Self {
        self.pods = true;
        self
    }

    /// Also the error document of a failed object.
    #[must_use]
    pub fn with_error_document(mut self) -> Self {
        self.error_document = true;
        self
    }

    /// Also the pod that the platform builds for the task.
    ///
    /// ```
    /// use aileron_machinery::Needs;
    ///
    /// // For an `ObjectPlugin` that cannot call `build_pod`: the pod is `task.base_pod`.
    /// assert!(Needs::none().with_base_pod().base_pod);
    /// ```
    #[must_use]
    pub fn with_base_pod(mut self) -> Self {
        self.base_pod = true;
        self
    }
}

/// A wish for one token of a pool, such as a licence, that an action holds until it has ended.
///
/// ```
/// # use aileron_machinery::{k8s_openapi::api::core::v1::Pod, *};
/// # struct Kettles;
/// impl K8sPlugin for Kettles {
/// #     type Resource = Pod;
/// #     fn entry(&self) -> PluginEntry { PluginEntry::new("kettles", &["kettle"]) }
/// #     fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> { Ok(Pod::default()) }
/// #     fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
/// #         Ok(PhaseInfo::undefined())
/// #     }
///     fn token(&self, _: &TaskContext) -> Option<TokenRequest> {
///         Some(TokenRequest { pool: "power-sockets".into() })
///     }
/// }
/// assert_eq!(Kettles.token(&testing::task("kettle", &serde_json::Value::Null)).unwrap().pool, "power-sockets");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TokenRequest {
    /// The name of the pool, as `tasks.pools` has it.
    pub pool: String,
}

/// How an attempt is stopped. The object is the attempt's own unless the plugin names another one with `target`.
///
/// The manager checks that the attempt's own object bears the marks of the attempt before it touches the object. An
/// object that the plugin names is not checked: naming the right one is the responsibility of the plugin.
///
/// ```
/// use aileron_machinery::AbortBehavior;
/// use aileron_machinery::serde_json::json;
///
/// // The operator stops a job by a field. If the API server refuses the patch, the object is deleted.
/// let suspend =
///     AbortBehavior::Patch { patch: json!({"spec": {"suspend": true}}), target: None, delete_on_error: true };
/// assert_ne!(suspend, AbortBehavior::default());
/// assert_eq!(AbortBehavior::default(), AbortBehavior::Delete { target: None });
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "camelCase")]
pub enum AbortBehavior {
    /// Delete the object.
    Delete {
        /// Another object to delete instead of the attempt's own.
        #[serde(default)]
        target: Option<ObjectRef>,
    },
    /// Apply a JSON merge patch to the object, for operators that stop a job by a field such as `spec.suspend`.
    Patch {
        /// The merge patch.
        patch: Value,
        /// Another object to patch instead of the attempt's own.
        #[serde(default)]
        target: Option<ObjectRef>,
        /// Delete the object if the API server refuses the patch.
        #[serde(default)]
        delete_on_error: bool,
    },
}

impl Default for AbortBehavior {
    fn default() -> Self {
        Self::Delete { target: None }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn each_property_has_a_method_that_sets_it() {
        let properties = PluginProperties::default().without_owner_references().without_finalizer();
        let properties = properties.without_delete_on_finalize().with_definition();
        let written = json!({
            "generatedNameMaxLength": null, "disableOwnerReferences": true, "disableFinalizer": true,
            "disableDeleteOnFinalize": true, "readsDefinition": true,
        });
        assert_eq!(serde_json::to_value(properties).unwrap(), written);
    }

    #[test]
    fn values_that_leave_out_fields_are_read() {
        assert_eq!(serde_json::from_value::<Needs>(json!({"pods": true})).unwrap(), Needs::none().with_pods());
        assert_eq!(serde_json::from_value::<AbortBehavior>(json!({"do": "delete"})).unwrap(), AbortBehavior::default());
        let bounded = json!({"generatedNameMaxLength": 47});
        assert_eq!(
            serde_json::from_value::<PluginProperties>(bounded).unwrap(),
            PluginProperties::default().with_name_max_length(47)
        );
    }
}
