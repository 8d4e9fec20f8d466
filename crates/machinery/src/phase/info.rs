//! A phase with everything that is said along with it.

mod parts;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ErrorKind, ExecutionError, Pending, PendingReason, Phase, TaskInfo};

/// A phase with everything said about it. Only the constructors make one, so a failure always has an error and
/// nothing else has one.
///
/// The plugin manager assigns the version of the phases of Kubernetes plugins. It raises the version when the reason has
/// changed, because readers ignore a second report of the same phase and version.
///
/// ```
/// use aileron_machinery::{ExecutionError, Phase, PhaseInfo, TaskInfo};
/// # use aileron_machinery::{testing::task, serde_json::Value};
/// # let task = task("batch", &Value::Null);
/// # let state = "FAILED";
///
/// let info = TaskInfo::at(task.now);
/// let phase = match state {
///     "WAITING" => PhaseInfo::queued("the operator has not seen the job", info),
///     "RUNNING" => PhaseInfo::running(info),
///     "DONE" => PhaseInfo::success(info),
///     "FAILED" => PhaseInfo::retryable_failure(ExecutionError::user("BatchFailed", "exit code 3"), info),
///     _ => PhaseInfo::undefined(),
/// };
/// assert_eq!((phase.phase(), phase.error().unwrap().code.as_str()), (Phase::RetryableFailure, "BatchFailed"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "parts::Parts", into = "parts::Parts")]
pub struct PhaseInfo {
    phase: Phase,
    version: u32,
    reason: String,
    error: Option<ExecutionError>,
    cleanup_on_failure: bool,
    info: Option<TaskInfo>,
    pending: Option<Box<Pending>>,
    out_of_time: bool,
    check_at: Option<Timestamp>,
    quiet_reason: bool,
    has_news: bool,
}

impl PhaseInfo {
    /// Nothing is known: no transition happens.
    pub fn undefined() -> Self {
        Self {
            phase: Phase::Undefined,
            version: 0,
            reason: String::new(),
            error: None,
            cleanup_on_failure: false,
            info: None,
            pending: None,
            out_of_time: false,
            check_at: None,
            quiet_reason: false,
            has_news: false,
        }
    }

    fn new(phase: Phase, reason: impl Into<String>, info: TaskInfo) -> Self {
        Self { phase, reason: reason.into(), info: Some(info), ..Self::undefined() }
    }

    /// Accepted, not yet able to start.
    ///
    /// ```
    /// use aileron_machinery::{PhaseInfo, TaskInfo};
    /// # let info = || TaskInfo::at(Default::default());
    ///
    /// // The phases before user code runs have a reason, which users see.
    /// let phases = [
    ///     PhaseInfo::not_ready("accepted", info()),
    ///     PhaseInfo::waiting_for_resources("no licence is free", info()),
    ///     PhaseInfo::initializing("the image is being pulled", info()),
    ///     PhaseInfo::waiting_for_cache("another action computes the outputs", info()),
    /// ];
    /// assert!(phases.iter().all(|phase| !phase.phase().is_terminal() && !phase.reason().is_empty()));
    /// assert!(PhaseInfo::aborted("stopped by its user", info()).phase().is_aborted());
    /// ```
    pub fn not_ready(reason: impl Into<String>, info: TaskInfo) -> Self {
        Self::new(Phase::NotReady, reason, info)
    }

    /// Waits for quota or another scarce thing.
    pub fn waiting_for_resources(reason: impl Into<String>, info: TaskInfo) -> Self {
        Self::new(Phase::WaitingForResources, reason, info)
    }

    /// Handed over; nothing has started.
    pub fn queued(reason: impl Into<String>, info: TaskInfo) -> Self {
        Self::new(Phase::Queued, reason, info)
    }

    /// Being prepared.
    pub fn initializing(reason: impl Into<String>, info: TaskInfo) -> Self {
        Self::new(Phase::Initializing, reason, info)
    }

    /// User code runs.
    pub fn running(info: TaskInfo) -> Self {
        Self::new(Phase::Running, "", info)
    }

    /// Ended well.
    pub fn success(info: TaskInfo) -> Self {
        Self::new(Phase::Success, "", info)
    }

    /// Stopped on request.
    pub fn aborted(reason: impl Into<String>, info: TaskInfo) -> Self {
        Self::new(Phase::Aborted, reason, info)
    }

    /// Waits for the action that holds the cache reservation.
    pub fn waiting_for_cache(reason: impl Into<String>, info: TaskInfo) -> Self {
        Self::new(Phase::WaitingForCache, reason, info)
    }

    /// Ended badly for good.
    ///
    /// ```
    /// use aileron_machinery::{ExecutionError, PhaseInfo, TaskInfo};
    /// # let info = TaskInfo::at(Default::default());
    ///
    /// let error = ExecutionError::user("InvalidImage", "the image name is not valid");
    /// let phase = PhaseInfo::permanent_failure(error, info).with_cleanup();
    /// assert!(phase.cleanup_on_failure(), "the pod would keep its place in the quota");
    /// ```
    pub fn permanent_failure(error: ExecutionError, info: TaskInfo) -> Self {
        Self { error: Some(error), ..Self::new(Phase::PermanentFailure, "", info) }
    }

    /// Ended badly; another attempt may help. Of kind `System`, it uses the platform's budget, else the user's.
    pub fn retryable_failure(error: ExecutionError, info: TaskInfo) -> Self {
        Self { error: Some(error), ..Self::new(Phase::RetryableFailure, "", info) }
    }

    /// Asks the executor to delete the object when the task has failed, because the object would otherwise stay and keep
    /// what it holds: a pod that can never start keeps its place in the quota. Ignored for phases that are no failure.
    #[must_use]
    pub fn with_cleanup(mut self) -> Self {
        self.cleanup_on_failure = self.phase.is_failure();
        self
    }

    /// The task failed because it took too long. Events and statuses report that as a time-out.
    ///
    /// ```
    /// use aileron_machinery::{ExecutionError, PhaseInfo, TaskInfo};
    /// # let info = TaskInfo::at(Default::default());
    ///
    /// let error = ExecutionError::user("DeadlineExceeded", "the job ran for more than 2h");
    /// assert!(PhaseInfo::permanent_failure(error, info).out_of_time().is_out_of_time());
    /// ```
    #[must_use]
    pub fn out_of_time(mut self) -> Self {
        self.out_of_time = self.phase.is_failure();
        self
    }

    /// Asks for a new check of the object at this time, although nothing about it may have changed: the end of a grace
    /// period. Of several times the earliest counts; the manager ignores it once the task has ended.
    ///
    /// ```
    /// use aileron_machinery::jiff::SignedDuration;
    /// use aileron_machinery::{PhaseInfo, TaskInfo};
    /// # use aileron_machinery::{testing::task, serde_json::Value};
    /// # let task = task("batch", &Value::Null);
    ///
    /// // The operator deletes a job that has not started within 5 minutes, and does not say so in its status.
    /// let limit = task.now + SignedDuration::from_mins(5);
    /// let phase = PhaseInfo::queued("waits for the operator", TaskInfo::at(task.now)).with_check_at(limit);
    /// assert_eq!(phase.check_at(), Some(limit));
    /// ```
    #[must_use]
    pub fn with_check_at(mut self, at: impl Into<Option<Timestamp>>) -> Self {
        self.check_at = [self.check_at, at.into()].into_iter().flatten().min();
        self
    }

    /// Another reason within the same phase is not worth a report: the manager keeps the version.
    ///
    /// ```
    /// use aileron_machinery::{PhaseInfo, TaskInfo};
    /// # let info = TaskInfo::at(Default::default());
    ///
    /// // The reason changes every second, and nobody wants an event for each.
    /// let phase = PhaseInfo::initializing("37 % downloaded", info).with_quiet_reason();
    /// assert!(phase.has_quiet_reason());
    /// ```
    #[must_use]
    pub fn with_quiet_reason(mut self) -> Self {
        self.quiet_reason = true;
        self
    }

    /// The phase says more than that the task has reached it, for example where the logs are. A report of the bare phase
    /// may have been sent before; the manager gives this phase a higher version than that one.
    ///
    /// ```
    /// use aileron_machinery::{PhaseInfo, TaskInfo};
    /// # use aileron_machinery::idl::flyteidl2::core::TaskLog;
    ///
    /// let mut info = TaskInfo::at(Default::default());
    /// info.logs.push(TaskLog { name: "Driver".into(), uri: "https://logs/driver-0".into(), ..TaskLog::default() });
    /// assert!(PhaseInfo::running(info).with_news().has_news());
    /// ```
    #[must_use]
    pub fn with_news(mut self) -> Self {
        self.has_news = true;
        self
    }

    /// The same phase under another version. The plugin manager replaces the version of a Kubernetes plugin's phase. The
    /// phases of core plugins keep theirs.
    ///
    /// ```
    /// use aileron_machinery::{PhaseInfo, TaskInfo};
    ///
    /// // Only core plugins set it: a higher version for another report of the same phase.
    /// let phase = PhaseInfo::running(TaskInfo::at(Default::default())).with_version(2);
    /// assert_eq!(phase.version(), 2);
    /// ```
    #[must_use]
    pub fn with_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Adds a reason behind those already given.
    ///
    /// ```
    /// use aileron_machinery::{PhaseInfo, TaskInfo};
    ///
    /// let phase = PhaseInfo::queued("2 of 3 pods are scheduled", TaskInfo::at(Default::default()));
    /// assert_eq!(phase.with_reason("no node has a GPU").reason(), "2 of 3 pods are scheduled, no node has a GPU");
    /// ```
    #[must_use]
    pub fn with_reason(mut self, reason: &str) -> Self {
        if !self.reason.is_empty() {
            self.reason.push_str(", ");
        }
        self.reason.push_str(reason);
        self
    }

    /// Says what the task waits for; the phase's own reason is the sentence about it.
    ///
    /// ```
    /// use aileron_machinery::{Pending, PendingReason, PhaseInfo, TaskInfo};
    ///
    /// let phase = PhaseInfo::queued("no node has 8 GPUs", TaskInfo::at(Default::default()));
    /// let phase = phase.because(PendingReason::Unschedulable);
    /// assert_eq!(phase.pending(), Some(&Pending::new(PendingReason::Unschedulable, "no node has 8 GPUs")));
    /// ```
    #[must_use]
    pub fn because(self, reason: PendingReason) -> Self {
        let message = self.reason.clone();
        self.with_pending(Pending { reason, message })
    }

    /// Says what the task waits for, and in which words.
    ///
    /// ```
    /// use aileron_machinery::{Pending, PendingReason, PhaseInfo, TaskInfo};
    ///
    /// let phase = PhaseInfo::initializing("starting", TaskInfo::at(Default::default()));
    /// let phase = phase.with_pending(Pending::new(PendingReason::ImagePull, "image:1 is being pulled on node n1"));
    /// assert_eq!(phase.pending().unwrap().reason.as_str(), "ImagePull");
    /// ```
    #[must_use]
    pub fn with_pending(mut self, pending: Pending) -> Self {
        self.pending = Some(Box::new(pending));
        self
    }

    /// What the task waits for, if the plugin said so.
    pub fn pending(&self) -> Option<&Pending> {
        self.pending.as_deref()
    }

    /// Where the task stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The version within the phase.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Another reason within the same phase is not worth a report.
    pub fn has_quiet_reason(&self) -> bool {
        self.quiet_reason
    }

    /// The phase says more than that the task has reached it.
    pub fn has_news(&self) -> bool {
        self.has_news
    }

    /// Why, in words.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What went wrong; present exactly for failures.
    pub fn error(&self) -> Option<&ExecutionError> {
        self.error.as_ref()
    }

    /// The task failed because it took too long.
    pub fn is_out_of_time(&self) -> bool {
        self.out_of_time
    }

    /// The executor must delete the object of the failed task.
    pub fn cleanup_on_failure(&self) -> bool {
        self.cleanup_on_failure
    }

    /// When the object must be checked again although nothing changed.
    pub fn check_at(&self) -> Option<Timestamp> {
        self.check_at
    }

    /// Everything else; absent only while undefined.
    pub fn info(&self) -> Option<&TaskInfo> {
        self.info.as_ref()
    }

    /// Everything else, to be added to.
    ///
    /// ```
    /// use aileron_machinery::pod::phase::task_phase;
    /// use aileron_machinery::testing::{running, task};
    /// # use aileron_machinery::{ObservedPhase, PhaseContext, pod::build_pod, serde_json::Value};
    /// # let task = task("batch", &Value::Null);
    /// # let pod = build_pod(&task, Default::default())?.into_pod();
    /// # let prior = ObservedPhase::default();
    /// # let cx = PhaseContext::new(&task, &prior);
    ///
    /// let mut phase = task_phase(&cx, &running(&pod));
    /// if let Some(info) = phase.info_mut() {
    ///     info.reported_at = Some(cx.task.now);
    /// }
    /// assert!(phase.info().unwrap().reported_at.is_some());
    /// assert_eq!(phase.into_info().map(|info| info.occurred_at), Some(task.now));
    /// # Ok::<(), aileron_machinery::PluginError>(())
    /// ```
    pub fn info_mut(&mut self) -> Option<&mut TaskInfo> {
        self.info.as_mut()
    }

    /// Takes the information out, leaving none.
    pub fn into_info(self) -> Option<TaskInfo> {
        self.info
    }

    /// A failure that is charged to the platform, not to the user.
    ///
    /// ```
    /// use aileron_machinery::{ExecutionError, PhaseInfo, TaskInfo};
    ///
    /// let error = ExecutionError::system("NodeLost", "node n1 does not answer");
    /// let phase = PhaseInfo::retryable_failure(error, TaskInfo::at(Default::default()));
    /// assert!(phase.is_system_retryable_failure());
    /// ```
    pub fn is_system_retryable_failure(&self) -> bool {
        self.phase == Phase::RetryableFailure
            && self.error.as_ref().is_some_and(|error| error.kind == ErrorKind::System)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn info() -> TaskInfo {
        TaskInfo::at(Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn only_failures_ask_for_cleanup() {
        assert!(!PhaseInfo::success(info()).with_cleanup().cleanup_on_failure());
        let failure = PhaseInfo::permanent_failure(ExecutionError::user("C", "m"), info());
        assert!(failure.with_cleanup().cleanup_on_failure());
    }

    #[test]
    fn the_earliest_check_counts() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let phase = PhaseInfo::running(info()).with_check_at(at(9)).with_check_at(None).with_check_at(at(5));
        assert_eq!(phase.check_at(), Some(at(5)));
    }

    #[test]
    fn phases_survive_the_trip_through_json() {
        let failure = PhaseInfo::retryable_failure(ExecutionError::system("C", "m"), info()).with_cleanup();
        let waiting = PhaseInfo::queued("q", info()).because(PendingReason::Quota).with_check_at(Timestamp::UNIX_EPOCH);
        let running = PhaseInfo::running(info()).with_news().with_quiet_reason();
        for phase in [failure, waiting, running, PhaseInfo::undefined()] {
            let written = serde_json::to_value(&phase).unwrap();
            assert_eq!(serde_json::from_value::<PhaseInfo>(written).unwrap(), phase);
        }
        let without_error = json!({"phase": "PhasePermanentFailure", "info": {"occurredAt": "1970-01-01T00:00:00Z"}});
        assert!(serde_json::from_value::<PhaseInfo>(without_error).is_err());
    }
}
