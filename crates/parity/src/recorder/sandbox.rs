//! Follows all objects of the sandbox's API server inside this process, so that restarts of its HTTP server do not matter.
//!
//! The sandbox drops its history when it is started again. An open watch goes on if it has read everything. A watch that is
//! opened later begins anew, provided that the current state is the one that was delivered.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aileron_apiserver::ApiServer;
use aileron_history::history::Change;
use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::changes::{Changes, Kind};

/// Pause before a watch is opened again that the server refused.
const RETRY_EVERY: Duration = Duration::from_millis(50);

/// Adds the current objects, and starts to follow their changes.
pub(super) async fn follow(server: &ApiServer, changes: &Arc<Mutex<Changes>>, stop: &CancellationToken) -> Result<()> {
    for kind in Kind::ALL {
        let api: Api<DynamicObject> = Api::all_with(server.client(), &kind.api_resource());
        let list = api.list(&ListParams::default()).await.with_context(|| format!("listing {}", kind.plural()))?;
        for object in list.items {
            add(changes, kind, Change::Created, object);
        }
        let revision = list.metadata.resource_version.unwrap_or_default();
        let task = watch(api, kind, revision, Arc::clone(changes));
        tokio::spawn(stop.clone().run_until_cancelled_owned(task));
    }
    Ok(())
}

async fn watch(api: Api<DynamicObject>, kind: Kind, mut revision: String, changes: Arc<Mutex<Changes>>) {
    loop {
        let events = match api.watch(&WatchParams::default(), &revision).await {
            Ok(events) => events,
            Err(kube::Error::Api(status)) if status.code == 410 => match begin_anew(&api, kind, &changes).await {
                Some(current) => {
                    revision = current;
                    continue;
                }
                None => return,
            },
            Err(_) => {
                tokio::time::sleep(RETRY_EVERY).await;
                continue;
            }
        };
        let mut events = events.boxed();
        while let Ok(Some(event)) = events.try_next().await {
            let (change, object) = match event {
                WatchEvent::Added(object) => (Change::Created, object),
                WatchEvent::Modified(object) => (Change::Modified, object),
                WatchEvent::Deleted(object) => (Change::Deleted, object),
                WatchEvent::Bookmark(bookmark) => {
                    revision = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(_) => match begin_anew(&api, kind, &changes).await {
                    Some(current) => {
                        revision = current;
                        break;
                    }
                    None => return,
                },
            };
            revision = object.metadata.resource_version.clone().unwrap_or_default();
            add(&changes, kind, change, object);
        }
    }
}

/// The revision from which a watch can go on; `None` if changes were lost.
async fn begin_anew(api: &Api<DynamicObject>, kind: Kind, changes: &Mutex<Changes>) -> Option<String> {
    let problem = match api.list(&ListParams::default()).await {
        Ok(list) => match changes.lock().unwrap_or_else(PoisonError::into_inner).behind(kind, &list.items) {
            None => return list.metadata.resource_version,
            Some(behind) => behind,
        },
        Err(error) => error.to_string(),
    };
    let problem = format!("the watch of {} cannot continue: {problem}", kind.plural());
    changes.lock().unwrap_or_else(PoisonError::into_inner).problem = Some(problem);
    None
}

fn add(changes: &Mutex<Changes>, kind: Kind, change: Change, object: DynamicObject) {
    let revision = object.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default();
    let object = serde_json::to_value(object).unwrap_or(Value::Null);
    changes.lock().unwrap_or_else(PoisonError::into_inner).add(Timestamp::now(), kind, change, revision, object);
}
