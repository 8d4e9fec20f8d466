//! Objects with odd contents affect nobody else: the tasks next to them finish, and each malformed action says what is
//! wrong.

mod actions;
mod neighbours;

use std::time::Instant;

use aileron_action::TaskAction;
use aileron_executor::cluster::listed::Listed;
use aileron_parity::suite::{Executor, Logs, POLL_INTERVAL, Server, Space, StatusView, Task, WAIT_TIMEOUT};
use anyhow::{Result, bail, ensure};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use self::actions::{Expected, OddAction, odd_actions};

aileron_parity::on_both!(tasks_next_to_malformed_objects_finish);

/// The most kinds of odd objects that the API server may refuse. The others must be there, or the suite tests nothing.
const MOST_REFUSED: usize = 25;
/// The longest log record about an odd object. Records must not contain objects.
const LONGEST_RECORD: usize = 8 * 1024;
/// The most bytes of records about one namespace of odd objects, debug records included.
const MOST_LOGGED: usize = 2 * 1024 * 1024;

async fn tasks_next_to_malformed_objects_finish(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let listed = bench.space(&format!("odd-listed-{on:?}").to_lowercase()).await?;
    let watched = bench.space(&format!("odd-watched-{on:?}").to_lowercase()).await?;
    neighbours::install_definitions(&listed.admin).await?;

    // The executor finds these objects in its first lists.
    let refused = neighbours::create(&listed).await? + create_actions(&listed).await?;
    ensure!(refused <= MOST_REFUSED, "{refused} odd objects were refused");
    let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
    good_tasks_succeed(&listed, "after-start").await?;

    // These come through its watches.
    neighbours::create(&watched).await?;
    create_actions(&watched).await?;
    good_tasks_succeed(&watched, "next-to-odd").await?;
    for space in [&listed, &watched] {
        every_action_says_what_is_wrong(space).await?;
        log_is_bounded(space)?;
    }
    good_tasks_succeed(&listed, "at-the-end").await?;
    executor.stop().await
}

async fn good_tasks_succeed(space: &Space<'_>, prefix: &str) -> Result<()> {
    let names: Vec<_> = (0..3).map(|number| format!("{prefix}-{number}")).collect();
    for name in &names {
        space.submit(&Task::container(name)).await?;
    }
    for name in &names {
        let action = space.until_ended(name).await?;
        ensure!(action.outcome().is_some_and(|it| it.0 == "Succeeded"), "{name}: {}", action.summary());
    }
    Ok(())
}

/// Creates all odd actions. Returns how many the API server refused.
async fn create_actions(space: &Space<'_>) -> Result<usize> {
    let api = raw_actions(space);
    let mut refused = 0;
    for OddAction { name, object, status, .. } in odd_actions(space) {
        let created: Result<DynamicObject, _> = match serde_json::from_value(object) {
            Ok(object) => api.create(&PostParams::default(), &object).await,
            Err(error) => bail!("{name}: {error}"),
        };
        let created = match (created, status) {
            (Ok(_), Some(status)) => {
                let patch = Patch::Merge(json!({"status": status}));
                api.patch_status(&name, &PatchParams::default(), &patch).await.map(drop)
            }
            (created, _) => created.map(drop),
        };
        refused += usize::from(is_refused(&name, created)?);
    }
    Ok(refused)
}

/// Each odd action has ended as expected, or has a condition with a message.
async fn every_action_says_what_is_wrong(space: &Space<'_>) -> Result<()> {
    // Some objects are nested more deeply than an untyped object may be.
    let api: Api<Listed<TaskAction>> = Api::namespaced(space.admin.clone(), &space.namespace);
    for OddAction { name, expected, .. } in odd_actions(space) {
        let begin = Instant::now();
        loop {
            // An action that was refused is not there.
            let Some(found) = api.get_opt(&name).await? else { break };
            let conditions = serde_json::to_value(found.into_action().status.unwrap_or_default().conditions)?;
            if expected.is_met(&conditions) {
                break;
            }
            ensure!(
                begin.elapsed() < WAIT_TIMEOUT,
                "{name}: expected {expected:?}, found {conditions}\n{}",
                space.dump(&name).await
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    Ok(())
}

fn log_is_bounded(space: &Space<'_>) -> Result<()> {
    let lengths = Logs::keep().lengths_about(&space.namespace);
    let (total, longest) = (lengths.iter().sum::<usize>(), lengths.iter().max().copied().unwrap_or_default());
    ensure!(longest <= LONGEST_RECORD, "a log record of {longest} bytes about {}", space.namespace);
    ensure!(total <= MOST_LOGGED, "{total} bytes of log records about {}", space.namespace);
    Ok(())
}

/// The actions as untyped objects: the types refuse what the API server accepts.
fn raw_actions(space: &Space<'_>) -> Api<DynamicObject> {
    Api::namespaced_with(space.admin.clone(), &space.namespace, &ApiResource::erase::<TaskAction>(&()))
}

/// Whether the API server refused an object for what it is. Any other error fails the suite.
fn is_refused(what: &str, result: Result<(), kube::Error>) -> Result<bool> {
    match result {
        Ok(()) => Ok(false),
        // The object was created, and the answer is nested more deeply than the client of the suite follows.
        Err(kube::Error::SerdeError(_)) => Ok(false),
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 413 | 422 | 500) => Ok(true),
        Err(error) => bail!("creating {what}: {error}"),
    }
}

impl Expected {
    fn is_met(self, conditions: &Value) -> bool {
        let conditions = conditions.as_array().map(Vec::as_slice).unwrap_or_default();
        let message = |condition: &Value| condition["message"].as_str().unwrap_or_default().to_owned();
        match self {
            Self::Told => conditions.iter().any(|condition| !message(condition).is_empty()),
            Self::Fails(part) => conditions.iter().any(|condition| {
                condition["type"] == "Failed" && condition["status"] == "True" && message(condition).contains(part)
            }),
        }
    }
}
