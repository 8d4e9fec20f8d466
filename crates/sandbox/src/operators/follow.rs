//! The work of one operator: a watch, timers and writes.

use std::time::Duration;

use futures::{StreamExt, pin_mut};
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::board::Board;
use super::rules::Rules;
use crate::object::meta;
use crate::store::Key;

/// After somebody else wrote first. The watch brings their write in a moment.
const AFTER_CONFLICT: Duration = Duration::from_millis(50);
/// After the API server failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// What came of a write.
enum Answer {
    Written(Value),
    Refused(Key, kube::Error),
}

/// Advances all objects of a kind, for ever. While the API server does not serve the kind, it asks from time to time.
pub(super) async fn follow(client: Client, rules: Rules) {
    let resource = resource(&rules);
    let events = watcher(Api::<DynamicObject>::all_with(client.clone(), &resource), watcher::Config::default());
    let events = events.default_backoff();
    pin_mut!(events);
    let mut board = Board::default();
    let mut writes: JoinSet<Answer> = JoinSet::new();
    loop {
        let due = board.next_due();
        let wait = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => take(&mut board, &rules, event),
                Some(Err(error)) => tracing::debug!(kind = rules.kind, %error, "a simulated operator cannot watch"),
                None => return,
            },
            Some(Ok(answer)) = writes.join_next() => match answer {
                Answer::Written(object) => board.written(&rules, object, Instant::now()),
                Answer::Refused(key, error) => {
                    let is_conflict = matches!(&error, kube::Error::Api(status) if status.code == 409);
                    if !is_conflict {
                        tracing::warn!(kind = rules.kind, ?key, %error, "a simulated operator cannot write a status");
                    }
                    board.refused(&key, if is_conflict { AFTER_CONFLICT } else { AFTER_FAILURE }, Instant::now());
                }
            },
            () = wait => {
                for (object, stage) in board.take_due(Instant::now()) {
                    if let Some(patch) = patch(&rules, &object, &stage) {
                        writes.spawn(write(client.clone(), resource.clone(), Key::of(&object), patch));
                    }
                }
            }
        }
    }
}

fn take(board: &mut Board, rules: &Rules, event: Event<DynamicObject>) {
    match event {
        Event::Init => board.begin_list(),
        Event::InitDone => board.end_list(),
        Event::Apply(object) | Event::InitApply(object) => board.see(rules, plain(&object), Instant::now()),
        Event::Delete(object) => board.forget(&Key::of(&plain(&object))),
    }
}

/// The write that a stage makes. It is bound to the version it was decided upon: should the object have been replaced
/// by another of its name, or its status be written by somebody else, it is refused.
fn patch(rules: &Rules, object: &Value, stage: &str) -> Option<Value> {
    let stage = rules.stages.iter().find(|one| one.name == stage)?;
    // Placeholders were checked when the rules were read.
    let status = rules.status_after(stage, object, Timestamp::now()).ok()?;
    Some(json!({"metadata": {"resourceVersion": meta(object, "resourceVersion")}, "status": status}))
}

async fn write(client: Client, resource: ApiResource, key: Key, patch: Value) -> Answer {
    let api: Api<DynamicObject> = Api::namespaced_with(client, &key.namespace, &resource);
    match api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(object) => Answer::Written(plain(&object)),
        Err(error) => Answer::Refused(key, error),
    }
}

fn resource(rules: &Rules) -> ApiResource {
    ApiResource {
        group: rules.group.clone(),
        version: rules.version.clone(),
        api_version: format!("{}/{}", rules.group, rules.version),
        kind: rules.kind.clone(),
        plural: rules.plural.clone(),
    }
}

/// An object that was read from JSON can be written as such.
fn plain(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
