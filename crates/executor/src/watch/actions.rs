//! Actions that have not ended.

use std::collections::HashSet;
use std::sync::Arc;

use aileron_action::TaskAction;
use aileron_action::labels::{TERMINATED, TERMINATION_STATUS};
use aileron_machinery::ActionKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::Api;
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;

use super::{PAGE, Sink, Synced, follow};
use crate::caches::actions::ActionStore;
use crate::queue::Queue;

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "taskactions";

/// Follows all actions without the label of an ended one.
pub async fn run(
    client: kube::Client,
    memory: Arc<ActionStore>,
    queue: Arc<Queue>,
    synced: Synced,
    cancel: CancellationToken,
) {
    let api: Api<TaskAction> = Api::all(client);
    let selector = format!("{TERMINATION_STATUS}!={TERMINATED}");
    let config = watcher::Config::default().labels(&selector).page_size(PAGE);
    let sink = Actions { memory, queue, listed: HashSet::new(), news: Vec::new() };
    follow(NAME, watcher(api, config), sink, synced, cancel).await;
}

struct Actions {
    memory: Arc<ActionStore>,
    queue: Arc<Queue>,
    listed: HashSet<ActionKey>,
    /// Those of a list that is not complete yet, which want a round, and when they were created.
    news: Vec<(Option<Time>, ActionKey)>,
}

impl Sink<TaskAction> for Actions {
    fn seen(&mut self, object: TaskAction, listed: bool) {
        let key = ActionKey::of(&object.metadata);
        let created = object.metadata.creation_timestamp.clone();
        let is_news = self.memory.observe(object);
        if listed {
            self.listed.insert(key.clone());
            if is_news {
                self.news.push((created, key));
            }
        } else if is_news {
            self.queue.wake(&key);
        }
    }

    fn restarted(&mut self) {
        self.listed.clear();
    }

    /// Lists are in the order of names. After a restart the oldest go first, as they would have without it.
    fn listed(&mut self) {
        self.memory.retain(&std::mem::take(&mut self.listed));
        self.news.sort_by(|one, other| one.0.cmp(&other.0));
        for (_, key) in self.news.drain(..) {
            self.queue.wake(&key);
        }
    }

    fn gone(&mut self, object: TaskAction) {
        self.memory.left(&ActionKey::of(&object.metadata));
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
        let (memory, queue) = (Arc::new(ActionStore::default()), Arc::new(Queue::default()));
        let listed = HashSet::new();
        let mut sink = Actions { memory: Arc::clone(&memory), queue: Arc::clone(&queue), listed, news: Vec::new() };
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
