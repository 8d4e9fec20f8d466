//! Three tasks from submission to end, on a throw-away control plane, with a line for everything that happens.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use aileron_idl::flyteidl2::common::ActionPhase;
use aileron_idl::flyteidl2::workflow::ActionEvent;
use aileron_parity::suite::{Bench, Executor, Logs, Shown, Space, Task};
use anyhow::Result;

const ABOUT: &str = "\
This runs three tasks on a real Kubernetes API server (kube-apiserver and etcd, started here and removed at the end).
The executor is the real one. The kubelet is simulated: pods get a node and a status, but no container is started.
";

/// The whole demonstration takes a few seconds; a machine that needs this long is stuck.
const LIMIT: Duration = Duration::from_secs(60);

/// What is shown of a reason: a line of a terminal has to hold the rest, too.
const REASON: usize = 60;

/// What is submitted, and how it should end.
struct Act {
    name: &'static str,
    about: &'static str,
    attempts: &'static [&'static str],
    end: (u32, ActionPhase),
}

const ACTS: [Act; 3] = [
    Act { name: "succeeds", about: "runs and succeeds", attempts: &["succeed@1200"], end: (1, ActionPhase::Succeeded) },
    Act {
        name: "third-time",
        about: "fails twice, succeeds on the third attempt",
        attempts: &["fail:1:Error:out of luck@500", "error:Unlucky:recoverable@500", "succeed@500"],
        end: (3, ActionPhase::Succeeded),
    },
    Act { name: "aborted", about: "is deleted while it runs", attempts: &["run"], end: (1, ActionPhase::Aborted) },
];

/// Prints with the time since the start, in colour where somebody looks.
struct Screen {
    begin: Instant,
    colours: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let screen = Screen {
        begin: Instant::now(),
        colours: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
    };
    match demonstrate(&screen).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("the demonstration broke off: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn demonstrate(screen: &Screen) -> Result<bool> {
    println!("{ABOUT}");
    screen.say("starting etcd and kube-apiserver");
    Logs::keep();
    let bench = Bench::start().await?;
    screen.say("the API server is ready and knows TaskAction");
    let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
    screen.say("the executor is ready");
    let space = bench.space("demo").await?;
    println!();
    for Act { name, about, attempts, .. } in ACTS {
        println!("  {name:<12} {about}");
        space.submit(&Task::container(name).retries(2).attempts(attempts)).await?;
    }
    println!("\n{:>8}  {:<12} {:>7}  {:<12} REASON", "ELAPSED", "ACTION", "ATTEMPT", "PHASE");

    let took = follow(screen, &space).await?;
    println!("\n{:<12} {:>8}  {:<12} {:>5}  {:>7}", "ACTION", "ATTEMPTS", "END", "PODS", "TOOK");
    let mut all_well = true;
    for Act { name, end, .. } in ACTS {
        let (attempts, phase) = space.phases(name).last().copied().unwrap_or((0, ActionPhase::Unspecified));
        let as_wanted = (attempts, phase) == end && stored(&space, name, phase).await;
        let pods = space.runs().iter().filter(|run| run.name.starts_with(name)).count();
        let seconds = took.get(name).map_or_else(String::new, |took| format!("{:.1}s", took.as_secs_f64()));
        let remark = if as_wanted { "as expected" } else { "NOT AS EXPECTED" };
        let phase = screen.paint(phase, &format!("{:<12}", phase_name(phase)));
        println!("{name:<12} {attempts:>8}  {phase} {pods:>5}  {seconds:>7}  {remark}");
        if !as_wanted {
            println!("{}", space.dump(name).await);
        }
        all_well &= as_wanted;
    }
    executor.stop().await?;
    Ok(all_well)
}

/// Prints every phase until all have ended; deletes the one that is to be aborted once another has ended. The answer is
/// how long each took.
async fn follow(screen: &Screen, space: &Space<'_>) -> Result<BTreeMap<String, Duration>> {
    let begin = Instant::now();
    let (mut shown, mut deleted) = (0, false);
    let mut took = BTreeMap::new();
    let mut last = BTreeMap::new();
    while took.len() < ACTS.len() {
        let left = LIMIT.saturating_sub(begin.elapsed());
        let events = space.bench.stub.wait_for(left, |events| events.len() > shown).await?;
        for recorded in &events[shown..] {
            let event = &recorded.event;
            let name = event.id.as_ref().map(|id| id.name.clone()).unwrap_or_default();
            let now = (event.attempt, event.phase());
            // Versions within a phase only add details.
            if last.insert(name.clone(), now) != Some(now) {
                screen.phase(&name, event);
            }
            if ACTS.iter().any(|act| act.name == name && act.end == now) {
                took.insert(name, begin.elapsed());
            }
        }
        shown = events.len();
        if !deleted && took.contains_key("succeeds") && last.get("aborted") == Some(&(1, ActionPhase::Running)) {
            deleted = true;
            screen.say("the TaskAction `aborted` is deleted");
            space.delete("aborted").await?;
        }
    }
    Ok(took)
}

/// What the API server has in the end agrees with what was told.
async fn stored(space: &Space<'_>, name: &str, phase: ActionPhase) -> bool {
    if phase == ActionPhase::Aborted {
        return space.until_gone(name).await.is_ok();
    }
    let action = space.until_ended(name).await;
    action.is_ok_and(|action| action.outcome().is_some_and(|(ended, _)| ended == phase_name(phase)))
}

impl Screen {
    fn say(&self, text: &str) {
        println!("{}  {text}", self.elapsed());
    }

    fn phase(&self, action: &str, event: &ActionEvent) {
        let phase = self.paint(event.phase(), &format!("{:<12}", phase_name(event.phase())));
        println!("{}  {action:<12} {:>7}  {phase} {}", self.elapsed(), event.attempt, reason(event));
    }

    fn elapsed(&self) -> String {
        format!("{:>7.2}s", self.begin.elapsed().as_secs_f64())
    }

    fn paint(&self, phase: ActionPhase, text: &str) -> String {
        let colour = match phase {
            ActionPhase::Succeeded => 32,
            ActionPhase::Failed | ActionPhase::TimedOut => 31,
            ActionPhase::Running => 36,
            ActionPhase::Aborted => 33,
            _ => return text.to_owned(),
        };
        if self.colours { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn phase_name(phase: ActionPhase) -> String {
    format!("{phase:?}")
}

/// The error if there is one, else what led to the phase; one line of it.
fn reason(event: &ActionEvent) -> String {
    let error = event.error_info.as_ref().map(|error| format!("[{}] {}", error.code, error.message));
    let text = error.or_else(|| event.cluster_events.first().map(|event| event.message.clone())).unwrap_or_default();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(REASON) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
