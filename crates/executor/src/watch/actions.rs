//! Actions that have not ended.

use std::collections::HashSet;
use std::sync::Arc;

use kube::api::Api;
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;

use super::{PAGE, Sink, Synced, follow};
use crate::action::TaskAction;
use crate::action::labels::{TERMINATED, TERMINATION_STATUS};
use crate::controller::memory::{ActionKey, Memory};
use crate::controller::queue::Queue;

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "taskactions";

/// Follows all actions without the label of an ended one.
pub async fn run(
    client: kube::Client,
    memory: Arc<Memory>,
    queue: Arc<Queue>,
    synced: Synced,
    cancel: CancellationToken,
) {
    let api: Api<TaskAction> = Api::all(client);
    let selector = format!("{TERMINATION_STATUS}!={TERMINATED}");
    let config = watcher::Config::default().labels(&selector).page_size(PAGE);
    let sink = Actions { memory, queue, listed: HashSet::new() };
    follow(NAME, watcher(api, config), sink, synced, cancel).await;
}

struct Actions {
    memory: Arc<Memory>,
    queue: Arc<Queue>,
    listed: HashSet<ActionKey>,
}

impl Sink<TaskAction> for Actions {
    fn seen(&mut self, object: TaskAction, listed: bool) {
        let key = ActionKey::of(&object.metadata);
        if listed {
            self.listed.insert(key.clone());
        }
        if self.memory.observe(object) {
            self.queue.wake(&key);
        }
    }

    fn restarted(&mut self) {
        self.listed.clear();
    }

    fn listed(&mut self) {
        self.memory.retain(&std::mem::take(&mut self.listed));
    }

    fn gone(&mut self, object: TaskAction) {
        self.memory.left(&ActionKey::of(&object.metadata));
    }
}
