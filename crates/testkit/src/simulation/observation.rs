//! Records every change of the objects that rules are about.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::api::{Api, ApiResource, DynamicObject, WatchEvent, WatchParams};
use kube::core::GroupVersionKind;
use tokio::time::sleep;

use super::history::{Change, Renumbering, What};
use super::network::Shared;

/// The name of a kind in the history, and the kind.
pub type ObservedKind = (&'static str, ApiResource);

/// The kinds that every run has: actions and leases.
#[must_use]
pub fn kinds_of_executor() -> Vec<ObservedKind> {
    vec![
        ("taskactions", ApiResource::from_gvk(&GroupVersionKind::gvk("flyte.org", "v1", "TaskAction"))),
        ("leases", ApiResource::from_gvk(&GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease"))),
    ]
}

/// Records the changes of these kinds from now on.
pub fn observe(shared: &Arc<Shared>, kinds: impl IntoIterator<Item = ObservedKind>) {
    for (resource, kind) in kinds {
        let revision = shared.server.store().revision().to_string();
        tokio::spawn(follow(Arc::clone(shared), resource, kind, revision));
    }
}

async fn follow(shared: Arc<Shared>, resource: &'static str, kind: ApiResource, mut revision: String) {
    let api: Api<DynamicObject> = Api::all_with(shared.server.client(), &kind);
    let mut renumbering = Renumbering::default();
    loop {
        let now = shared.renumbering();
        if std::mem::replace(&mut renumbering, now) != now {
            revision = now.first.to_string();
        }
        let Ok(changes) = api.watch(&WatchParams::default(), &revision).await else {
            // The kind is not served now.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let mut changes = changes.boxed();
        while let Ok(Some(change)) = changes.try_next().await {
            let (change, object) = match change {
                WatchEvent::Added(object) => (Change::Created, object),
                WatchEvent::Modified(object) => (Change::Modified, object),
                WatchEvent::Deleted(object) => (Change::Deleted, object),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(_) => {
                    // The history was dropped, see `Incident::Compaction`. Nothing was missed.
                    revision = shared.server.store().revision().to_string();
                    break;
                }
            };
            revision = object.metadata.resource_version.clone().unwrap_or_default();
            let mut object = serde_json::to_value(object).unwrap_or_default();
            let shown = revision.parse::<u64>().unwrap_or_default() + renumbering.offset;
            object["metadata"]["resourceVersion"] = shown.to_string().into();
            shared.history.add(What::Changed { resource, change, object: Arc::new(object) });
        }
    }
}
