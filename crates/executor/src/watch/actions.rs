//! The watch over actions that have not ended.

use std::collections::HashSet;
use std::sync::Arc;

use aileron_action::TaskAction;
use aileron_action::labels::{TERMINATED, TERMINATION_STATUS};
use aileron_machinery::ActionKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, ObjectMeta};
use kube::runtime::watcher;

use super::{PAGE, Relists, Sink, WatchContext};
use crate::caches::actions::ActionStore;
use crate::cluster::listed::Malformed;
use crate::queue::Queue;

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "taskactions";

/// Selects the actions that do not have the label of an ended action.
pub(super) fn selector() -> String {
    format!("{TERMINATION_STATUS}!={TERMINATED}")
}

/// Follows all actions that have not ended.
pub async fn run(cx: WatchContext) {
    let config = watcher::Config::default().labels(&selector()).page_size(PAGE);
    loop {
        let api = Api::all(cx.client.clone());
        let number = cx.relists.last();
        let sink =
            Actions { relist: Some((cx.relists.clone(), number)), ..Actions::new(&cx.caches.actions, &cx.queue) };
        tokio::select! {
            () = cx.follow(NAME, api, config.clone(), sink) => return,
            () = cx.relists.requested_after(number) => {}
        }
    }
}

struct Actions {
    actions: Arc<ActionStore>,
    queue: Arc<Queue>,
    listed: HashSet<ActionKey>,
    /// Actions of the current list that need a round, with their creation time. They are woken when the list is complete.
    changed: Vec<(Option<Time>, ActionKey)>,
    /// The request for a new list that this watch answers.
    relist: Option<(Relists, u64)>,
}

impl Actions {
    fn new(actions: &Arc<ActionStore>, queue: &Arc<Queue>) -> Self {
        let (actions, queue) = (Arc::clone(actions), Arc::clone(queue));
        Self { actions, queue, listed: HashSet::new(), changed: Vec::new(), relist: None }
    }

    /// Wakes an action with a change, at the end of the list if it was listed.
    fn stored(&mut self, key: ActionKey, created: Option<Time>, is_changed: bool, listed: bool) {
        if listed {
            self.listed.insert(key.clone());
            if is_changed {
                self.changed.push((created, key));
            }
        } else if is_changed {
            self.queue.wake(&key);
        }
    }
}

impl Sink<TaskAction> for Actions {
    fn seen(&mut self, object: TaskAction, listed: bool) {
        let key = ActionKey::of(&object.metadata);
        let created = object.metadata.creation_timestamp.clone();
        let is_changed = self.actions.observe(object);
        self.stored(key, created, is_changed, listed);
    }

    /// The round of a malformed action tells its user what is wrong. An action without a name cannot be told.
    fn malformed(&mut self, object: Malformed, listed: bool) {
        let key = ActionKey::of(&object.metadata);
        if key.name.is_empty() {
            return;
        }
        let created = object.metadata.creation_timestamp.clone();
        let is_changed = self.actions.observe_malformed(object.salvage());
        self.stored(key, created, is_changed, listed);
    }

    fn restarted(&mut self) {
        self.listed.clear();
    }

    /// Lists come in the order of names. After a restart the oldest actions are woken first, as without the restart.
    fn listed(&mut self) {
        self.actions.retain(&std::mem::take(&mut self.listed));
        self.changed.sort_by(|one, other| one.0.cmp(&other.0));
        for (_, key) in self.changed.drain(..) {
            self.queue.wake(&key);
        }
        if let Some((relists, number)) = &self.relist {
            relists.complete(*number);
        }
    }

    fn gone(&mut self, metadata: &ObjectMeta, _object: Option<TaskAction>) {
        self.actions.left(&ActionKey::of(metadata));
    }
}

#[cfg(test)]
mod tests {
    use axum::extract::RawQuery;
    use axum::routing::get;
    use axum::{Json, Router};
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    fn action(name: &str, second: i64) -> TaskAction {
        let mut action = TaskAction::new(name, Default::default());
        action.metadata.namespace = Some("ns".to_owned());
        action.metadata.uid = Some(name.to_owned());
        action.metadata.resource_version = Some("1".to_owned());
        action.metadata.creation_timestamp = Timestamp::from_second(second).ok().map(Time);
        action
    }

    /// An API server with these actions, whose watch shows nothing.
    fn api_server(items: Vec<Value>) -> kube::Client {
        let answer = async move |RawQuery(query): RawQuery| {
            if query.is_some_and(|query| query.contains("watch=true")) {
                std::future::pending::<()>().await;
            }
            Json(json!({"apiVersion": "flyte.org/v1", "kind": "TaskActionList", "metadata": {"resourceVersion": "9"},
                "items": items}))
        };
        kube::Client::new(Router::new().route("/apis/flyte.org/v1/taskactions", get(answer)), "default")
    }

    #[tokio::test]
    async fn a_malformed_action_of_a_list_hides_no_other() {
        let item = |name: &str, spec: Value, status: Value| {
            json!({"apiVersion": "flyte.org/v1", "kind": "TaskAction", "spec": spec, "status": status,
                "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}})
        };
        let client = api_server(vec![
            item("bits", json!({"taskTemplate": "QR=="}), json!({})),
            item("bytes", json!({"taskTemplate": "!", "runName": "r"}), json!({})),
            item("status", json!({}), json!({"attempts": -1})),
            json!({"metadata": 7, "spec": 7}),
            item("good", json!({"runName": "r"}), json!({})),
        ]);
        let cx = WatchContext { client, ..WatchContext::for_tests() };
        cx.synced.expect(NAME);
        let watch = tokio::spawn(run(cx.clone()));
        tokio::time::timeout(std::time::Duration::from_secs(120), cx.synced.all()).await.expect("the list is complete");
        let malformed = |name: &str| {
            let action = cx.caches.actions.get(&ActionKey::new("ns", name)).expect(name);
            action.malformed.as_deref().map(str::to_owned)
        };
        assert_eq!((malformed("good"), malformed("bits")), (None, None));
        assert!(malformed("bytes").expect("an error").contains("spec.taskTemplate ("));
        assert!(malformed("status").expect("an error").contains("status.attempts ("));
        assert_eq!(cx.queue.depth(), 4, "each of them needs a round");
        cx.cancel.cancel();
        watch.await.expect("the watch ends");
    }

    #[tokio::test]
    async fn after_a_restart_the_oldest_comes_first() {
        let queue = Arc::new(Queue::default());
        queue.open();
        let mut sink = Actions::new(&Arc::default(), &queue);
        sink.restarted();
        for (name, second) in [("a", 30), ("b", 10), ("c", 20)] {
            sink.seen(action(name, second), true);
        }
        sink.listed();
        sink.seen(action("d", 5), false);
        let mut order = Vec::new();
        for _ in 0..4 {
            order.push(queue.next().await.name.to_string());
        }
        assert_eq!(order, ["b", "c", "a", "d"]);
    }
}
