//! `aileron abort`.

use std::time::{Duration, Instant};

use aileron_action::TaskAction;
use anyhow::anyhow;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};

use crate::arguments::AbortArguments;
use crate::failure::{FAILED, Failure};
use crate::summary::{Phase, Summary};
use crate::{connection, objects, output, runtime, span};

/// Stopping takes as long as the grace period of pods, which is seldom above the usual 30 s.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub fn run(arguments: &AbortArguments) -> Result<(), Failure> {
    runtime::start()?.block_on(abort(arguments))
}

async fn abort(arguments: &AbortArguments) -> Result<(), Failure> {
    let connection = connection::open(&arguments.connection).await?;
    let actions: Api<TaskAction> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let mut found = Vec::new();
    let mut complete = true;
    if arguments.all {
        let listed = actions.list(&ListParams::default()).await;
        let listed = listed.map_err(|error| connection::explain(&error, "cannot list actions"))?;
        found.extend(listed.items.into_iter().filter(|action| Summary::new(action).phase.outcome().is_none()));
        if found.is_empty() {
            output::note(&format!("no action in namespace {} is under way", connection.namespace));
        }
    } else {
        for name in &arguments.names {
            let action = actions.get_opt(name).await;
            match action.map_err(|error| connection::explain(&error, "cannot look for the action"))? {
                Some(action) => found.push(action),
                None => {
                    complete = false;
                    output::warn(&format!("there is no action {name} in namespace {}", connection.namespace));
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
            output::print(&format!("{name} had ended already: {}\n", outcome.as_str()))?;
            continue;
        }
        let deleted = actions.delete(name, &DeleteParams::default()).await;
        deleted.map_err(|error| connection::explain(&error, &format!("cannot abort {name}")))?;
        let was = match summary.phase {
            Phase::Aborting => "was being aborted".to_owned(),
            phase => format!("was {}, attempt {}", phase.as_str(), summary.attempts()),
        };
        if !arguments.wait {
            output::print(&format!("{name} is being aborted; it {was}\n"))?;
        }
        waiting.push((action, was));
    }
    if arguments.wait {
        for (action, was) in waiting {
            gone(&connection.client, &actions, &action, begin).await?;
            let took = span::took(begin.elapsed());
            output::print(&format!("{} was aborted after {took}; it {was}\n", action.name_any()))?;
        }
    }
    if complete { Ok(()) } else { Err(Failure::Told(FAILED)) }
}

/// Waits until the action and what was made for it are gone.
async fn gone(
    client: &kube::Client,
    actions: &Api<TaskAction>,
    action: &TaskAction,
    begin: Instant,
) -> Result<(), Failure> {
    let name = action.name_any();
    loop {
        let refused = |error| connection::explain(&error, &format!("cannot look for {name}"));
        let there = actions.get_opt(&name).await.map_err(refused)?;
        // One of the same name that came later is another.
        let there = there.is_some_and(|there| there.uid() == action.uid());
        if !there && objects::pods(client, action).await.map_err(refused)?.is_empty() {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            let what = if there { "is an executor running there?" } else { "its pods take long to end" };
            return Err(Failure::Failed(anyhow!("{name} was not gone after {}: {what}", span::took(begin.elapsed()))));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
