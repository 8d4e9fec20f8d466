//! One operator: watches the objects of its kind and writes their status when a stage is due.

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

use super::object::{Key, meta};
use super::rules::Rules;
use super::tracker::Tracker;

/// Delay after a conflict with another writer. The watch delivers the other write within this time.
const CONFLICT_DELAY: Duration = Duration::from_millis(50);
/// Delay after the API server failed or refused a write.
const FAILURE_DELAY: Duration = Duration::from_secs(1);

/// The result of a write.
enum Answer {
    Written(Value),
    Failed(Key, kube::Error),
}

/// Works until the future is dropped. If the API server does not serve the kind yet, the watch is retried.
pub(super) async fn run(client: Client, rules: Rules) {
    let resource = resource(&rules);
    let events = watcher(Api::<DynamicObject>::all_with(client.clone(), &resource), watcher::Config::default());
    let events = events.default_backoff();
    pin_mut!(events);
    let mut tracker = Tracker::default();
    let mut writes: JoinSet<Answer> = JoinSet::new();
    loop {
        let due = tracker.next_due();
        let wait = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => handle_event(&mut tracker, &rules, event),
                Some(Err(error)) => tracing::debug!(kind = rules.kind, %error, "the watch of a simulated operator failed; it is retried"),
                None => return,
            },
            Some(Ok(answer)) = writes.join_next() => match answer {
                Answer::Written(object) => tracker.written(&rules, object, Instant::now()),
                Answer::Failed(key, error) => {
                    let is_conflict = matches!(&error, kube::Error::Api(status) if status.code == 409);
                    if !is_conflict {
                        tracing::warn!(kind = rules.kind, ?key, %error, "a simulated operator failed to write a status; it tries again");
                    }
                    tracker.failed(&key, if is_conflict { CONFLICT_DELAY } else { FAILURE_DELAY }, Instant::now());
                }
            },
            () = wait => {
                for (object, stage) in tracker.take_due(Instant::now()) {
                    if let Some(patch) = patch(&rules, &object, &stage) {
                        writes.spawn(write(client.clone(), resource.clone(), Key::of(&object), patch));
                    }
                }
            }
        }
    }
}

fn handle_event(tracker: &mut Tracker, rules: &Rules, event: Event<DynamicObject>) {
    match event {
        Event::Init => tracker.begin_list(),
        Event::InitDone => tracker.end_list(),
        Event::Apply(object) | Event::InitApply(object) => tracker.update(rules, to_json(&object), Instant::now()),
        Event::Delete(object) => tracker.remove(&Key::of(&to_json(&object))),
    }
}

/// The patch that a stage makes. It contains the resourceVersion of the object, so the API server refuses it if the
/// object was replaced or another writer has changed it.
fn patch(rules: &Rules, object: &Value, stage: &str) -> Option<Value> {
    let stage = rules.stages.iter().find(|one| one.name == stage)?;
    // Cannot fail: the placeholders were checked when the rule file was read.
    let status = rules.status_after(stage, object, Timestamp::now()).ok()?;
    Some(json!({"metadata": {"resourceVersion": meta(object, "resourceVersion")}, "status": status}))
}

async fn write(client: Client, resource: ApiResource, key: Key, patch: Value) -> Answer {
    let api: Api<DynamicObject> = Api::namespaced_with(client, &key.namespace, &resource);
    match api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(object) => Answer::Written(to_json(&object)),
        Err(error) => Answer::Failed(key, error),
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

/// The object as a JSON value. Cannot fail, because the object was read from JSON.
fn to_json(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
