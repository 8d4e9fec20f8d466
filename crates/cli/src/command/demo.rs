//! `aileron demo`: runs example tasks in a temporary sandbox and compares how they end with their files.

mod report;
mod tasks;

use std::time::{Duration, Instant};

use aileron_action::TaskAction;
use aileron_preview::task_file::{self, Expectation, Observed};
use kube::{Api, Client};

use crate::action::{DisplayPhase, Summary, plain_message, split_words};
use crate::arguments::DemoArguments;
use crate::display::{duration, output};
use crate::failure::{EXIT_FAILED, Failure};
use crate::follow::{FollowOptions, Followed, ProgressTarget, follow};
use crate::process::signals::SignalReceiver;
use crate::process::threads::start_runtime;
use crate::program::Program;
use crate::sandbox::{ExecutorConfig, LogTarget, Sandbox, SandboxOptions};
use crate::submit::source::SubmitPlan;
use crate::submit::{self, Storage, Submitted, results};

use report::TaskReport;
use tasks::{DemoTask, SdkTask};

/// The demo ends after this time even if tasks have not ended. It normally takes about ten seconds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A task with an expected phase that is not final must stay in this phase for this time. Then it is aborted.
const EXPECTED_STATE_DURATION: Duration = Duration::from_secs(1);
/// Such a task is aborted after this time even if it has not reached the expected phase.
const EXPECTED_STATE_TIMEOUT: Duration = Duration::from_secs(15);

/// How often the phase of such a task is read.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A task that was submitted.
struct Started {
    task: String,
    label: String,
    submitted: Submitted,
    expect: Option<Expectation>,
}

pub fn run(program: &Program, arguments: &DemoArguments, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    let tasks = tasks::find(&arguments.tasks)?;
    let options = SandboxOptions {
        config: ExecutorConfig::new(&arguments.config, overrides),
        log: if arguments.verbose { LogTarget::Stderr } else { LogTarget::File },
        ..SandboxOptions::default()
    };
    let options = options.with_node(&arguments.node)?.with_kinds(&arguments.kinds)?;
    // With task files of the user, the built-in task of the SDK is left out.
    let with_sdk = arguments.tasks.is_empty();
    start_runtime()?.block_on(demonstrate(program, tasks, with_sdk, options))
}

async fn demonstrate(
    program: &Program,
    tasks: Vec<DemoTask>,
    with_sdk: bool,
    options: SandboxOptions,
) -> Result<(), Failure> {
    let begin = Instant::now();
    let python = options.python.clone();
    // Receive signals before anything is started, so that an early signal leaves no process or file behind.
    let mut signals = SignalReceiver::new()?;
    let mut sandbox = signals.run_until_stopped(Sandbox::start(program, options)).await?;
    output::print(&format!(
        "A sandbox is ready after {}: a Kubernetes API in memory, a node whose pods are processes on this machine,\n\
         simulated operators, and the executor.\n\n",
        duration::precise(begin.elapsed())
    ))?;
    let (client, storage, dir) = (sandbox.client(), sandbox.storage().to_owned(), sandbox.registration().dir);
    let work = async {
        let sdk = match with_sdk {
            true => Some(tasks::sdk_task(python.as_deref(), &dir).await),
            false => None,
        };
        run_tasks(program, tasks, sdk, &client, &Storage::local(&storage)?).await
    };
    let ended = signals.run_until_stopped(sandbox.run_unless_failed(work)).await;
    signals.exit_on_next();
    let stopped = sandbox.stop().await;
    let (reports, notes) = ended?;
    let as_expected = reports.iter().all(|report| report.differences.is_empty());
    output::print_truncated(&format!("\n{}", report::render(&reports)))?;
    for note in notes {
        output::print(&format!("\n{note}\n"))?;
    }
    let verdict = if as_expected { "all ended as expected" } else { "not all ended as expected" };
    let (count, plural) = (reports.len(), if reports.len() == 1 { "" } else { "s" });
    output::print(&format!("\n{count} task{plural} in {}: {verdict}\n", duration::precise(begin.elapsed())))?;
    stopped?;
    if as_expected { Ok(()) } else { Err(Failure::AlreadyReported(EXIT_FAILED)) }
}

/// Submits all tasks, follows them to their end, and compares them with their expectations.
async fn run_tasks(
    program: &Program,
    mut tasks: Vec<DemoTask>,
    sdk: Option<SdkTask>,
    client: &Client,
    storage: &Storage,
) -> Result<(Vec<TaskReport>, Vec<String>), Failure> {
    let mut notes = Vec::new();
    match sdk {
        Some(SdkTask::Available(task)) => tasks.push(*task),
        Some(SdkTask::Unavailable(note)) => notes.push(note),
        None => {}
    }
    output::print_truncated(&tasks::overview(&tasks))?;
    let requests = tasks.iter().flat_map(|task| &task.plan.requests);
    let keys: Vec<_> =
        requests.map(|request| (request.namespace.clone(), request.name.clone().unwrap_or_default())).collect();
    let following = FollowOptions {
        target: ProgressTarget::Stdout,
        timeout: Some(TIMEOUT),
        stop_on_signal: false,
        created_later: true,
    };
    // Follow the tasks while they are submitted: the first ones may end before the last ones are submitted.
    let (followed, started) =
        tokio::try_join!(async { Ok::<_, Failure>(follow(client, &keys, following).await?) }, async {
            let mut started = Vec::new();
            for task in &tasks {
                started.extend(submit_task(program, client, storage, task).await?);
            }
            Ok(started)
        })?;
    let mut reports = Vec::new();
    for (one, followed) in started.into_iter().zip(followed) {
        reports.push(evaluate(storage, one, followed).await?);
    }
    Ok((reports, notes))
}

/// Creates the objects that a task needs, and submits the task with all its copies.
async fn submit_task(
    program: &Program,
    client: &Client,
    storage: &Storage,
    task: &DemoTask,
) -> Result<Vec<Started>, Failure> {
    let mut started = Vec::new();
    let SubmitPlan { requests, objects, abort_after } = task.plan.clone();
    let namespace = requests.first().map(|request| request.namespace.clone()).unwrap_or_default();
    submit::create_objects(client, &namespace, &objects).await?;
    for request in requests {
        let label = request.name.clone().unwrap_or_else(|| task.label.clone());
        let expect = request.expect.clone();
        let submitted = submit::submit(program.name(), client, storage, request).await?;
        let (client, namespace, name) = (client.clone(), submitted.namespace.clone(), submitted.name.clone());
        match (abort_after, &expect) {
            (Some(after), _) => _ = tokio::spawn(submit::abort_after(client, namespace, name, after)),
            (None, Some(expect)) if !expect.phase.is_end() => {
                tokio::spawn(abort_when_as_expected(client, namespace, name, expect.clone()));
            }
            (None, _) => {}
        }
        started.push(Started { task: task.label.clone(), label, submitted, expect });
    }
    Ok(started)
}

/// Aborts an action once it has been in the expected state for a while, or after a timeout.
async fn abort_when_as_expected(
    client: Client,
    namespace: String,
    name: String,
    expect: Expectation,
) -> anyhow::Result<()> {
    let actions: Api<TaskAction> = Api::namespaced(client.clone(), &namespace);
    let begin = Instant::now();
    let mut as_expected_since = None;
    while begin.elapsed() < EXPECTED_STATE_TIMEOUT
        && as_expected_since.is_none_or(|since: Instant| since.elapsed() < EXPECTED_STATE_DURATION)
    {
        tokio::time::sleep(POLL_INTERVAL).await;
        let Some(action) = actions.get_opt(&name).await? else { return Ok(()) };
        let (status, summary) = (action.status.clone().unwrap_or_default(), Summary::new(&action));
        let reason = summary.explanation();
        let observed = Observed {
            phase: task_file::PhaseWord::of(&status),
            pending: summary.pending.as_ref().map(|pending| pending.code.as_str()).unwrap_or_default(),
            attempts: status.observed_attempt(),
            reason: &reason,
            error: "",
            outputs: None,
        };
        let is_as_expected = expect.differences(&observed).is_empty();
        as_expected_since = is_as_expected.then(|| as_expected_since.unwrap_or_else(Instant::now));
    }
    submit::abort_after(client, namespace, name, Duration::ZERO).await
}

/// Compares the result of a task with its expectation.
async fn evaluate(storage: &Storage, one: Started, followed: Followed) -> Result<TaskReport, Failure> {
    let Started { task, label, submitted, expect } = one;
    let expects_abort = expect.as_ref().is_some_and(|expect| !expect.phase.is_end());
    let followed = if expects_abort { before_abort(followed) } else { followed };
    let blocked =
        followed.history.iter().filter(|state| state.phase == DisplayPhase::Waiting && !state.reason.is_empty());
    let waited = blocked.map(|state| state.reason.clone()).collect();
    // Task files write `timed-out`, not `TimedOut`.
    let (seen, attempts, took) = (split_words(&followed.phase, '-'), followed.attempts, followed.duration);
    let finished = results::read_result(storage, submitted, followed).await?;
    let differences = match &expect {
        Some(expect) => submit::differences(expect, &finished),
        None if finished.is_success() => Vec::new(),
        None => vec![format!("expected phase succeeded, found {seen}")],
    };
    let expected = expect.as_ref().map_or_else(|| "succeeded".to_owned(), |expect| expect.phase.to_string());
    let error = finished.error().map(|error| plain_message(&error));
    Ok(TaskReport { task, label, expected, seen, attempts, waited, took, differences, error })
}

/// The state of an action before its abort, which an expectation with a phase that is not final describes.
fn before_abort(followed: Followed) -> Followed {
    let aborted = [DisplayPhase::Aborting, DisplayPhase::Aborted];
    let Some(last) = followed.history.iter().rfind(|state| !aborted.contains(&state.phase)) else { return followed };
    Followed {
        outcome: last.phase.outcome(),
        phase: last.phase.as_str().to_owned(),
        attempts: last.attempt,
        reason: last.reason.clone(),
        message: last.message.clone(),
        ..followed.clone()
    }
}
