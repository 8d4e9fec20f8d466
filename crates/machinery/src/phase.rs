//! Where a task stands: the phases of a plugin, and everything a plugin says along with one.

mod context;
mod info;
mod pending;
mod task_info;

use aileron_idl::flyteidl2::core as pb;
use serde::{Deserialize, Serialize};

pub use context::PhaseContext;
pub use info::PhaseInfo;
pub use pending::{Pending, PendingReason};
pub use task_info::{ExternalResource, ReasonInfo, TaskInfo};

/// The state of one attempt of a task, as a plugin reports it.
///
/// Numbers and names are stored (`status.pluginState`, `status.pluginPhase`), so they never change.
/// Mirrors `pluginsCore.Phase`.
///
/// The JSON form is the stored name.
///
/// ```
/// use aileron_machinery::Phase;
///
/// assert!(Phase::RetryableFailure.is_failure() && Phase::RetryableFailure.is_terminal());
/// assert!(!Phase::Running.is_terminal());
/// assert_eq!((Phase::Running.as_str(), Phase::Running.number()), ("PhaseRunning", 5));
/// assert_eq!(Phase::from_name("PhaseSuccess").map(Phase::is_success), Some(true));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
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
    ///
    /// ```
    /// use aileron_machinery::Phase;
    ///
    /// let terminal: Vec<Phase> = Phase::ALL.into_iter().filter(|phase| phase.is_terminal()).collect();
    /// assert_eq!(terminal, [Phase::Success, Phase::RetryableFailure, Phase::PermanentFailure, Phase::Aborted]);
    /// ```
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
    ///
    /// ```
    /// use aileron_machinery::Phase;
    ///
    /// assert_eq!(Phase::from_number(10).map(Phase::is_aborted), Some(true));
    /// assert_eq!(Phase::from_number(99), None);
    /// ```
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

impl From<Phase> for &'static str {
    fn from(phase: Phase) -> Self {
        phase.as_str()
    }
}

impl TryFrom<String> for Phase {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::from_name(&name).ok_or_else(|| format!("{name:?} is not the name of a phase"))
    }
}

/// Who is to blame for a failure, which decides whose retry budget it uses.
///
/// ```
/// use aileron_machinery::{ErrorKind, ExecutionError};
///
/// assert_eq!(ExecutionError::system("NodeLost", "node n1 does not answer").kind, ErrorKind::System);
/// assert_eq!(ErrorKind::User.as_str(), "USER");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
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
///
/// ```
/// use aileron_machinery::{ErrorKind, ExecutionError, PhaseInfo, TaskInfo};
/// # use aileron_machinery::{testing::task, serde_json::Value};
/// # let task = task("batch", &Value::Null);
///
/// let error = ExecutionError::user("BatchFailed", "exit code 3");
/// let phase = PhaseInfo::retryable_failure(error, TaskInfo::at(task.now));
/// assert_eq!(phase.error().unwrap().kind, ErrorKind::User, "it uses an attempt of the user");
///
/// let error = ExecutionError::system("NodeLost", "node n1 does not answer");
/// assert!(PhaseInfo::retryable_failure(error, TaskInfo::at(task.now)).is_system_retryable_failure());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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

/// What the previous round saw: the part of the stored plugin state that a plugin may look at.
///
/// ```
/// use aileron_machinery::{ObservedPhase, Phase, PhaseContext};
/// # use aileron_machinery::{testing::task, serde_json::Value};
///
/// let task = task("batch", &Value::Null);
/// let prior = ObservedPhase { phase: Phase::Running, version: 1, reason: "2 of 3 workers".into() };
/// let context = PhaseContext::new(&task, &prior);
/// assert!(context.prior.phase == Phase::Running, "the job ran in the round before");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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
}
