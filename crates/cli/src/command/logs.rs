//! `aileron logs`.

use std::collections::BTreeSet;
use std::time::Duration;

use aileron_action::{TaskAction, TaskActionStatus};
use anyhow::{Context, anyhow};
use futures::future::try_join_all;
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::LogParams;
use kube::{Api, Client, ResourceExt};

use crate::arguments::LogsArguments;
use crate::connection::{self, Connection};
use crate::failure::Failure;
use crate::summary::{Phase, Summary};
use crate::{objects, output, runtime};

/// How often one looks for a pod that is not there yet.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How long lines may take to get here that were written before the end.
const STRAGGLERS: Duration = Duration::from_secs(1);

/// A container whose log is shown.
#[derive(Clone, Debug)]
struct Source {
    pod: String,
    container: String,
    /// What its lines begin with.
    prefix: String,
}

pub fn run(arguments: &LogsArguments) -> Result<(), Failure> {
    runtime::start()?.block_on(logs(arguments))
}

async fn logs(arguments: &LogsArguments) -> Result<(), Failure> {
    let connection = connection::open(&arguments.connection).await?;
    if arguments.follow {
        return follow(arguments, &connection).await;
    }
    let action = action(arguments, &connection).await?;
    let attempt = arguments.attempt.unwrap_or_else(|| current(&action));
    let pods = of_attempt(&connection.client, &action, attempt).await?;
    if pods.is_empty() {
        return Err(Failure::Failed(anyhow!("{}", no_pod(&action, attempt))));
    }
    let sources = sources(&pods, arguments.container.as_deref())?;
    // An empty log of a pod that cannot start would say nothing.
    if Summary::new(&action).phase == Phase::Waiting && !pods.iter().any(has_started) {
        output::note(&format!("{} writes nothing yet; it waits: {}", arguments.name, Summary::new(&action).why()));
    }
    show(&connection, &sources, arguments, false).await
}

/// Shows attempt after attempt, as they come.
async fn follow(arguments: &LogsArguments, connection: &Connection) -> Result<(), Failure> {
    let mut shown = BTreeSet::new();
    let mut waiting = None;
    loop {
        let action = action(arguments, connection).await?;
        let attempt = arguments.attempt.unwrap_or_else(|| current(&action));
        let ended = Summary::new(&action).phase.outcome().is_some();
        let pods = of_attempt(&connection.client, &action, attempt).await?;
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
                // Sidecars may go on for as long as they like.
                ended = end_of(arguments, connection, attempt) => ended?,
            }
            continue;
        }
        // The last look came after the end, so nothing can have been missed.
        let is_past = arguments.attempt.is_some_and(|asked| asked < current(&action));
        if ended || is_past || (arguments.attempt.is_some() && !shown.is_empty()) {
            return if shown.is_empty() {
                Err(Failure::Failed(anyhow!("{}", no_pod(&action, attempt))))
            } else {
                Ok(())
            };
        }
        let summary = Summary::new(&action);
        let why = if summary.phase == Phase::Waiting { format!(": {}", summary.why()) } else { String::new() };
        if shown.is_empty() && waiting.as_ref() != Some(&why) {
            output::note(&format!("waiting for the pod of {}{why}", arguments.name));
            waiting = Some(why);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits until the attempt is over, and a moment longer, for what is still on its way.
async fn end_of(arguments: &LogsArguments, connection: &Connection, attempt: u32) -> Result<(), Failure> {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let action = action(arguments, connection).await?;
        if Summary::new(&action).phase.outcome().is_some() || current(&action) > attempt {
            tokio::time::sleep(STRAGGLERS).await;
            return Ok(());
        }
    }
}

async fn action(arguments: &LogsArguments, connection: &Connection) -> Result<TaskAction, Failure> {
    let actions: Api<TaskAction> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let found = actions.get_opt(&arguments.name).await;
    let found = found.map_err(|error| connection::explain(&error, "cannot look for the action"))?;
    found.ok_or_else(|| {
        let (name, namespace) = (&arguments.name, &connection.namespace);
        Failure::Failed(anyhow!("there is no action {name} in namespace {namespace}; `aileron get -A` lists all"))
    })
}

fn current(action: &TaskAction) -> u32 {
    action.status.as_ref().map_or(1, TaskActionStatus::observed_attempt)
}

async fn of_attempt(client: &Client, action: &TaskAction, attempt: u32) -> Result<Vec<Pod>, Failure> {
    let pods = objects::pods(client, action).await;
    let pods = pods.map_err(|error| connection::explain(&error, "cannot list the pods of the action"))?;
    Ok(pods.into_iter().filter(|pod| objects::attempt(pod.labels()) == Some(attempt)).collect())
}

fn no_pod(action: &TaskAction, attempt: u32) -> String {
    let name = action.name_any();
    let summary = Summary::new(action);
    if attempt < current(action) {
        return format!("the pod of attempt {attempt} of {name} is gone, and its log with it");
    }
    if attempt > current(action) {
        return format!("{name} has no attempt {attempt} yet; it is at attempt {}", current(action));
    }
    let why = summary.why();
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("{name} has no pod; it is {}{why}", summary.phase.as_str())
}

/// All its containers ran or run, so that their logs can be asked for; ended pods have nothing to wait for.
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

/// The containers to show, in the order in which they start.
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
            return Err(Failure::Usage(format!("--container {only}: there are {}", names.join(", "))));
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

/// Prints the logs: one after the other, or, while they grow, line by line as they come.
async fn show(
    connection: &Connection,
    sources: &[Source],
    arguments: &LogsArguments,
    follow: bool,
) -> Result<(), Failure> {
    let pods: Api<Pod> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let one = |source: &Source| {
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
            let mut lines = stream.map_err(|error| connection::explain(&error, &what))?.lines();
            while let Some(line) = lines.try_next().await.context("the log broke off")? {
                output::print(&format!("{}{line}\n", source.prefix))?;
            }
            Ok::<_, Failure>(())
        }
    };
    if follow {
        try_join_all(sources.iter().map(one)).await?;
        return Ok(());
    }
    for source in sources {
        one(source).await?;
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
    fn lines_are_told_apart_where_they_must_be() {
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
        assert_eq!(wrong, "--container mian: there are main, side");
    }

    #[test]
    fn a_log_is_asked_for_once_containers_have_started() {
        assert!(has_started(&pod("p", &["a"], "running")));
        assert!(!has_started(&pod("p", &["a"], "waiting")));
        assert!(!has_started(&Pod::default()));
    }
}
