//! Whether an object has ended, and when.

use std::any::Any;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::pod::phase::is_terminal;
use crate::pod::times::completed_at;

/// Types of conditions that say, with status `True`, that an object has ended well.
const SUCCESS_CONDITIONS: [&str; 4] = ["Complete", "Completed", "Succeeded", "Finished"];
/// The type of condition that says that an object has failed.
const FAILURE_CONDITION: &str = "Failed";

/// An object will not change its outcome any more.
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
///     fn ended(&self, kettle: &Pod) -> Option<Ended> {
///         let status = kettle.status.as_ref()?;
///         match status.phase.as_deref()? {
///             "Boiled" => Some(Ended::well(None)),
///             "Broken" => Some(Ended::badly(status.start_time.as_ref().map(|time| time.0))),
///             _ => None,
///         }
///     }
/// }
/// assert_eq!(Kettles.ended(&Pod::default()), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Ended {
    /// When it ended, if that can be told.
    pub at: Option<Timestamp>,
    /// It says that it failed. The manager then fetches the error document for a plugin that [needs](crate::Needs) it.
    pub failed: bool,
}

impl Ended {
    /// Ended, at this time if that can be told, and whether it failed.
    ///
    /// ```
    /// use aileron_machinery::Ended;
    ///
    /// assert_eq!(Ended::new(None, true), Ended::badly(None));
    /// ```
    pub fn new(at: Option<Timestamp>, failed: bool) -> Self {
        Self { at, failed }
    }

    /// Ended well.
    pub fn well(at: impl Into<Option<Timestamp>>) -> Self {
        Self { at: at.into(), failed: false }
    }

    /// Failed.
    pub fn badly(at: impl Into<Option<Timestamp>>) -> Self {
        Self { at: at.into(), failed: true }
    }

    /// A pod ends with its phase `Succeeded` or `Failed`, at the end of its last container.
    ///
    /// ```
    /// use aileron_machinery::Ended;
    /// use aileron_machinery::testing::pod;
    /// # use aileron_machinery::serde_json::json;
    ///
    /// assert_eq!(Ended::of_pod(&pod("p-1", "main", &json!({"phase": "Failed"}))), Some(Ended::badly(None)));
    /// assert_eq!(Ended::of_pod(&pod("p-1", "main", &json!({"phase": "Running"}))), None);
    /// ```
    pub fn of_pod(pod: &Pod) -> Option<Self> {
        let failed = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed");
        is_terminal(pod).then(|| Self { at: completed_at(pod), failed })
    }

    /// By convention, an object has ended when `status.phase` is `Succeeded` or `Failed`, or when one of the conditions
    /// `Complete`, `Completed`, `Succeeded`, `Finished` and `Failed` is `True`; at `status.completionTime`, else when
    /// that condition became true.
    ///
    /// ```
    /// use aileron_machinery::Ended;
    /// use aileron_machinery::serde_json::json;
    ///
    /// let job = json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}});
    /// assert_eq!(Ended::by_convention(&job), Some(Ended::well(None)));
    /// ```
    pub fn by_convention(object: &Value) -> Option<Self> {
        let status = object.get("status")?;
        let completion = time(status.get("completionTime"));
        match status.get("phase").and_then(Value::as_str) {
            Some("Succeeded") => return Some(Self::well(completion)),
            Some("Failed") => return Some(Self::badly(completion)),
            _ => {}
        }
        let conditions = status.get("conditions").and_then(Value::as_array)?;
        conditions.iter().filter(|condition| condition["status"] == "True").find_map(|condition| {
            let kind = condition["type"].as_str()?;
            let failed = kind == FAILURE_CONDITION;
            let ended = failed || SUCCESS_CONDITIONS.contains(&kind);
            ended.then(|| Self { at: completion.or_else(|| time(condition.get("lastTransitionTime"))), failed })
        })
    }

    /// The default for a typed object: pods by their phase, everything else by convention.
    pub(crate) fn of_resource<R: Serialize + Any>(resource: &R) -> Option<Self> {
        match (resource as &dyn Any).downcast_ref::<Pod>() {
            Some(pod) => Self::of_pod(pod),
            None => Self::by_convention(&serde_json::to_value(resource).ok()?),
        }
    }
}

fn time(value: Option<&Value>) -> Option<Timestamp> {
    value.and_then(Value::as_str).and_then(|text| text.parse().ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use k8s_openapi::api::batch::v1::Job;
    use serde_json::json;

    use super::*;

    const END: &str = "2009-11-10T22:30:00Z";

    fn end() -> Timestamp {
        END.parse().unwrap()
    }

    #[test]
    fn conditions_and_phases_tell_the_end_by_convention() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": END});
        let of = |status: Value| Ended::by_convention(&json!({"status": status}));
        for kind in SUCCESS_CONDITIONS {
            assert_eq!(of(json!({"conditions": [condition(kind, "True")]})), Some(Ended::well(end())), "{kind}");
        }
        assert_eq!(of(json!({"conditions": [condition("Failed", "True")]})), Some(Ended::badly(end())));
        assert_eq!(of(json!({"conditions": [condition("Failed", "False"), condition("Running", "True")]})), None);
        assert_eq!(of(json!({"phase": "Succeeded", "completionTime": END})), Some(Ended::well(end())));
        assert_eq!(of(json!({"phase": "Running"})), None);
        assert_eq!(Ended::by_convention(&json!({})), None);
    }

    #[test]
    fn typed_objects_have_an_end_without_any_code_of_the_plugin() {
        let job: Job = serde_json::from_value(json!({"metadata": {}, "status": {"completionTime": END,
            "conditions": [{"type": "Complete", "status": "True"}]}}))
        .unwrap();
        assert_eq!(Ended::of_resource(&job), Some(Ended::well(end())));
        let pod = |phase: &str| -> Pod {
            serde_json::from_value(json!({"status": {"phase": phase, "startTime": END}})).unwrap()
        };
        assert_eq!(Ended::of_resource(&pod("Failed")), Some(Ended::badly(end())));
        assert_eq!(Ended::of_resource(&pod("Running")), None);
    }
}
