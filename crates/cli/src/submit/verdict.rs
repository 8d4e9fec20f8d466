//! Whether a task came out as its file says.

use aileron_executor::offline::task_file::{Expectation, Observed, Phase};

use super::results::Finished;
use crate::summary;

/// What came out differently, one sentence each; empty if all is as expected.
pub fn differences(expect: &Expectation, finished: &Finished) -> Vec<String> {
    let followed = &finished.followed;
    let reason = summary::with_code(&followed.reason, &followed.message);
    let error = finished.error().unwrap_or_default();
    expect.differences(&Observed {
        phase: phase(&followed.phase),
        pending: if followed.phase == summary::Phase::Waiting.as_str() { &followed.reason } else { "" },
        attempts: followed.attempts.max(1),
        reason: &reason,
        error: &error,
        outputs: finished.outputs(),
    })
}

/// The phase of an expectation that one of a summary is.
fn phase(word: &str) -> Phase {
    use summary::Phase as Shown;
    let is = |shown: Shown| shown.as_str() == word;
    if is(Shown::Succeeded) {
        Phase::Succeeded
    } else if is(Shown::Failed) {
        Phase::Failed
    } else if is(Shown::TimedOut) {
        Phase::TimedOut
    } else if is(Shown::Aborted) || is(Shown::Aborting) {
        Phase::Aborted
    } else if is(Shown::Running) || is(Shown::Retrying) {
        Phase::Running
    } else if is(Shown::Initializing) {
        Phase::Initializing
    } else if is(Shown::Waiting) || is(Shown::WaitingForCache) || is(Shown::Paused) {
        Phase::Waiting
    } else {
        Phase::Queued
    }
}
