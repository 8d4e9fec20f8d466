//! Actions that have ended and are being deleted.
//!
//! An ended action still bears our finalizer, so its deletion waits for us. Nothing of it is kept meanwhile: only the
//! metadata of ended actions is followed, and the object is fetched when it is to go.

use std::sync::Arc;
use std::time::Duration;

use aileron_action::labels::{TERMINATED, TERMINATION_STATUS};
use aileron_action::{FINALIZER, TaskAction};
use aileron_machinery::ActionKey;
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::watcher;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{PAGE, Sink, Synced, follow};
use crate::caches::actions::ActionStore;
use crate::queue::Queue;

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "ended-taskactions";

/// Between two tries at an API server that does not answer: a deletion that waits a few seconds longer harms nobody.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// Follows ended actions, and brings those that are being deleted back into the memory for their last round.
pub async fn run(
    client: kube::Client,
    memory: Arc<ActionStore>,
    queue: Arc<Queue>,
    synced: Synced,
    cancel: CancellationToken,
) {
    let api: Api<PartialObjectMeta<TaskAction>> = Api::all(client.clone());
    let selector = format!("{TERMINATION_STATUS}={TERMINATED}");
    let config = watcher::Config::default().labels(&selector).page_size(PAGE);
    let (leaving, queue_of_leaving) = mpsc::unbounded_channel();
    let fetch = fetch(client, Arc::clone(&memory), queue, queue_of_leaving);
    let sink = Ended { memory, leaving };
    tokio::select! {
        () = follow(NAME, watcher(api, config), sink, synced, cancel) => {}
        () = fetch => {}
    }
}

struct Ended {
    memory: Arc<ActionStore>,
    leaving: mpsc::UnboundedSender<ActionKey>,
}

impl Sink<PartialObjectMeta<TaskAction>> for Ended {
    fn seen(&mut self, object: PartialObjectMeta<TaskAction>, _listed: bool) {
        let finalizers = object.metadata.finalizers.as_deref().unwrap_or_default();
        let ours = finalizers.iter().any(|name| name == FINALIZER);
        if ours && object.metadata.deletion_timestamp.is_some() {
            // The receiver lives as long as this sink; if it is gone, so are we.
            let _ = self.leaving.send(ActionKey::of(&object.metadata));
        }
    }

    fn restarted(&mut self) {}

    fn listed(&mut self) {}

    fn gone(&mut self, object: PartialObjectMeta<TaskAction>) {
        self.memory.remove(&ActionKey::of(&object.metadata));
    }
}

async fn fetch(
    client: kube::Client,
    memory: Arc<ActionStore>,
    queue: Arc<Queue>,
    mut leaving: mpsc::UnboundedReceiver<ActionKey>,
) {
    while let Some(key) = leaving.recv().await {
        if let Err(error) = bring_back(&client, &memory, &queue, &key).await {
            tracing::warn!(namespace = %key.namespace, name = %key.name, %error, "failed to fetch an ended action");
            let (client, memory, queue) = (client.clone(), Arc::clone(&memory), Arc::clone(&queue));
            // The watch does not tell again, so this is where it must be tried again; others do not wait for it.
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(TRY_AGAIN).await;
                    match bring_back(&client, &memory, &queue, &key).await {
                        Ok(()) => return,
                        Err(error) => tracing::debug!(%error, "the API server still does not answer"),
                    }
                }
            });
        }
    }
}

/// Fetches an action for its last round; one that is gone needs none.
async fn bring_back(
    client: &kube::Client,
    memory: &ActionStore,
    queue: &Queue,
    key: &ActionKey,
) -> Result<(), kube::Error> {
    let api: Api<TaskAction> = Api::namespaced(client.clone(), &key.namespace);
    if let Some(object) = api.get_opt(&key.name).await?
        && memory.observe(object)
    {
        queue.wake(key);
    }
    Ok(())
}
