//! `aileron abort`: aborts actions by deleting them.

use std::time::{Duration, Instant};

use aileron_action::TaskAction;
use anyhow::anyhow;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};

use crate::action::{DisplayPhase, Summary, objects};
use crate::arguments::AbortArguments;
use crate::connection::{self, Connection};
use crate::display::{duration, output};
use crate::failure::{EXIT_FAILED, Failure};
use crate::process::threads::start_runtime;
use crate::program::Program;

/// `--wait` fails after this time. An abort takes as long as the grace period of the pods, which is seldom more than the
/// default of 30 s.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
/// How often `--wait` asks whether the action still exists.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub fn run(program: &Program, arguments: &AbortArguments) -> Result<(), Failure> {
    start_runtime()?.block_on(abort(program, arguments))
}

async fn abort(program: &Program, arguments: &AbortArguments) -> Result<(), Failure> {
    let connection = connection::open(program, &arguments.connection).await?;
    let actions: Api<TaskAction> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let mut found = Vec::new();
    let mut all_found = true;
    if arguments.all {
        let listed = actions.list(&ListParams::default()).await;
        let listed = listed.map_err(|error| connection.request_failed(&error, "cannot list actions"))?;
        found.extend(listed.items.into_iter().filter(|action| Summary::new(action).phase.outcome().is_none()));
        if found.is_empty() {
            output::note(&format!("namespace {} has no action that has not ended", connection.namespace));
        }
    } else {
        for name in &arguments.names {
            let action = actions.get_opt(name).await;
            match action.map_err(|error| connection.request_failed(&error, "cannot read the action"))? {
                Some(action) => found.push(action),
                None => {
                    all_found = false;
                    output::warn(&format!("namespace {} has no action {name}", connection.namespace));
                }
            }
        }
    }
    let begin = Instant::now();
    let mut waiting = Vec::new();
    for action in found {
        let summary = Summary::new(&action);
        let name = &summary.name;
        if let Some(outcome) = summary.phase.outcome() {
            output::print(&format!("{name} had already ended: {}\n", outcome.as_str()))?;
            continue;
        }
        let deleted = actions.delete(name, &DeleteParams::default()).await;
        deleted.map_err(|error| connection.request_failed(&error, &format!("cannot abort {name}")))?;
        let was = match summary.phase {
            DisplayPhase::Aborting => "was being aborted".to_owned(),
            phase => format!("was {}, attempt {}", phase.as_str(), summary.attempts()),
        };
        if !arguments.wait {
            output::print(&format!("{name} is being aborted; it {was}\n"))?;
        }
        waiting.push((action, was));
    }
    if arguments.wait {
        for (action, was) in waiting {
            wait_until_deleted(&connection, &actions, &action, begin).await?;
            let took = duration::precise(begin.elapsed());
            output::print(&format!("{} was aborted after {took}; it {was}\n", action.name_any()))?;
        }
    }
    if all_found { Ok(()) } else { Err(Failure::AlreadyReported(EXIT_FAILED)) }
}

/// Waits until the action and its pods are deleted.
async fn wait_until_deleted(
    connection: &Connection,
    actions: &Api<TaskAction>,
    action: &TaskAction,
    begin: Instant,
) -> Result<(), Failure> {
    let name = action.name_any();
    loop {
        let failed = |error| connection.request_failed(&error, &format!("cannot read {name}"));
        let found = actions.get_opt(&name).await.map_err(failed)?;
        // An action with another UID was created later under the same name.
        let exists = found.is_some_and(|found| found.uid() == action.uid());
        if !exists && objects::pods(&connection.client, action).await.map_err(failed)?.is_empty() {
            return Ok(());
        }
        if begin.elapsed() > WAIT_TIMEOUT {
            let cause = if exists { "is an executor running in the cluster?" } else { "its pods have not stopped yet" };
            return Err(Failure::Failed(anyhow!(
                "{name} was not deleted after {}: {cause}",
                duration::precise(begin.elapsed())
            )));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
