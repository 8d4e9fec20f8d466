//! Where an action stands and how it ended, in one word.

use clap::builder::styling::AnsiColor;

/// Where an action stands, in the words of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing is known of it yet.
    Pending,
    /// Waits for its turn.
    Queued,
    /// Something is in its way, such as a quota, a node without room, or an image; the reason says what.
    Waiting,
    /// Waits for another action that computes the same.
    WaitingForCache,
    /// Waits for a signal.
    Paused,
    /// Being prepared.
    Initializing,
    /// Runs.
    Running,
    /// The attempt failed; another follows.
    Retrying,
    /// Being deleted before its end.
    Aborting,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Ended because it took too long.
    TimedOut,
    /// Deleted before its end.
    Aborted,
}

/// How an action ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Succeeded,
    /// Badly.
    Failed,
    /// It took too long.
    TimedOut,
    /// Stopped on request.
    Aborted,
}

impl Phase {
    /// Its name.
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

    /// The colour that says the same at a glance.
    pub fn colour(self) -> Option<AnsiColor> {
        match self {
            Self::Succeeded => Some(AnsiColor::Green),
            Self::Failed | Self::TimedOut => Some(AnsiColor::Red),
            Self::Running | Self::Initializing => Some(AnsiColor::Cyan),
            Self::Waiting | Self::Retrying | Self::Aborting | Self::Aborted => Some(AnsiColor::Yellow),
            Self::Pending | Self::Queued | Self::WaitingForCache | Self::Paused => None,
        }
    }

    /// How it ended, if it did.
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

    /// Its name, which is that of the last phase.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::TimedOut => "TimedOut",
            Self::Aborted => "Aborted",
        }
    }

    /// True if the action itself came to an end that is not a good one.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::TimedOut)
    }
}

/// A name such as `TimedOut` in small letters, with this between its words.
pub fn spelled(name: &str, between: char) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push(between);
        }
        text.extend(letter.to_lowercase());
    }
    text
}
