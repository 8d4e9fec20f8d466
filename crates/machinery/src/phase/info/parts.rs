//! The form of a phase in JSON.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::PhaseInfo;
use crate::{ExecutionError, Pending, Phase, TaskInfo};

/// The members of a phase.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Parts {
    phase: Phase,
    #[serde(default)]
    reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ExecutionError>,
    #[serde(default)]
    cleanup_on_failure: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    info: Option<TaskInfo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending: Option<Pending>,
    #[serde(default)]
    out_of_time: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    check_at: Option<Timestamp>,
    #[serde(default)]
    quiet_reason: bool,
    #[serde(default)]
    has_news: bool,
}

impl From<PhaseInfo> for Parts {
    fn from(phase: PhaseInfo) -> Self {
        Self {
            phase: phase.phase,
            reason: phase.reason,
            error: phase.error,
            cleanup_on_failure: phase.cleanup_on_failure,
            info: phase.info,
            pending: phase.pending.map(|pending| *pending),
            out_of_time: phase.out_of_time,
            check_at: phase.check_at,
            quiet_reason: phase.quiet_reason,
            has_news: phase.has_news,
        }
    }
}

impl TryFrom<Parts> for PhaseInfo {
    type Error = String;

    fn try_from(parts: Parts) -> Result<Self, String> {
        let phase = parts.phase;
        if phase.is_failure() != parts.error.is_some() {
            return Err(format!("phase {phase}: exactly a failure has an error"));
        }
        if (phase == Phase::Undefined) != parts.info.is_none() {
            return Err(format!("phase {phase}: exactly an undefined phase has no info"));
        }
        Ok(Self {
            phase,
            // The plugin manager assigns it.
            version: 0,
            reason: parts.reason,
            error: parts.error,
            cleanup_on_failure: parts.cleanup_on_failure && phase.is_failure(),
            info: parts.info,
            pending: parts.pending.map(Box::new),
            out_of_time: parts.out_of_time && phase.is_failure(),
            check_at: parts.check_at,
            quiet_reason: parts.quiet_reason,
            has_news: parts.has_news,
        })
    }
}
