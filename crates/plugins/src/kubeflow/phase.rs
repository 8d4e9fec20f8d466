//! From the conditions of a job to the phase of the task.

use aileron_idl::json_to_struct;
use aileron_machinery::{ExecutionError, PhaseContext, PhaseInfo, PluginError, TaskInfo, code};
use prost_types::Struct;

use super::config::KubeflowConfig;
use super::job::{Job, newest_first};
use super::links::{Role, links};
use super::resource::{JobCondition, JobStatus};

/// The state of a job, and what to tell along with it.
pub(crate) struct Observation<'a> {
    condition: Option<&'a JobCondition>,
    /// What to tell.
    pub(crate) info: TaskInfo,
}

impl<'a> Observation<'a> {
    /// What can be seen of a job. The links to the logs of its pods come in the order of the roles.
    ///
    /// # Errors
    /// The operator is silent about the job.
    pub(crate) fn of(
        job: &Job<'a>,
        config: &KubeflowConfig,
        cx: &PhaseContext<'_>,
        roles: &[Role],
    ) -> Result<Self, PluginError> {
        let now = cx.task.now;
        let condition = job.current_condition(config, now).map_err(|error| PluginError::uncoded(error.to_string()))?;
        let custom_info = job.status.map(details).unwrap_or_default();
        let info = TaskInfo { logs: links(job, cx.task, roles), custom_info: Some(custom_info), ..TaskInfo::at(now) };
        Ok(Self { condition, info })
    }

    /// The phase that the condition stands for. A condition that nobody here knows decides nothing.
    ///
    /// Mirrors `common.GetPhaseInfo`.
    pub(crate) fn phase(self) -> PhaseInfo {
        let Self { condition, info } = self;
        let queued = |info| PhaseInfo::queued("JobCreated", info);
        match condition {
            None => queued(info),
            Some(condition) => match condition.type_.as_str() {
                "" | "Created" => queued(info),
                "Running" | "Restarting" => PhaseInfo::running(info),
                "Succeeded" => PhaseInfo::success(info),
                "Failed" => PhaseInfo::retryable_failure(failure(condition), info),
                _ => PhaseInfo::undefined(),
            },
        }
    }
}

/// Where a task stands whose phase depends only on the conditions of its job.
///
/// # Errors
/// The operator is silent about the job.
pub(crate) fn phase_of_job(
    job: &Job<'_>,
    config: &KubeflowConfig,
    cx: &PhaseContext<'_>,
    roles: &[Role],
) -> Result<PhaseInfo, PluginError> {
    let phase = Observation::of(job, config, cx, roles)?.phase();
    Ok(phase.with_check_at(job.check_at(config, cx.task.now)))
}

/// The operator's word is all there is; whether user code or a node was to blame it does not say.
fn failure(condition: &JobCondition) -> ExecutionError {
    let text = |text: &'_ Option<String>| text.clone().unwrap_or_default();
    let message = format!("Job failed:\n\t{} - {}", text(&condition.reason), text(&condition.message));
    ExecutionError::user(code::DOWNSTREAM_SYSTEM_ERROR, message)
}

/// The status for people to read, what happened last in front. What cannot be shown is left out.
fn details(status: &JobStatus) -> Struct {
    let conditions = status.conditions.as_deref().map(|list| newest_first(list).into_iter().cloned().collect());
    let status = JobStatus { conditions, ..status.clone() };
    serde_json::to_value(status).ok().and_then(|json| json_to_struct(&json).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use aileron_idl::struct_to_json;
    use serde_json::json;

    use super::*;

    #[test]
    fn details_begin_with_the_news() {
        let condition = |kind: &str, second: &str| json!({"type": kind, "status": "True", "lastTransitionTime": format!("2009-11-10T22:59:{second}Z")});
        let (old, new) = (condition("Created", "10"), condition("Running", "20"));
        let status = json!({"conditions": [old, new], "replicaStatuses": {"Worker": {"active": 2}}});
        let shown = struct_to_json(&details(&serde_json::from_value(status).unwrap())).unwrap();
        assert_eq!(shown, json!({"conditions": [new, old], "replicaStatuses": {"Worker": {"active": 2}}}));
    }

    #[test]
    fn a_failure_repeats_what_the_operator_said() {
        let condition = JobCondition { reason: Some("R".into()), ..JobCondition::default() };
        assert_eq!(failure(&condition).message, "Job failed:\n\tR - ");
    }
}
