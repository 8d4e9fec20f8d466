//! `aileron demo`.

mod report;
mod tasks;

use std::time::{Duration, Instant};

use aileron_action::TaskAction;
use aileron_preview::task_file::{self, Expectation, Observed};
use kube::{Api, Client};

use self::report::Line;
use self::tasks::{Sdk, Task};
use crate::arguments::DemoArguments;
use crate::failure::{FAILED, Failure};
use crate::follow::{FollowOptions, Followed, Stream, follow};
use crate::sandbox::{ConfigSources, Records, Sandbox, SandboxOptions};
use crate::signals::Stop;
use crate::submit::source::Work;
use crate::submit::{self, Storage, Submitted, results, verdict};
use crate::summary::{Phase, Summary, plain, spelled};
use crate::{output, runtime, span};

/// All of it takes some seconds; a task that is under way after this long is stuck.
const LIMIT: Duration = Duration::from_secs(60);

/// How long a task must be as expected that is expected not to get any further, and how long it may take to get there.
/// Then it is aborted, unless its file says when.
const STAYS: Duration = Duration::from_secs(1);
const REACHES: Duration = Duration::from_secs(15);

/// How often one looks whether it is.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A task that was handed in.
struct Started {
    task: String,
    label: String,
    submitted: Submitted,
    expect: Option<Expectation>,
}

pub fn run(arguments: &DemoArguments, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    let tasks = tasks::find(&arguments.tasks)?;
    let options = SandboxOptions {
        config: ConfigSources::new(&arguments.config, overrides),
        records: if arguments.verbose { Records::Screen } else { Records::File },
        ..SandboxOptions::default()
    };
    let options = options.with_node(&arguments.node)?;
    // Whoever names files wants those.
    let with_sdk = arguments.tasks.is_empty();
    runtime::start()?.block_on(demonstrate(tasks, with_sdk, options))
}

async fn demonstrate(tasks: Vec<Task>, with_sdk: bool, options: SandboxOptions) -> Result<(), Failure> {
    let begin = Instant::now();
    let python = options.python.clone();
    // Before anything is started, so that a signal that comes early does not leave anything behind.
    let mut stop = Stop::new()?;
    let mut sandbox = stop.or(Sandbox::start(options)).await?;
    output::print(&format!(
        "A sandbox is ready after {}: a Kubernetes API in memory, a node whose pods are processes of this machine,\n\
         simulated operators, and the executor.\n\n",
        span::took(begin.elapsed())
    ))?;
    let (client, storage, dir) = (sandbox.client(), sandbox.storage().to_owned(), sandbox.state().dir);
    let work = async {
        let sdk = match with_sdk {
            true => Some(tasks::sdk(python.as_deref(), &dir).await),
            false => None,
        };
        play(tasks, sdk, &client, &Storage::local(&storage)?).await
    };
    let ended = stop.or(sandbox.unless_broken(work)).await;
    stop.at_once();
    let stopped = sandbox.stop().await;
    let (lines, notes) = ended?;
    let all_well = lines.iter().all(|line| line.differences.is_empty());
    output::print_lines(&format!("\n{}", report::render(&lines)))?;
    for note in notes {
        output::print(&format!("\n{note}\n"))?;
    }
    let verdict = if all_well { "all ended as their files say" } else { "not all ended as their files say" };
    let (count, plural) = (lines.len(), if lines.len() == 1 { "" } else { "s" });
    output::print(&format!("\n{count} task{plural} in {}: {verdict}\n", span::took(begin.elapsed())))?;
    stopped?;
    if all_well { Ok(()) } else { Err(Failure::Told(FAILED)) }
}

async fn play(
    tasks: Vec<Task>,
    sdk: Option<Sdk>,
    client: &Client,
    storage: &Storage,
) -> Result<(Vec<Line>, Vec<String>), Failure> {
    let mut tasks = tasks;
    let mut notes = Vec::new();
    match sdk {
        Some(Sdk::Task(task)) => tasks.push(*task),
        Some(Sdk::LeftOut(note)) => notes.push(note),
        None => {}
    }
    output::print_lines(&tasks::introduce(&tasks))?;
    let requests = tasks.iter().flat_map(|task| &task.work.requests);
    let keys: Vec<_> =
        requests.map(|request| (request.namespace.clone(), request.name.clone().unwrap_or_default())).collect();
    let following = FollowOptions { stream: Stream::Out, timeout: Some(LIMIT), may_leave: false, to_come: true };
    // Together, so that nothing is missed of the first ones while the last are handed in.
    let (followed, started) =
        tokio::try_join!(async { Ok::<_, Failure>(follow(client, &keys, following).await?) }, async {
            let mut started = Vec::new();
            for task in &tasks {
                started.extend(start(client, storage, task).await?);
            }
            Ok(started)
        })?;
    let mut lines = Vec::new();
    for (one, followed) in started.into_iter().zip(followed) {
        lines.push(judge(storage, one, followed).await?);
    }
    Ok((lines, notes))
}

/// Makes what a task needs and hands it in, with all its copies.
async fn start(client: &Client, storage: &Storage, task: &Task) -> Result<Vec<Started>, Failure> {
    let mut started = Vec::new();
    let Work { requests, objects, abort_after } = task.work.clone();
    let namespace = requests.first().map(|request| request.namespace.clone()).unwrap_or_default();
    submit::prepare(client, &namespace, &objects).await?;
    for request in requests {
        let label = request.name.clone().unwrap_or_else(|| task.label.clone());
        let expect = request.expect.clone();
        let submitted = submit::submit(client, storage, request).await?;
        let (client, namespace, name) = (client.clone(), submitted.namespace.clone(), submitted.name.clone());
        match (abort_after, &expect) {
            (Some(after), _) => _ = tokio::spawn(submit::abort_after(client, namespace, name, after)),
            (None, Some(expect)) if !expect.phase.is_end() => {
                tokio::spawn(abort_once_met(client, namespace, name, expect.clone()));
            }
            (None, _) => {}
        }
        started.push(Started { task: task.label.clone(), label, submitted, expect });
    }
    Ok(started)
}

/// Aborts an action once it has been for a while as it is expected to stay, or when that takes too long.
async fn abort_once_met(client: Client, namespace: String, name: String, expect: Expectation) -> anyhow::Result<()> {
    let actions: Api<TaskAction> = Api::namespaced(client.clone(), &namespace);
    let begin = Instant::now();
    let mut met = None;
    while begin.elapsed() < REACHES && met.is_none_or(|met: Instant| met.elapsed() < STAYS) {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(action) = actions.get_opt(&name).await? else { return Ok(()) };
        let (status, summary) = (action.status.clone().unwrap_or_default(), Summary::new(&action));
        let why = summary.why();
        let observed = Observed {
            phase: task_file::Phase::of(&status),
            pending: summary.pending.as_ref().map(|pending| pending.code.as_str()).unwrap_or_default(),
            attempts: status.observed_attempt(),
            reason: &why,
            error: "",
            outputs: None,
        };
        met = expect.differences(&observed).is_empty().then(|| met.unwrap_or_else(Instant::now));
    }
    submit::abort_after(client, namespace, name, Duration::ZERO).await
}

async fn judge(storage: &Storage, one: Started, followed: Followed) -> Result<Line, Failure> {
    let Started { task, label, submitted, expect } = one;
    let stays = expect.as_ref().is_some_and(|expect| !expect.phase.is_end());
    let judged = if stays { before_its_abort(followed) } else { followed };
    let held_up = judged.seen.iter().filter(|seen| seen.phase == Phase::Waiting && !seen.reason.is_empty());
    let waited = held_up.map(|seen| seen.reason.clone()).collect();
    // As files write it.
    let (seen, attempts, took) = (spelled(&judged.phase, '-'), judged.attempts, judged.duration);
    let finished = results::finished(storage, submitted, judged).await?;
    let differences = match &expect {
        Some(expect) => verdict::differences(expect, &finished),
        None if finished.is_success() => Vec::new(),
        None => vec![format!("expected phase succeeded, found {seen}")],
    };
    let expected = expect.as_ref().map_or_else(|| "succeeded".to_owned(), |expect| expect.phase.to_string());
    let error = finished.error().map(|error| plain(&error));
    Ok(Line { task, label, expected, seen, attempts, waited, took, differences, error })
}

/// What an action was when it was aborted: an expectation that is no end is about that.
fn before_its_abort(followed: Followed) -> Followed {
    let aborted = [Phase::Aborting, Phase::Aborted];
    let Some(last) = followed.seen.iter().rfind(|seen| !aborted.contains(&seen.phase)) else { return followed };
    Followed {
        outcome: last.phase.outcome(),
        phase: last.phase.as_str().to_owned(),
        attempts: last.attempt,
        reason: last.reason.clone(),
        message: last.message.clone(),
        ..followed.clone()
    }
}
