//! The types of the `TaskAction` object.

mod byte_field;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The finalizer that keeps an action until its objects are stopped and the abort is reported.
pub const ACTION_FINALIZER: &str = "flyte.org/plugin-finalizer";

/// `spec.actionType` of an action that waits for a signal instead of running a task.
pub const ACTION_TYPE_CONDITION: &str = "condition";

/// What the control plane asks for. A missing text field reads as empty, so that the executor can answer a bad object with
/// a condition.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "flyte.org",
    version = "v1",
    kind = "TaskAction",
    plural = "taskactions",
    singular = "taskaction",
    namespaced,
    status = "TaskActionStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskActionSpec {
    /// Name of the run the action belongs to.
    #[schemars(length(min = 1, max = 30))]
    pub run_name: String,
    /// Project of the run.
    #[schemars(length(min = 1, max = 63))]
    pub project: String,
    /// Domain of the run.
    #[schemars(length(min = 1, max = 63))]
    pub domain: String,
    /// Name of the action, unique within the run.
    #[schemars(length(min = 1, max = 30))]
    pub action_name: String,
    /// The action that started this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 30))]
    pub parent_action_name: Option<String>,
    /// `task` (also when empty) or `condition`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action_type: String,
    /// Encoded `workflow.ConditionAction`, for conditions only.
    #[serde(skip_serializing_if = "is_empty_bytes", deserialize_with = "byte_field::deserialize")]
    #[schemars(with = "String", extend("format" = "byte"))]
    pub condition_spec: ByteString,
    /// Where the inputs are.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub input_uri: String,
    /// The location below which all outputs of the run are stored.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub run_output_base: String,
    /// Part of the key under which outputs are cached.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub cache_key: String,
    /// Decides which plugin handles the task.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub task_type: String,
    /// Name for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub short_name: String,
    /// Encoded `core.TaskTemplate`.
    #[serde(skip_serializing_if = "is_empty_bytes", deserialize_with = "byte_field::deserialize")]
    #[schemars(with = "String", extend("format" = "byte"))]
    pub task_template: ByteString,
    /// Environment variables that the run adds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env_vars: BTreeMap<String, String>,
    /// The task may run on interruptible nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interruptible: Option<bool>,
    /// Group of the action, if any.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub group: String,
}

/// The error of the last failed attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ErrorState {
    /// Stable code, for example `OOMKilled`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// `USER`, `SYSTEM` or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// What a person reads.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// One entry of the action's history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseTransition {
    /// The reason of the `Progressing` condition at that time.
    pub phase: String,
    /// When it was entered.
    pub occurred_at: Time,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// What the executor answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskActionStatus {
    /// A short summary as JSON text, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state_json: String,
    /// The state that the plugin stores, in the Go executor's encoding.
    #[serde(skip_serializing_if = "is_empty_bytes", deserialize_with = "byte_field::deserialize")]
    #[schemars(with = "String", extend("format" = "byte"))]
    pub plugin_state: ByteString,
    /// Version of that state.
    #[serde(skip_serializing_if = "is_zero_u8")]
    pub plugin_state_version: u8,
    /// Name of the plugin's phase.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub plugin_phase: String,
    /// Version within the phase.
    #[serde(skip_serializing_if = "is_zero_u32")]
    pub plugin_phase_version: u32,
    /// The current attempt, from 1; 0 before the first.
    #[serde(skip_serializing_if = "is_zero_u32")]
    pub attempts: u32,
    /// Failures charged to the platform.
    #[serde(skip_serializing_if = "is_zero_u32")]
    pub system_failures: u32,
    /// Number of the last `core.CatalogCacheStatus`.
    #[serde(skip_serializing_if = "is_zero_i32")]
    pub cache_status: i32,
    /// Where the action stands, for the control plane and for users.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How it got there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phase_history: Vec<PhaseTransition>,
    /// Why the last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_state: Option<ErrorState>,
    /// The signal: an encoded `core.Literal`. Condition actions only; written by the control plane.
    #[serde(skip_serializing_if = "is_empty_bytes", deserialize_with = "byte_field::deserialize")]
    #[schemars(with = "String", extend("format" = "byte"))]
    pub signal_value: ByteString,
    /// Who sent the signal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub signalled_by: String,
    /// When the signal was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signalled_at: Option<Time>,
}

impl TaskActionStatus {
    /// The attempt that is shown to others: 1 before anything was recorded.
    pub fn observed_attempt(&self) -> u32 {
        self.attempts.max(1)
    }
}

fn is_empty_bytes(bytes: &ByteString) -> bool {
    bytes.0.is_empty()
}

fn is_zero_u8(number: &u8) -> bool {
    *number == 0
}

fn is_zero_u32(number: &u32) -> bool {
    *number == 0
}

fn is_zero_i32(number: &i32) -> bool {
    *number == 0
}
