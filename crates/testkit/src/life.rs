//! What happens to the object of an attempt: the states that its operator, or the node, gives it one after the other.

use std::fmt;
use std::sync::Arc;

use aileron_machinery::Phase;
use aileron_machinery::testing::NOW;
use serde_json::{Value, json};

type StatusOf = dyn Fn(&Value) -> Value + Send + Sync;

/// The states of one object in the order in which they happen, and the phase that the plugin must read from each.
///
/// The first state, an object without a status, need not be named.
///
/// ```
/// use aileron_machinery::Phase;
/// use aileron_machinery::serde_json::json;
/// use aileron_testkit::Life;
///
/// let life = Life::new("boils")
///     .status(json!({"phase": "Heating"}), Phase::Running)
///     .status(json!({"phase": "Succeeded"}), Phase::Success);
/// assert_eq!(life.steps().len(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Life {
    name: String,
    steps: Vec<Step>,
}

/// One state of an object.
#[derive(Clone)]
pub struct Step {
    status: Arc<StatusOf>,
    phase: Phase,
}

impl Life {
    /// A life without states. The name stands in reports.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), steps: Vec::new() }
    }

    /// Then the object has this status, and its attempt is in this phase.
    #[must_use]
    pub fn status(self, status: Value, phase: Phase) -> Self {
        self.status_of(move |_| status.clone(), phase)
    }

    /// Then the object has a status that depends on the object itself, for example on the names of its containers.
    #[must_use]
    pub fn status_of(mut self, status: impl Fn(&Value) -> Value + Send + Sync + 'static, phase: Phase) -> Self {
        self.steps.push(Step { status: Arc::new(status), phase });
        self
    }

    /// The life of a pod whose containers all end well.
    ///
    /// ```
    /// assert_eq!(aileron_testkit::Life::pod_succeeds().name(), "the pod succeeds");
    /// ```
    pub fn pod_succeeds() -> Self {
        Self::new("the pod succeeds")
            .status_of(
                |pod| pod_status(pod, "Pending", &json!({"waiting": {"reason": "ContainerCreating"}})),
                Phase::Initializing,
            )
            .status_of(|pod| pod_status(pod, "Running", &json!({"running": {"startedAt": NOW}})), Phase::Running)
            .status_of(|pod| pod_status(pod, "Succeeded", &terminated(0)), Phase::Success)
    }

    /// The life of a pod whose containers end with exit code 1.
    ///
    /// ```
    /// assert_eq!(aileron_testkit::Life::pod_fails().name(), "the pod fails");
    /// ```
    pub fn pod_fails() -> Self {
        Self::new("the pod fails")
            .status_of(|pod| pod_status(pod, "Running", &json!({"running": {"startedAt": NOW}})), Phase::Running)
            .status_of(|pod| pod_status(pod, "Failed", &terminated(1)), Phase::RetryableFailure)
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The states.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The phase at the end; `Undefined` for a life without states.
    pub fn last_phase(&self) -> Phase {
        self.steps.last().map_or(Phase::Undefined, Step::phase)
    }
}

impl Step {
    /// The status of this object.
    pub fn status(&self, object: &Value) -> Value {
        (self.status)(object)
    }

    /// The phase that the plugin must read.
    pub fn phase(&self) -> Phase {
        self.phase
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("phase", &self.phase).finish_non_exhaustive()
    }
}

fn terminated(exit_code: i32) -> Value {
    let reason = if exit_code == 0 { "Completed" } else { "Error" };
    json!({"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": NOW, "finishedAt": NOW}})
}

/// A pod all of whose containers are in this state.
fn pod_status(pod: &Value, phase: &str, state: &Value) -> Value {
    let containers = pod["spec"]["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let statuses = containers.iter().map(|container| {
        let ready = state.get("running").is_some();
        json!({
            "name": container["name"], "image": "", "imageID": "", "ready": ready, "restartCount": 0, "state": state,
        })
    });
    let is_running = phase == "Running";
    let condition = |kind: &str, holds: bool| {
        let reason = if holds { Value::Null } else { "ContainersNotReady".into() };
        json!({"type": kind, "status": if holds { "True" } else { "False" }, "reason": reason, "lastTransitionTime": NOW})
    };
    json!({
        "phase": phase, "startTime": NOW, "containerStatuses": statuses.collect::<Vec<_>>(),
        "conditions": [
            condition("PodScheduled", true), condition("ContainersReady", is_running), condition("Ready", is_running),
        ],
    })
}
