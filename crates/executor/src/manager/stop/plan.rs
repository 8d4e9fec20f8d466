//! What must be done to end an attempt. No I/O.

use aileron_action::object_identity::OBJECT_FINALIZER;
use aileron_machinery::config::K8sConfig;
use aileron_machinery::{AbortBehavior, ObjectRef, PluginProperties};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// How an object is stopped.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StopRequest {
    /// Delete it.
    Delete,
    /// Patch it.
    Patch {
        /// The merge patch.
        patch: Value,
        /// Delete it if the API server refuses the patch.
        delete_on_error: bool,
    },
}

/// Which object is stopped, and how.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StopPlan {
    pub(super) target: ObjectRef,
    /// The target is the attempt's own object, so its ownership is checked.
    pub(super) is_own: bool,
    pub(super) request: StopRequest,
}

/// The plan for the abort behaviour of the plugin.
pub(super) fn plan_stop(own: &ObjectRef, behavior: AbortBehavior) -> StopPlan {
    let (target, request) = match behavior {
        AbortBehavior::Delete { target } => (target, StopRequest::Delete),
        AbortBehavior::Patch { patch, target, delete_on_error } => {
            (target, StopRequest::Patch { patch, delete_on_error })
        }
    };
    let target = target.unwrap_or_else(|| own.clone());
    StopPlan { is_own: target == *own, target, request }
}

/// How an object is released after the end of its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReleasePlan {
    /// Our finalizer is removed.
    pub(super) remove_finalizer: bool,
    /// The object is deleted.
    pub(super) delete: bool,
}

/// Removes our finalizer where it is, and deletes the object if so configured.
pub(super) fn plan_release(found: &ObjectMeta, properties: &PluginProperties, config: &K8sConfig) -> ReleasePlan {
    ReleasePlan {
        remove_finalizer: found.finalizers.iter().flatten().any(|finalizer| finalizer == OBJECT_FINALIZER),
        delete: config.delete_resource_on_finalize && !properties.disable_delete_on_finalize,
    }
}

#[cfg(test)]
mod tests {
    use aileron_machinery::ResourceKind;
    use k8s_openapi::api::batch::v1::Job;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    fn own() -> ObjectRef {
        ObjectRef::new(ResourceKind::of::<Job>(), "ns", "r1-a0-0")
    }

    #[test]
    fn the_own_object_is_deleted_unless_the_plugin_wants_something_else() {
        let plan = plan_stop(&own(), AbortBehavior::default());
        assert_eq!(plan, StopPlan { target: own(), is_own: true, request: StopRequest::Delete });
        let suspend = json!({"spec": {"suspend": true}});
        let behavior = AbortBehavior::Patch { patch: suspend.clone(), target: None, delete_on_error: true };
        let request = StopRequest::Patch { patch: suspend, delete_on_error: true };
        assert_eq!(plan_stop(&own(), behavior), StopPlan { target: own(), is_own: true, request });
    }

    #[test]
    fn an_object_that_the_plugin_names_is_not_checked_for_the_marks_of_the_attempt() {
        let driver = ObjectRef::new(ResourceKind::of::<Pod>(), "ns", "driver");
        let plan = plan_stop(&own(), AbortBehavior::Delete { target: Some(driver.clone()) });
        assert_eq!(plan, StopPlan { target: driver, is_own: false, request: StopRequest::Delete });
        let named = plan_stop(&own(), AbortBehavior::Delete { target: Some(own()) });
        assert!(named.is_own, "also by its name, the own object stays the own object");
    }

    #[test]
    fn release_follows_configuration_and_plugin() {
        let finalizers = Some(vec!["other".to_owned(), OBJECT_FINALIZER.to_owned()]);
        let ours = ObjectMeta { finalizers, ..ObjectMeta::default() };
        let deletes = K8sConfig { delete_resource_on_finalize: true, ..K8sConfig::default() };
        let keeps = PluginProperties::default().without_delete_on_finalize();
        let plan = |found: &ObjectMeta, properties: &PluginProperties, config: &K8sConfig| {
            let plan = plan_release(found, properties, config);
            (plan.remove_finalizer, plan.delete)
        };
        let (foreign, plain) = (ObjectMeta::default(), PluginProperties::default());
        assert_eq!(plan(&ours, &plain, &deletes), (true, true));
        assert_eq!(plan(&ours, &keeps, &deletes), (true, false));
        assert_eq!(
            plan(&foreign, &plain, &K8sConfig::default()),
            (false, K8sConfig::default().delete_resource_on_finalize)
        );
    }
}
