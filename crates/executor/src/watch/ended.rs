//! The watch over ended actions.
//!
//! An ended action still has our finalizer, so the API server deletes it only after we removed the finalizer. The watch
//! reads only metadata, and the store keeps nothing of ended actions. The whole object is fetched when it is deleted.

use std::sync::Arc;
use std::time::Duration;

use aileron_action::labels::{TERMINATED, TERMINATION_STATUS};
use aileron_action::{ACTION_FINALIZER, TaskAction};
use aileron_machinery::ActionKey;
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::watcher;
use tokio::sync::mpsc;

use super::{PAGE, Sink, WatchContext};
use crate::caches::actions::ActionStore;

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "ended-taskactions";

/// Time between two attempts to fetch an action from an API server that does not answer. A deletion may take a few seconds
/// longer during an outage.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Follows ended actions. An ended action that is being deleted is put back into the store for its last round.
pub async fn run(cx: WatchContext) {
    let api: Api<PartialObjectMeta<TaskAction>> = Api::all(cx.client.clone());
    let selector = format!("{TERMINATION_STATUS}={TERMINATED}");
    let config = watcher::Config::default().labels(&selector).page_size(PAGE);
    let (deleted, to_fetch) = mpsc::unbounded_channel();
    let sink = Ended { actions: Arc::clone(&cx.caches.actions), deleted };
    tokio::select! {
        () = cx.follow(NAME, watcher(api, config), sink) => {}
        () = fetch_all(&cx, to_fetch) => {}
    }
}

struct Ended {
    actions: Arc<ActionStore>,
    /// Ended actions that are being deleted and still have our finalizer.
    deleted: mpsc::UnboundedSender<ActionKey>,
}

impl Sink<PartialObjectMeta<TaskAction>> for Ended {
    fn seen(&mut self, object: PartialObjectMeta<TaskAction>, _listed: bool) {
        let finalizers = object.metadata.finalizers.as_deref().unwrap_or_default();
        let ours = finalizers.iter().any(|name| name == ACTION_FINALIZER);
        if ours && object.metadata.deletion_timestamp.is_some() {
            // The receiver lives as long as this watch, so sending cannot fail while it matters.
            let _ = self.deleted.send(ActionKey::of(&object.metadata));
        }
    }

    fn restarted(&mut self) {}

    fn listed(&mut self) {}

    fn gone(&mut self, object: PartialObjectMeta<TaskAction>) {
        self.actions.remove(&ActionKey::of(&object.metadata));
    }
}

async fn fetch_all(cx: &WatchContext, mut deleted: mpsc::UnboundedReceiver<ActionKey>) {
    while let Some(key) = deleted.recv().await {
        if let Err(error) = fetch(cx, &key).await {
            tracing::warn!(namespace = %key.namespace, name = %key.name, %error, "failed to fetch an ended action");
            let cx = cx.clone();
            // The watch does not show the action again, so the fetch is repeated here, without delaying other actions.
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(RETRY_INTERVAL).await;
                    match fetch(&cx, &key).await {
                        Ok(()) => return,
                        Err(error) => tracing::debug!(%error, "the API server still does not answer"),
                    }
                }
            });
        }
    }
}

/// Fetches an action for its last round. An action that is gone needs none.
async fn fetch(cx: &WatchContext, key: &ActionKey) -> Result<(), kube::Error> {
    let api: Api<TaskAction> = Api::namespaced(cx.client.clone(), &key.namespace);
    if let Some(object) = api.get_opt(&key.name).await?
        && cx.caches.actions.observe(object)
    {
        cx.queue.wake(key);
    }
    Ok(())
}
