//! From the state of a `JobSet` to the phase of the task.

use aileron_idl::flyteidl2::plugins::ClusteredTaskSpec;
use aileron_idl::{json_to_struct, message_from_struct};
use aileron_machinery::pod::phase::{failed_phase, pending_deadline, pending_phase};
use aileron_machinery::{Ended, ExecutionError, Phase, PhaseContext, PhaseInfo, PluginError, TaskInfo};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use prost_types::Struct;

use super::WORKERS;
use super::logs::{links, log_context, primary_container};
use super::rank_zero::{self, rank_zero};
use super::resource::{Condition, JobSet, JobSetStatus, ReplicatedJobStatus};

const COMPLETED: &str = "Completed";
const FAILED: &str = "Failed";
/// The set has lost a rank and is being started again.
const RESTARTING: &str = "RestartingJobSet";

/// Where the task stands.
///
/// Mirrors `GetTaskPhase` of upstream's clustered plugin.
pub(super) fn phase(cx: &PhaseContext<'_>, set: &JobSet) -> Result<PhaseInfo, PluginError> {
    let seen = Seen::new(cx, set);
    let Some(condition) = current_condition(&seen.status.conditions) else {
        if seen.has_started() {
            return Ok(seen.running());
        }
        let reason = "pods scheduling / DNS resolving";
        return Ok(PhaseInfo::initializing(reason, seen.info()));
    };
    Ok(match condition.kind.as_str() {
        COMPLETED => PhaseInfo::success(seen.info()),
        FAILED => seen.maintenance().unwrap_or_else(|| {
            let error = ExecutionError::user(&condition.reason, &condition.message);
            PhaseInfo::retryable_failure(error, seen.info())
        }),
        RESTARTING => seen.restarting(),
        _ => seen.running(),
    })
}

/// When a pending pod of rank 0 must be checked again.
pub(super) fn check_at(cx: &PhaseContext<'_>, set: &JobSet) -> Option<Timestamp> {
    pending_deadline(rank_zero(cx, set)?.status.as_ref()?, &cx.task.platform.k8s, cx.task.now)
}

/// The end of the set, at its condition or the closest time that is known.
pub(super) fn ended(set: &JobSet) -> Option<Ended> {
    let failed = ends(set).next()?.kind == FAILED;
    let at = ends(set).find_map(|condition| condition.last_transition_time.as_ref());
    Some(Ended::new(at.or(set.metadata.creation_timestamp.as_ref()).map(|time| time.0), failed))
}

fn ends(set: &JobSet) -> impl Iterator<Item = &Condition> {
    let conditions = set.status.as_ref().map_or(&[][..], |status| &status.conditions);
    conditions.iter().filter(|condition| condition.is_true() && [COMPLETED, FAILED].contains(&condition.kind.as_str()))
}

/// The condition that holds since the shortest time.
fn current_condition(conditions: &[Condition]) -> Option<&Condition> {
    let since = |condition: &Condition| condition.last_transition_time.as_ref().map(|time| time.0);
    let held = conditions.iter().filter(|condition| condition.is_true());
    held.reduce(|latest, condition| if since(condition) > since(latest) { condition } else { latest })
}

/// A set with everything that is known about it.
struct Seen<'a> {
    cx: &'a PhaseContext<'a>,
    set: &'a JobSet,
    status: JobSetStatus,
    spec: ClusteredTaskSpec,
}

impl<'a> Seen<'a> {
    fn new(cx: &'a PhaseContext<'a>, set: &'a JobSet) -> Self {
        // The set was built from these settings; should they be unreadable now, it still runs as it was built.
        let spec = cx.task.template.custom.as_ref().and_then(|custom| message_from_struct(custom).ok());
        Self { cx, set, status: set.status.clone().unwrap_or_default(), spec: spec.unwrap_or_default() }
    }

    fn info(&self) -> TaskInfo {
        TaskInfo {
            logs: links(self.cx, self.set),
            log_context: log_context(self.cx, self.set),
            custom_info: status_as_struct(&self.status),
            ..TaskInfo::at(self.cx.task.now)
        }
    }

    /// Some pod has run, now or before.
    fn has_started(&self) -> bool {
        let workers = self.workers();
        let any =
            workers.is_some_and(|jobs| jobs.ready > 0 || jobs.active > 0 || jobs.succeeded > 0 || jobs.failed > 0);
        any || self.status.restarts > 0 || self.cx.prior.phase >= Phase::Running
    }

    /// The set runs, unless rank 0 already tells that it will not.
    fn running(&self) -> PhaseInfo {
        let reason = format!("running (restart attempt {})", self.status.restarts);
        self.failed_rank_zero(true).unwrap_or_else(|| self.running_for(&reason))
    }

    /// A failed pod of rank 0 belongs to the start before, so it says nothing.
    fn restarting(&self) -> PhaseInfo {
        let reason = format!("restart in progress (attempt {})", self.status.restarts);
        self.failed_rank_zero(false).unwrap_or_else(|| self.running_for(&reason))
    }

    fn running_for(&self, reason: &str) -> PhaseInfo {
        PhaseInfo::running(self.info()).with_reason(reason)
    }

    /// Rank 0 cannot start, or has failed for the last time. The set itself tells so later, and in fewer words.
    ///
    /// Mirrors `clustered.maybeFastFailWorker0`.
    fn failed_rank_zero(&self, failures_count: bool) -> Option<PhaseInfo> {
        let pod = rank_zero(self.cx, self.set)?;
        let no_restart_left = self.status.restarts >= self.max_restarts();
        let has_failures = self.workers().is_some_and(|jobs| jobs.failed > 0);
        if rank_zero::phase(pod) == "Failed" && !(failures_count && has_failures && no_restart_left) {
            return None;
        }
        self.pod_failure(pod)
    }

    /// The node of rank 0 went away and the task is to be started again for that, at the platform's expense. The pod may
    /// be gone too, then nothing is known.
    ///
    /// Mirrors `clustered.maybeSystemRetryOnMaintenance`.
    fn maintenance(&self) -> Option<PhaseInfo> {
        self.spec.failure_policy.as_ref().filter(|policy| policy.restart_on_host_maintenance)?;
        let failure = self.pod_failure(rank_zero(self.cx, self.set)?)?;
        failure.is_system_retryable_failure().then(|| {
            let message = "pod evicted due to host maintenance; retrying without charging max_restarts";
            let error = ExecutionError::system("HostMaintenance", message);
            PhaseInfo::retryable_failure(error, self.info()).with_cleanup()
        })
    }

    /// The failure of a pod that has failed or cannot start.
    fn pod_failure(&self, pod: &Pod) -> Option<PhaseInfo> {
        let task = self.cx.task;
        let status = pod.status.as_ref()?;
        let phase = match rank_zero::phase(pod) {
            "Failed" => failed_phase(status, primary_container(self.set), self.info()),
            "Pending" => pending_phase(status, &task.platform.k8s, task.now, self.info()),
            _ => return None,
        };
        phase.phase().is_failure().then_some(phase)
    }

    fn workers(&self) -> Option<&ReplicatedJobStatus> {
        self.status.replicated_jobs_status.iter().find(|jobs| jobs.name == WORKERS)
    }

    fn max_restarts(&self) -> i32 {
        let of_set = self.set.spec.failure_policy.as_ref().map(|policy| policy.max_restarts);
        of_set.or_else(|| Some(self.spec.failure_policy.as_ref()?.max_restarts)).unwrap_or(0)
    }
}

/// The operator's own words, for whoever wants to know more.
fn status_as_struct(status: &JobSetStatus) -> Option<Struct> {
    json_to_struct(&serde_json::to_value(status).ok()?).ok()
}
