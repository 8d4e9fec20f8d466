//! Texts and statuses that always fit: into the schema of `TaskAction`, into one object of the API server, and into an
//! event.
//!
//! An error document of a task may have 2 MiB. A status with such a message is refused each time it is written, so the
//! action would never end.

use std::borrow::Cow;

use crate::{PhaseTransition, TaskActionStatus};

/// The longest message of a condition, in bytes. The schema allows 32,768 characters, and an ended action has two
/// conditions with the same message.
pub(crate) const CONDITION_MESSAGE: usize = 16 * 1024;
/// The longest message of the error state, in bytes. The control plane shows it as the error of a child action.
pub(crate) const ERROR_MESSAGE: usize = 32 * 1024;
/// The longest error code, in bytes. Codes are short names; this bounds a document that is not as it should be.
pub(crate) const ERROR_CODE: usize = 256;
/// The longest message of an entry of the history, in bytes. With [`HISTORY_ENTRIES`] the history has at most 200 KiB,
/// which leaves most of the 1.5 MiB of an object in etcd to the specification.
pub(crate) const HISTORY_MESSAGE: usize = 2 * 1024;
/// The most entries of the history. A task with 30 attempts has about 100.
pub(crate) const HISTORY_ENTRIES: usize = 100;
/// The longest message in an event, in bytes. Events are stored in a database, so they may be longer than a status.
pub(crate) const EVENT_MESSAGE: usize = 64 * 1024;

/// The longest message in a status that is shortened as far as possible, in bytes: enough for one sentence.
const LAST_RESORT_MESSAGE: usize = 256;

/// The space for the words that say how much was left out.
const NOTE: usize = 64;

/// The text if it has at most `longest` bytes; otherwise its head and its tail, and how much was left out between them.
/// The result has at most `longest` bytes, if that is enough for the note.
///
/// # Differs from upstream
///
/// Upstream writes messages as they are. A message above 32,768 characters makes the API server refuse each write of the
/// status, and the action never ends.
pub fn shortened(text: &str, longest: usize) -> Cow<'_, str> {
    if text.len() <= longest {
        return Cow::Borrowed(text);
    }
    let half = longest.saturating_sub(NOTE) / 2;
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len() - half);
    let left_out = tail - head;
    Cow::Owned(format!("{} [… {left_out} bytes left out …] {}", &text[..head], &text[tail..]))
}

/// Appends an entry to the history. If there are too many, the second entry is dropped: the first says when the action
/// began, and the last ones what happens now.
pub(crate) fn append(history: &mut Vec<PhaseTransition>, entry: PhaseTransition) {
    history.push(entry);
    while history.len() > HISTORY_ENTRIES {
        history.remove(1);
    }
}

impl TaskActionStatus {
    /// The same status with as little text as possible, for an API server that refuses the status because of its size.
    /// What decisions are made from is kept: the conditions, the phase, the counts, the plugin's state, and the first and
    /// the last entry of the history.
    #[must_use]
    pub fn shortened(&self) -> Self {
        let mut status = self.clone();
        for condition in &mut status.conditions {
            condition.message = shortened(&condition.message, LAST_RESORT_MESSAGE).into_owned();
        }
        if status.phase_history.len() > 2 {
            let last = status.phase_history.len() - 1;
            status.phase_history.drain(1..last);
        }
        for entry in &mut status.phase_history {
            entry.message.clear();
        }
        if let Some(error) = &mut status.error_state {
            error.message = shortened(&error.message, LAST_RESORT_MESSAGE).into_owned();
            error.code = shortened(&error.code, ERROR_CODE).into_owned();
        }
        status.state_json.clear();
        status
    }
}

#[cfg(test)]
mod tests {
    use aileron_machinery::{ExecutionError, PhaseInfo, TaskInfo};
    use jiff::{SignedDuration, Timestamp};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    #[test]
    fn a_long_text_keeps_its_head_and_its_tail() {
        let text = format!("Traceback: {} ValueError: odd", "x".repeat(2 * 1024 * 1024));
        for longest in [256, 1024, 32 * 1024] {
            let short = shortened(&text, longest);
            assert!(short.len() <= longest && short.len() > longest - NOTE, "{}", short.len());
            assert!(short.starts_with("Traceback: x") && short.ends_with("x ValueError: odd"), "{short}");
            assert!(short.contains("bytes left out"), "{short}");
            assert_eq!(shortened(&short, longest), short, "it is not shortened again");
        }
        assert_eq!(shortened("short", 5), "short");
    }

    #[test]
    fn letters_of_several_bytes_are_not_cut() {
        for text in ["ä".repeat(300), format!("a{}", "👍".repeat(100)), "中".repeat(200)] {
            let short = shortened(&text, 200);
            assert!(short.len() <= 200 && short.contains("bytes left out"), "{short}");
        }
        assert!(shortened("a long text", 0).contains("11 bytes left out"));
    }

    #[test]
    fn a_status_with_a_message_of_two_mebibytes_fits_into_the_schema_and_into_an_object() {
        let huge = "ä".repeat(1024 * 1024);
        let long = "ä".repeat(20_000);
        let mut status = TaskActionStatus::default();
        for attempt in 0..200 {
            let error = ExecutionError::user(&long, &long);
            status.show_phase(&PhaseInfo::queued(&long, TaskInfo::at(at(attempt))), at(attempt));
            status.show_phase(&PhaseInfo::retryable_failure(error, TaskInfo::at(at(attempt))), at(attempt));
        }
        status.show_phase(
            &PhaseInfo::permanent_failure(ExecutionError::user(&huge, &huge), TaskInfo::at(at(500))),
            at(500),
        );
        assert!(status.conditions.iter().all(|condition| condition.message.chars().count() <= 32_768));
        let size = serde_json::to_string(&status).unwrap_or_default().len();
        assert!(size < 512 * 1024, "{size}");
        let history = &status.phase_history;
        assert_eq!(history.len(), HISTORY_ENTRIES);
        assert_eq!((history[0].occurred_at.0, history[HISTORY_ENTRIES - 1].occurred_at.0), (at(0), at(500)));
    }

    #[test]
    fn the_shortest_status_keeps_what_decisions_are_made_from() {
        let mut status = TaskActionStatus { attempts: 3, system_failures: 1, ..TaskActionStatus::default() };
        status.state_json = "x".repeat(10_000);
        status.plugin_state.0 = vec![7; 100];
        let long = "m".repeat(10_000);
        for second in 0..50 {
            status.begin_history("Queued", &long, at(second));
        }
        let error = ExecutionError::user("Code", &long);
        status.show_phase(&PhaseInfo::permanent_failure(error, TaskInfo::at(at(60))), at(60));
        let short = status.shortened();
        assert!(serde_json::to_string(&short).unwrap_or_default().len() < 2_500);
        assert_eq!(short.ended_at(), status.ended_at());
        assert_eq!((short.attempts, short.system_failures, &short.plugin_state), (3, 1, &status.plugin_state));
        assert_eq!(short.phase_history.first().map(|it| it.occurred_at.0), Some(at(0)));
        assert_eq!(short.phase_history.last().map(|it| it.phase.as_str()), Some("PermanentFailure"));
        assert_eq!(short.error_state.map(|error| error.code).as_deref(), Some("Code"));
    }
}
