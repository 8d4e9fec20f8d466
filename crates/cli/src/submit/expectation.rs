//! Compares the result of a task with the `expect` of its file.

use aileron_preview::task_file::{Expectation, Observed, PhaseWord};

use super::results::FinishedTask;
use crate::action::{self, with_code};

/// The differences between expectation and result, one sentence each. Empty if the task ended as expected.
pub fn differences(expect: &Expectation, finished: &FinishedTask) -> Vec<String> {
    let followed = &finished.followed;
    let reason = with_code(&followed.reason, &followed.message);
    let error = finished.error().unwrap_or_default();
    expect.differences(&Observed {
        phase: phase(&followed.phase),
        pending: if followed.phase == action::DisplayPhase::Waiting.as_str() { &followed.reason } else { "" },
        attempts: followed.attempts.max(1),
        reason: &reason,
        error: &error,
        outputs: finished.outputs(),
    })
}

/// The phase of a summary as a phase of an expectation.
fn phase(word: &str) -> PhaseWord {
    use action::DisplayPhase as Shown;
    let is = |shown: Shown| shown.as_str() == word;
    if is(Shown::Succeeded) {
        PhaseWord::Succeeded
    } else if is(Shown::Failed) {
        PhaseWord::Failed
    } else if is(Shown::TimedOut) {
        PhaseWord::TimedOut
    } else if is(Shown::Aborted) || is(Shown::Aborting) {
        PhaseWord::Aborted
    } else if is(Shown::Running) || is(Shown::Retrying) {
        PhaseWord::Running
    } else if is(Shown::Initializing) {
        PhaseWord::Initializing
    } else if is(Shown::Waiting) || is(Shown::WaitingForCache) || is(Shown::Paused) {
        PhaseWord::Waiting
    } else {
        PhaseWord::Queued
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aileron_idl::flyteidl2::core::TaskTemplate;

    use super::*;
    use crate::action::Outcome;
    use crate::follow::Followed;
    use crate::submit::Submitted;

    fn timed_out() -> FinishedTask {
        FinishedTask {
            submitted: Submitted {
                namespace: "n".into(),
                name: "slow".into(),
                run: "r".into(),
                input_uri: String::new(),
                output_base: String::new(),
                template: TaskTemplate::default(),
            },
            followed: Followed {
                outcome: Some(Outcome::TimedOut),
                phase: "TimedOut".into(),
                attempts: 2,
                reason: "MAX_RUNTIME_EXCEEDED".into(),
                message: "attempt 2 ran for 2s".into(),
                duration: Duration::from_secs(4),
                history: Vec::new(),
            },
            written: None,
            traceback: None,
        }
    }

    fn expect(phase: PhaseWord) -> Expectation {
        let error = Some("MAX_RUNTIME_EXCEEDED".to_owned());
        Expectation { phase, pending: None, attempts: Some(2), reason: None, error, outputs: Default::default() }
    }

    #[test]
    fn an_exceeded_time_limit_is_expected_only_if_the_file_says_so() {
        let finished = timed_out();
        assert!(!finished.is_success());
        assert_eq!(differences(&expect(PhaseWord::TimedOut), &finished), Vec::<String>::new());
        assert_eq!(differences(&expect(PhaseWord::Failed), &finished), ["expected phase failed, found timed-out"]);
        assert_eq!(finished.text(), "slow timed out after 2 attempts: [MAX_RUNTIME_EXCEEDED] attempt 2 ran for 2s\n");
        assert_eq!(finished.as_json()["outcome"], "TimedOut");
    }
}
