//! The phase of an action and its outcome, as one word each.

use clap::builder::styling::AnsiColor;

/// The phase of an action, as the commands of this program show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DisplayPhase {
    /// The action has no status yet.
    Pending,
    /// The attempt is queued.
    Queued,
    /// Something blocks the action, such as a quota, missing capacity, or an image that cannot be pulled. The reason says
    /// what.
    Waiting,
    /// Another action computes the same outputs; this action waits for its result.
    WaitingForCache,
    /// The action waits for a signal.
    Paused,
    /// The pod or object of the attempt is starting.
    Initializing,
    /// The task runs.
    Running,
    /// The attempt failed; another attempt follows.
    Retrying,
    /// The action is being deleted before its end.
    Aborting,
    /// The task succeeded.
    Succeeded,
    /// The task failed.
    Failed,
    /// The task exceeded a time limit.
    TimedOut,
    /// The action was deleted before its end.
    Aborted,
}

/// How an action ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The task succeeded.
    Succeeded,
    /// The task failed.
    Failed,
    /// The task exceeded a time limit.
    TimedOut,
    /// The action was deleted before its end.
    Aborted,
}

impl DisplayPhase {
    /// The name of the phase.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Queued => "Queued",
            Self::Waiting => "Waiting",
            Self::WaitingForCache => "WaitingForCache",
            Self::Paused => "Paused",
            Self::Initializing => "Initializing",
            Self::Running => "Running",
            Self::Retrying => "Retrying",
            Self::Aborting => "Aborting",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::TimedOut => "TimedOut",
            Self::Aborted => "Aborted",
        }
    }

    /// The colour of the phase on a terminal.
    pub fn colour(self) -> Option<AnsiColor> {
        match self {
            Self::Succeeded => Some(AnsiColor::Green),
            Self::Failed | Self::TimedOut => Some(AnsiColor::Red),
            Self::Running | Self::Initializing => Some(AnsiColor::Cyan),
            Self::Waiting | Self::Retrying | Self::Aborting | Self::Aborted => Some(AnsiColor::Yellow),
            Self::Pending | Self::Queued | Self::WaitingForCache | Self::Paused => None,
        }
    }

    /// The outcome, if the phase is final.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Succeeded => Some(Outcome::Succeeded),
            Self::Failed => Some(Outcome::Failed),
            Self::TimedOut => Some(Outcome::TimedOut),
            Self::Aborted => Some(Outcome::Aborted),
            _ => None,
        }
    }
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 4] = [Self::Succeeded, Self::Failed, Self::TimedOut, Self::Aborted];

    /// The name of the outcome, which is the name of the final phase.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::TimedOut => "TimedOut",
            Self::Aborted => "Aborted",
        }
    }

    /// True if the task failed or exceeded a time limit. An abort is not a failure.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::TimedOut)
    }
}

/// A name such as `TimedOut` in lower case, with `separator` between its words: `timed-out`.
pub fn split_words(name: &str, separator: char) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push(separator);
        }
        text.extend(letter.to_lowercase());
    }
    text
}
