//! Converts the phase that a plugin returns to the format of the vectors.

use aileron_idl::struct_to_json;
use aileron_machinery::{ErrorKind, ExecutionError, ExternalResource, PhaseInfo, TaskInfo};
use serde_json::{Value, json};

use super::messages::message_json;

/// A phase with its reason, error and task information.
pub fn phase_info(phase: &PhaseInfo) -> anyhow::Result<Value> {
    Ok(json!({
        "phase": phase.phase().as_str(),
        "version": phase.version(),
        "reason": phase.reason(),
        "cleanupOnFailure": phase.cleanup_on_failure(),
        "error": phase.error().map(execution_error),
        "info": phase.info().map(task_info).transpose()?,
    }))
}

fn execution_error(error: &ExecutionError) -> Value {
    let kind = match error.kind {
        ErrorKind::Unknown => "UNKNOWN",
        ErrorKind::User => "USER",
        ErrorKind::System => "SYSTEM",
    };
    json!({"kind": kind, "code": error.code, "message": error.message})
}

fn task_info(info: &TaskInfo) -> anyhow::Result<Value> {
    let reasons =
        info.additional_reasons.iter().map(|reason| json!({"reason": reason.reason, "occurredAt": reason.occurred_at}));
    Ok(json!({
        "logs": info.logs.iter().map(message_json).collect::<Result<Vec<_>, _>>()?,
        "logContext": info.log_context.as_ref().map(message_json).transpose()?,
        "occurredAt": info.occurred_at,
        "reportedAt": info.reported_at,
        "customInfo": info.custom_info.as_ref().map(struct_to_json).transpose()?,
        "externalResources": info.external_resources.iter().map(external_resource).collect::<Result<Vec<_>, _>>()?,
        "additionalReasons": reasons.collect::<Vec<_>>(),
    }))
}

fn external_resource(resource: &ExternalResource) -> anyhow::Result<Value> {
    Ok(json!({
        "externalId": resource.external_id,
        "index": resource.index,
        "retryAttempt": resource.retry_attempt,
        "phase": resource.phase.as_str(),
        "cacheStatus": resource.cache_status.as_str_name(),
        "logs": resource.logs.iter().map(message_json).collect::<Result<Vec<_>, _>>()?,
        "logContext": resource.log_context.as_ref().map(message_json).transpose()?,
        "customInfo": resource.custom_info.as_ref().map(struct_to_json).transpose()?,
    }))
}
