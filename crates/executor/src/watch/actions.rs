//! The watch over actions that have not ended.

use std::collections::HashSet;
use std::sync::Arc;

use aileron_action::TaskAction;
use aileron_action::labels::{TERMINATED, TERMINATION_STATUS};
use aileron_machinery::ActionKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::Api;
use kube::runtime::watcher;

use super::{PAGE, Sink, WatchContext};
use crate::caches::actions::ActionStore;
use crate::queue::Queue;

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "taskactions";

/// Follows all actions that do not have the label of an ended action.
pub async fn run(cx: WatchContext) {
    let api: Api<TaskAction> = Api::all(cx.client.clone());
    let selector = format!("{TERMINATION_STATUS}!={TERMINATED}");
    let config = watcher::Config::default().labels(&selector).page_size(PAGE);
    let sink = Actions::new(&cx.caches.actions, &cx.queue);
    cx.follow(NAME, watcher(api, config), sink).await;
}

struct Actions {
    actions: Arc<ActionStore>,
    queue: Arc<Queue>,
    listed: HashSet<ActionKey>,
    /// Actions of the current list that need a round, with their creation time. They are woken when the list is complete.
    changed: Vec<(Option<Time>, ActionKey)>,
}

impl Actions {
    fn new(actions: &Arc<ActionStore>, queue: &Arc<Queue>) -> Self {
        let (actions, queue) = (Arc::clone(actions), Arc::clone(queue));
        Self { actions, queue, listed: HashSet::new(), changed: Vec::new() }
    }
}

impl Sink<TaskAction> for Actions {
    fn seen(&mut self, object: TaskAction, listed: bool) {
        let key = ActionKey::of(&object.metadata);
        let created = object.metadata.creation_timestamp.clone();
        let is_changed = self.actions.observe(object);
        if listed {
            self.listed.insert(key.clone());
            if is_changed {
                self.changed.push((created, key));
            }
        } else if is_changed {
            self.queue.wake(&key);
        }
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
    }

    fn gone(&mut self, object: TaskAction) {
        self.actions.left(&ActionKey::of(&object.metadata));
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn action(name: &str, second: i64) -> TaskAction {
        let mut action = TaskAction::new(name, Default::default());
        action.metadata.namespace = Some("ns".to_owned());
        action.metadata.uid = Some(name.to_owned());
        action.metadata.resource_version = Some("1".to_owned());
        action.metadata.creation_timestamp = Timestamp::from_second(second).ok().map(Time);
        action
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
