//! Where a task stands: the phases of a plugin, and everything a plugin says along with one.

use aileron_idl::flyteidl2::core::{self as pb, CatalogCacheStatus, LogContext, TaskLog};
use jiff::Timestamp;
use prost_types::Struct;

use crate::{Pending, PendingReason};

/// The state of one attempt of a task, as a plugin reports it.
///
/// Numbers and names are stored (`status.pluginState`, `status.pluginPhase`), so they never change.
/// Mirrors `pluginsCore.Phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i8)]
pub enum Phase {
    /// Nothing is known yet.
    #[default]
    Undefined = 0,
    /// Accepted, but not yet able to start.
    NotReady = 1,
    /// Waits for quota, a token or another scarce thing.
    WaitingForResources = 2,
    /// Handed over; nothing has started.
    Queued = 3,
    /// Being prepared: images pulled, containers created.
    Initializing = 4,
    /// User code runs.
    Running = 5,
    /// Ended well.
    Success = 6,
    /// Ended badly; another attempt may help.
    RetryableFailure = 7,
    /// Ended badly for good.
    PermanentFailure = 8,
    /// Waits for another action to fill the cache.
    WaitingForCache = 9,
    /// Stopped on request.
    Aborted = 10,
}

impl Phase {
    /// Every phase, in the order of its number.
    pub const ALL: [Self; 11] = [
        Self::Undefined,
        Self::NotReady,
        Self::WaitingForResources,
        Self::Queued,
        Self::Initializing,
        Self::Running,
        Self::Success,
        Self::RetryableFailure,
        Self::PermanentFailure,
        Self::WaitingForCache,
        Self::Aborted,
    ];

    /// The name under which the phase is stored in `status.pluginPhase`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Undefined => "PhaseUndefined",
            Self::NotReady => "PhaseNotReady",
            Self::WaitingForResources => "PhaseWaitingForResources",
            Self::Queued => "PhaseQueued",
            Self::Initializing => "PhaseInitializing",
            Self::Running => "PhaseRunning",
            Self::Success => "PhaseSuccess",
            Self::RetryableFailure => "PhaseRetryableFailure",
            Self::PermanentFailure => "PhasePermanentFailure",
            Self::WaitingForCache => "PhaseWaitingForCache",
            Self::Aborted => "PhaseAborted",
        }
    }

    /// The phase with this stored number, if there is one.
    pub fn from_number(number: i8) -> Option<Self> {
        usize::try_from(number).ok().and_then(|index| Self::ALL.get(index).copied())
    }

    /// The phase with this stored name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == name)
    }

    /// The stored number.
    pub fn number(self) -> i8 {
        self as i8
    }

    /// No further phase of this attempt will follow.
    pub fn is_terminal(self) -> bool {
        self.is_failure() || self.is_success() || self.is_aborted()
    }

    /// Ended badly, for good or not.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::RetryableFailure | Self::PermanentFailure)
    }

    /// Ended well.
    pub fn is_success(self) -> bool {
        self == Self::Success
    }

    /// Stopped on request.
    pub fn is_aborted(self) -> bool {
        self == Self::Aborted
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who is to blame for a failure, which decides whose retry budget it uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Not said.
    #[default]
    Unknown,
    /// The task's own code or definition.
    User,
    /// The platform below it.
    System,
}

impl ErrorKind {
    /// The name used in `status.errorState.kind` (empty when unknown) .
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::User => "USER",
            Self::System => "SYSTEM",
        }
    }
}

/// Why an attempt failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutionError {
    /// Whose fault it is.
    pub kind: ErrorKind,
    /// Stable, machine-readable code (`OOMKilled`, `BadTaskSpecification`, ...).
    pub code: String,
    /// What a person reads.
    pub message: String,
}

impl ExecutionError {
    /// An error of the task itself.
    pub fn user(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::User, code: code.into(), message: message.into() }
    }

    /// An error of the platform.
    pub fn system(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::System, code: code.into(), message: message.into() }
    }
}

impl From<&pb::ExecutionError> for ExecutionError {
    fn from(error: &pb::ExecutionError) -> Self {
        let kind = match error.kind() {
            pb::execution_error::ErrorKind::Unknown => ErrorKind::Unknown,
            pb::execution_error::ErrorKind::User => ErrorKind::User,
            pb::execution_error::ErrorKind::System => ErrorKind::System,
        };
        Self { kind, code: error.code.clone(), message: error.message.clone() }
    }
}

/// One more thing that happened, beside the reason of the phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasonInfo {
    /// What happened.
    pub reason: String,
    /// When, if known.
    pub occurred_at: Option<Timestamp>,
}

/// Something outside the action that does part of its work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExternalResource {
    /// Its name.
    pub external_id: String,
    /// What the cache said about it.
    pub cache_status: CatalogCacheStatus,
    /// Its place among its siblings.
    pub index: u32,
    /// Its log links.
    pub logs: Vec<TaskLog>,
    /// Where its logs can be streamed from.
    pub log_context: Option<LogContext>,
    /// Its attempt.
    pub retry_attempt: u32,
    /// Where it stands.
    pub phase: Phase,
    /// Anything else the plugin wants to show.
    pub custom_info: Option<Struct>,
}

/// What a plugin tells about a phase beyond its name.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskInfo {
    /// When the task entered the phase.
    pub occurred_at: Timestamp,
    /// When the platform noticed.
    pub reported_at: Option<Timestamp>,
    /// Log links.
    pub logs: Vec<TaskLog>,
    /// Where logs can be streamed from.
    pub log_context: Option<LogContext>,
    /// Anything else the plugin wants to show.
    pub custom_info: Option<Struct>,
    /// Things outside the action that do part of its work.
    pub external_resources: Vec<ExternalResource>,
    /// More reasons, oldest first.
    pub additional_reasons: Vec<ReasonInfo>,
}

impl TaskInfo {
    /// Nothing but a time.
    pub fn at(occurred_at: Timestamp) -> Self {
        Self {
            occurred_at,
            reported_at: None,
            logs: Vec::new(),
            log_context: None,
            custom_info: None,
            external_resources: Vec::new(),
            additional_reasons: Vec::new(),
        }
    }
}

/// A phase with everything said about it. Only the constructors make one, so a failure always has an error and
/// nothing else has one.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseInfo {
    phase: Phase,
    version: u32,
    reason: String,
    error: Option<ExecutionError>,
    cleanup_on_failure: bool,
    info: Option<TaskInfo>,
    pending: Option<Box<Pending>>,
    out_of_time: bool,
}

impl PhaseInfo {
    /// The version a phase starts with. Within one phase a higher version is news, the same or a lower one is not.
    pub const FIRST_VERSION: u32 = 0;

    /// Nothing is known: no transition happens.
    pub fn undefined() -> Self {
        Self {
            phase: Phase::Undefined,
            version: Self::FIRST_VERSION,
            reason: String::new(),
            error: None,
            cleanup_on_failure: false,
            info: None,
            pending: None,
            out_of_time: false,
        }
    }

    fn new(phase: Phase, version: u32, reason: impl Into<String>, info: TaskInfo) -> Self {
        let (reason, info) = (reason.into(), Some(info));
        Self { phase, version, reason, error: None, cleanup_on_failure: false, info, pending: None, out_of_time: false }
    }

    /// Accepted, not yet able to start.
    pub fn not_ready(version: u32, reason: impl Into<String>, info: TaskInfo) -> Self {
        Self::new(Phase::NotReady, version, reason, info)
    }

    /// Waits for quota or another scarce thing.
    pub fn waiting_for_resources(version: u32, reason: impl Into<String>, info: TaskInfo) -> Self {
        Self::new(Phase::WaitingForResources, version, reason, info)
    }

    /// Handed over; nothing has started.
    pub fn queued(version: u32, reason: impl Into<String>, info: TaskInfo) -> Self {
        Self::new(Phase::Queued, version, reason, info)
    }

    /// Being prepared.
    pub fn initializing(version: u32, reason: impl Into<String>, info: TaskInfo) -> Self {
        Self::new(Phase::Initializing, version, reason, info)
    }

    /// User code runs.
    pub fn running(version: u32, info: TaskInfo) -> Self {
        Self::new(Phase::Running, version, "", info)
    }

    /// Ended well.
    pub fn success(info: TaskInfo) -> Self {
        Self::new(Phase::Success, Self::FIRST_VERSION, "", info)
    }

    /// Stopped on request.
    pub fn aborted(reason: impl Into<String>, info: TaskInfo) -> Self {
        Self::new(Phase::Aborted, Self::FIRST_VERSION, reason, info)
    }

    /// Waits for the action that holds the cache reservation.
    pub fn waiting_for_cache(version: u32, reason: impl Into<String>, info: TaskInfo) -> Self {
        Self::new(Phase::WaitingForCache, version, reason, info)
    }

    /// Ended badly for good.
    pub fn permanent_failure(error: ExecutionError, info: TaskInfo) -> Self {
        Self { error: Some(error), ..Self::new(Phase::PermanentFailure, Self::FIRST_VERSION, "", info) }
    }

    /// Ended badly; another attempt may help. Of kind `System`, it uses the platform's budget, else the user's.
    pub fn retryable_failure(error: ExecutionError, info: TaskInfo) -> Self {
        Self { error: Some(error), ..Self::new(Phase::RetryableFailure, Self::FIRST_VERSION, "", info) }
    }

    /// The resource that failed must go, because it would otherwise stay and hold what it holds.
    #[must_use]
    pub fn with_cleanup(mut self) -> Self {
        self.cleanup_on_failure = self.phase.is_failure();
        self
    }

    /// The failure is that it took too long, which whoever watches is told apart.
    #[must_use]
    pub fn out_of_time(mut self) -> Self {
        self.out_of_time = self.phase.is_failure();
        self
    }

    /// The same phase under another version.
    #[must_use]
    pub fn with_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Adds a reason behind those already given.
    #[must_use]
    pub fn with_reason(mut self, reason: &str) -> Self {
        if !self.reason.is_empty() {
            self.reason.push_str(", ");
        }
        self.reason.push_str(reason);
        self
    }

    /// Says what the task waits for; the phase's own reason is the sentence about it.
    #[must_use]
    pub fn because(self, reason: PendingReason) -> Self {
        let message = self.reason.clone();
        self.with_pending(Pending { reason, message })
    }

    /// Says what the task waits for, and in which words.
    #[must_use]
    pub fn with_pending(mut self, pending: Pending) -> Self {
        self.pending = Some(Box::new(pending));
        self
    }

    /// What the task waits for, if somebody said so.
    pub fn pending(&self) -> Option<&Pending> {
        self.pending.as_deref()
    }

    /// Raises the version when, within one phase, only the reason has changed, so that the news gets through.
    ///
    /// Mirrors `k8s.MaybeUpdatePhaseVersion`.
    #[must_use]
    pub fn newer_than(self, prior: &ObservedPhase) -> Self {
        if self.phase == prior.phase && self.version <= prior.version && self.reason != prior.reason {
            let version = prior.version.saturating_add(1);
            return self.with_version(version);
        }
        self
    }

    /// Where the task stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The version within the phase.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Why, in words.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What went wrong; present exactly for failures.
    pub fn error(&self) -> Option<&ExecutionError> {
        self.error.as_ref()
    }

    /// It failed because it took too long.
    pub fn is_out_of_time(&self) -> bool {
        self.out_of_time
    }

    /// The failed resource must be deleted.
    pub fn cleanup_on_failure(&self) -> bool {
        self.cleanup_on_failure
    }

    /// Everything else; absent only while undefined.
    pub fn info(&self) -> Option<&TaskInfo> {
        self.info.as_ref()
    }

    /// Everything else, to be added to.
    pub fn info_mut(&mut self) -> Option<&mut TaskInfo> {
        self.info.as_mut()
    }

    /// Takes the information out, leaving none.
    pub fn into_info(self) -> Option<TaskInfo> {
        self.info
    }

    /// A failure that is charged to the platform, not to the user.
    pub fn is_system_retryable_failure(&self) -> bool {
        self.phase == Phase::RetryableFailure
            && self.error.as_ref().is_some_and(|error| error.kind == ErrorKind::System)
    }
}

/// What the previous round saw; the part of the stored plugin state that a plugin may look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedPhase {
    /// The phase then.
    pub phase: Phase,
    /// Its version.
    pub version: u32,
    /// Its reason.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back_to_the_phase() {
        for phase in Phase::ALL {
            assert_eq!(Phase::from_number(phase.number()), Some(phase));
            assert_eq!(Phase::from_name(phase.as_str()), Some(phase));
        }
        assert_eq!(Phase::from_number(-1), None);
        assert_eq!(Phase::from_number(11), None);
    }

    #[test]
    fn a_changed_reason_is_news_and_the_same_reason_is_not() {
        let at = TaskInfo::at(Timestamp::UNIX_EPOCH);
        let prior = ObservedPhase { phase: Phase::Queued, version: 3, reason: "a".into() };
        assert_eq!(PhaseInfo::queued(0, "b", at.clone()).newer_than(&prior).version(), 4);
        assert_eq!(PhaseInfo::queued(0, "a", at.clone()).newer_than(&prior).version(), 0);
        assert_eq!(PhaseInfo::initializing(0, "b", at).newer_than(&prior).version(), 0);
    }

    #[test]
    fn only_failures_ask_for_cleanup() {
        let at = TaskInfo::at(Timestamp::UNIX_EPOCH);
        assert!(!PhaseInfo::success(at.clone()).with_cleanup().cleanup_on_failure());
        assert!(PhaseInfo::permanent_failure(ExecutionError::user("C", "m"), at).with_cleanup().cleanup_on_failure());
    }
}
