//! Plugin state and its stored bytes.

use aileron_executor::manager::gob::{self, K8sPluginState, ManagerPhase, PluginState};
use aileron_machinery::Phase;
use anyhow::Context as _;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Case, unknown_function, value};
use crate::vectors::messages::{base64, bytes};

/// The state in the format of the cases.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Description {
    phase: u8,
    #[serde(rename = "K8sPhase")]
    k8s_phase: String,
    #[serde(rename = "K8sVersion")]
    k8s_version: u32,
    #[serde(rename = "K8sReason")]
    k8s_reason: String,
    last_event_update: Option<Timestamp>,
    last_event_recorded_at: Option<Timestamp>,
}

pub(super) fn produce(case: &Case) -> anyhow::Result<Value> {
    match case.function() {
        "state.encode" => {
            let description: Description = serde_json::from_value(case.arg("state").clone())?;
            let encoded = gob::encode(&state(&description)?);
            let read = gob::decode(&encoded)?;
            value(json!({"decoded": state_json(&read), "gob": base64(&encoded)}))
        }
        _ => Err(unknown_function(case)),
    }
}

/// The decoded state of stored bytes, so that they are compared by value.
pub(in crate::vectors) fn meaning(encoded: &Value) -> Value {
    let state = bytes(encoded).ok().and_then(|bytes| gob::decode(&bytes).ok());
    state.map_or_else(|| json!({"undecodable": encoded}), |state| state_json(&state))
}

/// The state of a description.
fn state(description: &Description) -> anyhow::Result<PluginState> {
    let phase = match description.k8s_phase.as_str() {
        "" => Phase::Undefined,
        name => Phase::from_name(name).with_context(|| format!("no phase is called {name}"))?,
    };
    Ok(PluginState {
        phase: if description.phase == 0 { ManagerPhase::NotStarted } else { ManagerPhase::Started },
        k8s: K8sPluginState {
            phase: phase.number(),
            phase_version: description.k8s_version,
            reason: description.k8s_reason.clone(),
        },
        last_event_update: description.last_event_update,
        last_event_recorded_at: description.last_event_recorded_at,
    })
}

/// The state in the format of the vectors.
pub(super) fn state_json(state: &PluginState) -> Value {
    json!({
        "phase": match state.phase {
            ManagerPhase::NotStarted => "NotStarted",
            ManagerPhase::Started => "Started",
        },
        "k8sPluginState": {
            "phase": Phase::from_number(state.k8s.phase).unwrap_or_default().as_str(),
            "phaseVersion": state.k8s.phase_version,
            "reason": state.k8s.reason,
        },
        "lastEventUpdate": state.last_event_update,
        "lastEventRecordedAt": state.last_event_recorded_at,
    })
}
