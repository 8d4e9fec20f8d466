//! Tasks of the plugin in a simulated cluster, in which one thing after the other fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use aileron_history::plan::Expected;
use aileron_idl::flyteidl2::workflow::ActionEvent;
use aileron_machinery::{Phase, PhaseInfo};

use super::Conformance;
use super::functions::read_life;
use crate::life::Life;
use crate::report::Check;
use crate::simulation::history::RequestLine;
use crate::simulation::patterns::Pattern;
use crate::simulation::paused_runtime::run_paused;
use crate::trial::{Interference, Outcome, Scenario, Subject};

const ENDS: &str = "a task ends as its objects do";
const VERSIONS: &str = "versions grow when reasons change";
const CRASHES: &str = "nothing is lost when the executor is killed before or after a write";
const ANSWERS: &str = "nothing is lost when the answer to a write is lost";
const REFUSALS: &str = "nothing is lost when a write is refused (quota, 409, 429, 500)";
const WATCHES: &str = "nothing is lost when a watch misses a change, must list again (410), or is late";
const RESTARTS: &str = "nothing is lost when the executor starts again";
const DELETIONS: &str = "nothing is left behind when somebody deletes the object";
const ABORTS: &str = "an abort leaves nothing behind, also when the executor fails meanwhile";
const EDITS: &str = "labels and annotations of others stay";
const PROMISES: [&str; 10] = [ENDS, VERSIONS, CRASHES, ANSWERS, REFUSALS, WATCHES, RESTARTS, DELETIONS, ABORTS, EDITS];

/// Rules that do not apply when the plugin blames the platform: the executor then starts the same attempt again, and charges
/// its own budget.
const NOT_AFTER_SYSTEM_FAILURES: [&str; 2] =
    ["finished work is not done again", "faults of the platform are not charged to a task"];

/// For a task without an object: when somebody interferes.
const SECONDS: std::ops::Range<usize> = 0..6;

/// A task whose objects live in a certain way.
struct Course {
    name: String,
    scenario: Scenario,
    /// States of the first object at which something can happen; for a task without an object, seconds.
    places: std::ops::Range<usize>,
    blames_platform: bool,
    /// The plugin does not want every change of a reason to be reported.
    has_quiet_reasons: bool,
}

/// One run.
#[derive(Clone)]
struct Run {
    promise: &'static str,
    course: usize,
    pattern: Pattern,
    interference: Option<(usize, Interference)>,
    text: String,
}

pub(super) fn check(conformance: &Conformance) -> Vec<Check> {
    let courses = courses(conformance);
    let mut problems: Vec<(&'static str, String)> = Vec::new();
    let mut times: Vec<&'static str> = Vec::new();
    let mut runs = Vec::new();
    for (number, course) in courses.iter().enumerate() {
        let undisturbed = Run {
            promise: ENDS,
            course: number,
            pattern: Pattern::None,
            interference: None,
            text: course.name.clone(),
        };
        times.extend([ENDS, VERSIONS]);
        match run(&courses, &undisturbed) {
            Ok(outcome) => {
                let broken = outcome.violations.iter().map(|violation| (ENDS, format!("{}: {violation}", course.name)));
                problems.extend(broken);
                let versions = versions(&outcome.events, course.has_quiet_reasons);
                problems.extend(versions.map(|problem| (VERSIONS, format!("{}: {problem}", course.name))));
                runs.extend(disturbed(number, course, &outcome));
            }
            Err(error) => problems.push((ENDS, format!("{}: {error}", course.name))),
        }
        // An abort halfway has writes of its own, each of which can fail.
        let place = course.places.start + course.places.len() / 2;
        let abort = Run {
            promise: ABORTS,
            interference: Some((place, Interference::Abort)),
            text: format!("{}, abort at {place}", course.name),
            ..undisturbed
        };
        if number == 0
            && let Ok(outcome) = run(&courses, &abort)
        {
            runs.extend(at_writes(&abort, &outcome.writes, false));
        }
    }
    // If tasks fail without any fault, faults say nothing.
    if problems.is_empty() {
        let chosen = sample(&runs, conformance.every);
        for (run, found) in chosen.iter().zip(run_all(&courses, &chosen)) {
            times.push(run.promise);
            problems.extend(found.into_iter().map(|problem| (run.promise, format!("{}: {problem}", run.text))));
        }
    }
    let check = |promise: &&'static str| {
        let found = problems.iter().filter(|(broken, _)| broken == promise).map(|(_, text)| text.clone()).collect();
        let count = times.iter().filter(|checked| *checked == promise).count();
        (count > 0).then(|| Check::new(*promise, count, found))
    };
    PROMISES.iter().filter_map(check).collect()
}

/// One run of n for each promise, at least one.
fn sample(runs: &[Run], n: usize) -> Vec<Run> {
    let of_promise = |promise: &&'static str| {
        let all: Vec<Run> = runs.iter().filter(|run| run.promise == *promise).cloned().collect();
        // From the middle of the first n: the first writes are alike for all plugins.
        let first = (n / 2).min(all.len().saturating_sub(1));
        all.into_iter().skip(first).step_by(n)
    };
    PROMISES.iter().flat_map(of_promise).collect()
}

fn courses(conformance: &Conformance) -> Vec<Course> {
    let Some(task) = conformance.tasks.first() else { return Vec::new() };
    let scenario = |lives: Vec<Life>, expected| Scenario {
        subject: conformance.subject.clone(),
        definition: conformance.definition.clone(),
        task: task.clone(),
        lives,
        expected,
    };
    let Subject::Object(plugin) = &conformance.subject else {
        let scenario = scenario(Vec::new(), Expected::Success(1));
        return vec![Course {
            name: "the task".to_owned(),
            scenario,
            places: SECONDS,
            blames_platform: false,
            has_quiet_reasons: false,
        }];
    };
    let success = conformance.lives.iter().find(|life| life.last_phase().is_success());
    let of_life = |life: &Life| {
        let states = read_life(plugin.as_ref(), task, life, |_| ()).unwrap_or_default();
        let blames_platform = states.last().is_some_and(|state| PhaseInfo::is_system_retryable_failure(&state.info));
        let expected = match life.last_phase() {
            Phase::Success => Expected::Success(1),
            Phase::RetryableFailure if blames_platform => Expected::Success(1),
            Phase::RetryableFailure => Expected::Success(2),
            _ => Expected::Failure(1),
        };
        let lives = std::iter::once(life.clone()).chain(success.cloned()).collect();
        Course {
            name: format!("life {:?}", life.name()),
            scenario: scenario(lives, expected),
            places: 0..life.steps().len() + 1,
            blames_platform,
            has_quiet_reasons: states.iter().any(|state| state.info.has_quiet_reason()),
        }
    };
    conformance.lives.iter().map(of_life).collect()
}

/// All runs of a course with one disturbance each.
fn disturbed(number: usize, course: &Course, undisturbed: &Outcome) -> Vec<Run> {
    let plain =
        Run { promise: ENDS, course: number, pattern: Pattern::None, interference: None, text: course.name.clone() };
    let mut runs = at_writes(&plain, &undisturbed.writes, true);
    for change in 0..undisturbed.changes {
        let patterns = [
            (Pattern::Unobserved(change), "is missed, and the watch lists again"),
            (Pattern::Late(change), "comes late"),
        ];
        runs.extend(patterns.map(|(pattern, text)| Run {
            promise: WATCHES,
            pattern,
            text: format!("{}, watched change {change} {text}", course.name),
            ..plain.clone()
        }));
    }
    let is_object = matches!(course.scenario.subject, Subject::Object(_));
    for place in course.places.clone() {
        let interferences = [
            (RESTARTS, Interference::Restart, "the executor is killed", true),
            (DELETIONS, Interference::DeleteObject, "the object is deleted", is_object),
            (ABORTS, Interference::Abort, "the action is deleted", true),
            (EDITS, Interference::Edit, "another controller edits the object", is_object),
        ];
        let applicable = interferences.into_iter().filter(|(.., applies)| *applies);
        runs.extend(applicable.map(|(promise, interference, text, _)| Run {
            promise,
            interference: Some((place, interference)),
            text: format!("{}, {text} at {place}", course.name),
            ..plain.clone()
        }));
    }
    runs
}

/// A run for each write and each thing that can happen to it. `promised` names the promise by the fault; otherwise it is that
/// of the run.
fn at_writes(run: &Run, writes: &[RequestLine], promised: bool) -> Vec<Run> {
    let mut runs = Vec::new();
    for (number, line) in (0..).zip(writes) {
        let mut faults = vec![
            (CRASHES, Pattern::CrashBefore(number), "the executor is killed before"),
            (CRASHES, Pattern::CrashAfter(number), "the executor is killed after"),
            (ANSWERS, Pattern::LostAnswer(number), "lost answer of"),
            (REFUSALS, Pattern::Refused(number, 409), "409 for"),
            (REFUSALS, Pattern::Refused(number, 429), "429 for"),
            (REFUSALS, Pattern::Refused(number, 500), "500 for"),
        ];
        let is_work = line.verb == "create" && !line.resource.starts_with("events") && line.resource != "leases";
        if is_work {
            faults.push((REFUSALS, Pattern::Refused(number, 403), "quota refusal of"));
        }
        runs.extend(faults.into_iter().map(|(promise, pattern, text)| Run {
            promise: if promised { promise } else { run.promise },
            pattern,
            text: format!("{}, {text} write {number} ({line})", run.text),
            ..run.clone()
        }));
    }
    runs
}

fn run(courses: &[Course], run: &Run) -> Result<Outcome, String> {
    let Some(course) = courses.get(run.course) else { return Err("no such course".to_owned()) };
    let on_clock = AssertUnwindSafe(|| run_paused(course.scenario.run(run.pattern, run.interference)));
    let mut outcome = match catch_unwind(on_clock) {
        Ok(Ok(outcome)) => outcome.map_err(|error| format!("{error:#}"))?,
        Ok(Err(error)) => return Err(format!("no runtime: {error}")),
        Err(_) => return Err("the run panicked".to_owned()),
    };
    if course.blames_platform {
        outcome.violations.retain(|violation| !NOT_AFTER_SYSTEM_FAILURES.contains(&violation.rule.as_str()));
    }
    Ok(outcome)
}

/// Runs on all processors. Returns what was wrong in each run.
fn run_all(courses: &[Course], runs: &[Run]) -> Vec<Vec<String>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, found) = (AtomicUsize::new(0), Mutex::new(vec![Vec::new(); runs.len()]));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(chosen) = runs.get(number) else { break };
                    let problems = match run(courses, chosen) {
                        Ok(outcome) => outcome.violations.iter().map(ToString::to_string).collect(),
                        Err(error) => vec![error],
                    };
                    if let Some(entry) = found.lock().unwrap_or_else(PoisonError::into_inner).get_mut(number) {
                        *entry = problems;
                    }
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Readers keep one event of each attempt, phase and version. So versions of a phase never fall, and events of one version say
/// the same. The first event of a later attempt is not the plugin's: the executor says that it starts the task again.
fn versions(events: &[ActionEvent], has_quiet_reasons: bool) -> impl Iterator<Item = String> + '_ {
    events.iter().enumerate().filter_map(move |(number, event)| {
        let key = |event: &ActionEvent| (event.attempt, event.phase);
        let reasons = |event: &ActionEvent| -> Vec<String> {
            event.cluster_events.iter().map(|cluster_event| cluster_event.message.clone()).collect()
        };
        let first = events.iter().position(|other| other.attempt == event.attempt && event.attempt > 1);
        let earlier = events.iter().enumerate().take(number).rev().filter(|(place, _)| Some(*place) != first);
        let (_, before) = earlier.into_iter().find(|(_, other)| key(other) == key(event))?;
        let same_version = before.version == event.version && reasons(before) != reasons(event) && !has_quiet_reasons;
        (before.version > event.version || same_version).then(|| {
            format!(
                "attempt {} has two events of phase {:?}, version {} with {:?} and version {} with {:?}",
                event.attempt,
                event.phase(),
                before.version,
                reasons(before),
                event.version,
                reasons(event)
            )
        })
    })
}
