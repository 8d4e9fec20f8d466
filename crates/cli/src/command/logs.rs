//! `aileron logs`: prints the logs of an action's containers.

use std::collections::BTreeSet;
use std::time::Duration;

use aileron_action::{TaskAction, TaskActionStatus};
use anyhow::{Context, anyhow};
use futures::future::try_join_all;
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::LogParams;
use kube::{Api, ResourceExt};

use super::no_such_action;
use crate::action::{DisplayPhase, Summary, objects};
use crate::arguments::LogsArguments;
use crate::connection::{self, Connection};
use crate::display::output;
use crate::failure::Failure;
use crate::process::threads::start_runtime;
use crate::program::Program;

/// How often the action and its pods are read while the command waits.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// After the end of an attempt, the command waits this long for lines that are still on the way.
const LAST_LINES_DELAY: Duration = Duration::from_secs(1);

/// A container whose log is printed.
#[derive(Clone, Debug)]
struct Source {
    pod: String,
    container: String,
    /// Each line begins with this text.
    prefix: String,
}

pub fn run(program: &Program, arguments: &LogsArguments) -> Result<(), Failure> {
    start_runtime()?.block_on(logs(program, arguments))
}

async fn logs(program: &Program, arguments: &LogsArguments) -> Result<(), Failure> {
    let connection = connection::open(program, &arguments.connection).await?;
    if arguments.follow {
        return follow(program, arguments, &connection).await;
    }
    let action = read_action(program, arguments, &connection).await?;
    let attempt = arguments.attempt.unwrap_or_else(|| current_attempt(&action));
    let pods = pods_of_attempt(&connection, &action, attempt).await?;
    if pods.is_empty() {
        return Err(Failure::Failed(anyhow!("{}", no_pod(&action, attempt))));
    }
    let sources = sources(&pods, arguments.container.as_deref())?;
    // The log of a pod that cannot start is empty. Show what the action waits for.
    if Summary::new(&action).phase == DisplayPhase::Waiting && !pods.iter().any(has_started) {
        output::note(&format!(
            "{} has written nothing yet; it waits: {}",
            arguments.name,
            Summary::new(&action).explanation()
        ));
    }
    show(&connection, &sources, arguments, false).await
}

/// Prints the logs of all attempts, one after the other.
async fn follow(program: &Program, arguments: &LogsArguments, connection: &Connection) -> Result<(), Failure> {
    let mut shown = BTreeSet::new();
    let mut waiting = None;
    loop {
        let action = read_action(program, arguments, connection).await?;
        let attempt = arguments.attempt.unwrap_or_else(|| current_attempt(&action));
        let ended = Summary::new(&action).phase.outcome().is_some();
        let pods = pods_of_attempt(connection, &action, attempt).await?;
        let started: Vec<_> =
            pods.into_iter().filter(|pod| !shown.contains(&pod.uid()) && (ended || has_started(pod))).collect();
        if !started.is_empty() {
            if !shown.is_empty() {
                output::note(&format!("--- attempt {attempt} ---"));
            }
            shown.extend(started.iter().map(ResourceExt::uid));
            let sources = sources(&started, arguments.container.as_deref())?;
            tokio::select! {
                shown = show(connection, &sources, arguments, true) => shown?,
                // Sidecar containers may run longer than the attempt.
                ended = end_of_attempt(program, arguments, connection, attempt) => ended?,
            }
            continue;
        }
        // The pods were listed after the action had ended, so no pod was missed.
        let is_past = arguments.attempt.is_some_and(|requested| requested < current_attempt(&action));
        if ended || is_past || (arguments.attempt.is_some() && !shown.is_empty()) {
            return if shown.is_empty() {
                Err(Failure::Failed(anyhow!("{}", no_pod(&action, attempt))))
            } else {
                Ok(())
            };
        }
        let summary = Summary::new(&action);
        let why =
            if summary.phase == DisplayPhase::Waiting { format!(": {}", summary.explanation()) } else { String::new() };
        if shown.is_empty() && waiting.as_ref() != Some(&why) {
            output::note(&format!("waiting for the pod of {}{why}", arguments.name));
            waiting = Some(why);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Waits until the attempt has ended, and then a moment for its last lines.
async fn end_of_attempt(
    program: &Program,
    arguments: &LogsArguments,
    connection: &Connection,
    attempt: u32,
) -> Result<(), Failure> {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let action = read_action(program, arguments, connection).await?;
        if Summary::new(&action).phase.outcome().is_some() || current_attempt(&action) > attempt {
            tokio::time::sleep(LAST_LINES_DELAY).await;
            return Ok(());
        }
    }
}

async fn read_action(
    program: &Program,
    arguments: &LogsArguments,
    connection: &Connection,
) -> Result<TaskAction, Failure> {
    let actions: Api<TaskAction> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let found = actions.get_opt(&arguments.name).await;
    let found = found.map_err(|error| connection.request_failed(&error, "cannot read the action"))?;
    found.ok_or_else(|| no_such_action(program, connection, &arguments.name))
}

fn current_attempt(action: &TaskAction) -> u32 {
    action.status.as_ref().map_or(1, TaskActionStatus::observed_attempt)
}

async fn pods_of_attempt(connection: &Connection, action: &TaskAction, attempt: u32) -> Result<Vec<Pod>, Failure> {
    let pods = objects::pods(&connection.client, action).await;
    let pods = pods.map_err(|error| connection.request_failed(&error, "cannot list the pods of the action"))?;
    Ok(pods.into_iter().filter(|pod| objects::attempt_of(pod.labels()) == Some(attempt)).collect())
}

/// Why an attempt has no pod.
fn no_pod(action: &TaskAction, attempt: u32) -> String {
    let name = action.name_any();
    let summary = Summary::new(action);
    if attempt < current_attempt(action) {
        return format!("the pod of attempt {attempt} of {name} was deleted, and its log with it");
    }
    if attempt > current_attempt(action) {
        return format!("{name} has no attempt {attempt} yet; it is at attempt {}", current_attempt(action));
    }
    let why = summary.explanation();
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("{name} has no pod; it is {}{why}", summary.phase.as_str())
}

/// True if all containers of the pod have started, so that their logs can be read, or if the pod has ended.
fn has_started(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return true;
    }
    let ran = |one: &ContainerStatus| {
        one.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    status.container_statuses.as_ref().is_some_and(|all| !all.is_empty() && all.iter().all(ran))
}

/// The containers whose logs are printed, in the order in which they start.
fn sources(pods: &[Pod], only: Option<&str>) -> Result<Vec<Source>, Failure> {
    let mut all = Vec::new();
    for pod in pods {
        let Some(spec) = &pod.spec else { continue };
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        all.extend(containers.map(|container| (pod.name_any(), container.name.clone())));
    }
    let names: BTreeSet<_> = all.iter().map(|(_, container)| container.clone()).collect();
    if let Some(only) = only {
        all.retain(|(_, container)| container == only);
        if all.is_empty() {
            let names: Vec<_> = names.into_iter().collect();
            return Err(Failure::Usage(format!("--container {only}: the containers are {}", names.join(", "))));
        }
    }
    let several = all.len() > 1;
    let several_pods = pods.len() > 1;
    let prefix = |pod: &str, container: &str| match (several, several_pods) {
        (false, _) => String::new(),
        (true, false) => format!("[{container}] "),
        (true, true) => format!("[{pod} {container}] "),
    };
    let source = |(pod, container): (String, String)| {
        let prefix = prefix(&pod, &container);
        Source { pod, container, prefix }
    };
    Ok(all.into_iter().map(source).collect())
}

/// Prints the logs: one after the other, or with `follow` all at the same time, line by line.
async fn show(
    connection: &Connection,
    sources: &[Source],
    arguments: &LogsArguments,
    follow: bool,
) -> Result<(), Failure> {
    let pods: Api<Pod> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let print_log = |source: &Source| {
        let (pods, source) = (pods.clone(), source.clone());
        let parameters = LogParams {
            container: Some(source.container.clone()),
            follow,
            previous: arguments.previous,
            tail_lines: arguments.tail.map(i64::from),
            timestamps: arguments.timestamps,
            ..LogParams::default()
        };
        async move {
            let stream = pods.log_stream(&source.pod, &parameters).await;
            let what = format!("cannot read the log of {} in pod {}", source.container, source.pod);
            let mut lines = stream.map_err(|error| connection.request_failed(&error, &what))?.lines();
            while let Some(line) = lines.try_next().await.context("the connection to the log was lost")? {
                output::print_unchanged(&format!("{}{line}\n", source.prefix))?;
            }
            Ok::<_, Failure>(())
        }
    };
    if follow {
        try_join_all(sources.iter().map(print_log)).await?;
        return Ok(());
    }
    for source in sources {
        print_log(source).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn pod(name: &str, containers: &[&str], state: &str) -> Pod {
        let spec: Vec<_> = containers.iter().map(|name| json!({"name": name})).collect();
        let statuses: Vec<_> = containers
            .iter()
            .map(|name| json!({"name": name, "ready": true, "restartCount": 0, "image": "", "imageID": "", "state": {state: {}}}))
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": name}, "spec": {"containers": spec},
            "status": {"phase": "Running", "containerStatuses": statuses},
        }))
        .unwrap()
    }

    #[test]
    fn lines_have_a_prefix_if_there_are_several_containers() {
        let prefixes = |pods: &[Pod], only| {
            sources(pods, only).unwrap().into_iter().map(|source| source.prefix).collect::<Vec<_>>()
        };
        assert_eq!(prefixes(&[pod("p", &["main"], "running")], None), [""]);
        let two = pod("p", &["main", "side"], "running");
        assert_eq!(prefixes(std::slice::from_ref(&two), None), ["[main] ", "[side] "]);
        assert_eq!(prefixes(std::slice::from_ref(&two), Some("side")), [""]);
        let other = pod("q", &["main"], "running");
        assert_eq!(prefixes(&[two.clone(), other], Some("main")), ["[p main] ", "[q main] "]);
        let wrong = sources(&[two], Some("mian")).unwrap_err().to_string();
        assert_eq!(wrong, "--container mian: the containers are main, side");
    }

    #[test]
    fn a_log_is_read_once_all_containers_have_started() {
        assert!(has_started(&pod("p", &["a"], "running")));
        assert!(!has_started(&pod("p", &["a"], "waiting")));
        assert!(!has_started(&Pod::default()));
    }
}
