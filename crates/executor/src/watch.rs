//! Following the cluster: one task per watch that does nothing but take in what comes.
//!
//! An API server cuts off a client that reads too slowly, and the client then works with an old picture; so nothing is
//! decided here. Each change goes into a cache, and the action it concerns is woken.

pub mod actions;
pub mod ended;
pub mod events;
pub mod kinds;
mod missed;
pub mod pods;
pub mod quotas;
pub mod templates;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use futures::{StreamExt, TryStream};
use kube::api::ObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::controller::memory::{ActionKey, Memory};
use crate::controller::queue::Queue;
use crate::serve::Readiness;

/// Which watches have their first full list. Rounds begin only when all have: a round that sees an action but not yet
/// its pod would take the pod for lost.
#[derive(Clone)]
pub struct Synced {
    readiness: Readiness,
    missing: Arc<watch::Sender<BTreeSet<&'static str>>>,
}

impl Synced {
    /// None of these has.
    pub fn new(readiness: Readiness, names: &[&'static str]) -> Self {
        for name in names {
            readiness.set(name, false);
        }
        Self { readiness, missing: Arc::new(watch::Sender::new(names.iter().copied().collect())) }
    }

    /// Waits until all have.
    pub async fn all(&self) {
        // The sender lives in `self`, so the only way this ends is that nothing is missing.
        let _ = self.missing.subscribe().wait_for(BTreeSet::is_empty).await;
    }

    fn mark(&self, name: &'static str) {
        self.readiness.set(name, true);
        self.missing.send_if_modified(|missing| missing.remove(name));
    }
}

/// Objects per page of the first list, so that a large cluster does not arrive in one piece.
pub(crate) const PAGE: u32 = 500;

/// The actions that an object may have been made for.
///
/// A pod that an operator made belongs to the operator's object, but bears the labels of the run and the action. Of an
/// action that is not known, they are all there is to guess its name from. And where owner references are switched off,
/// an object of ours is named after its action and attempt.
pub(crate) fn actions_of(memory: &Memory, metadata: &ObjectMeta) -> Vec<ActionKey> {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    if let Some(owner) = owners.iter().find(|owner| owner.kind == "TaskAction") {
        return vec![ActionKey::new(namespace, &owner.name)];
    }
    let label = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key));
    let labels = label("run").zip(label("action"));
    let known = labels.map(|(run, action)| memory.labelled(namespace, run, action)).unwrap_or_default();
    if !known.is_empty() {
        return known;
    }
    let labelled = labels.map(|(run, action)| format!("{run}-{action}"));
    let named = metadata.name.as_deref().and_then(|name| name.rsplit_once('-')).map(|(action, _)| action.to_owned());
    labelled.into_iter().chain(named).map(|name| ActionKey::new(namespace, &name)).collect()
}

/// Wakes the action that an object was made for. A name that nobody has is woken in vain, which costs nothing.
pub(crate) fn wake_owner(queue: &Queue, memory: &Memory, metadata: &ObjectMeta) {
    for key in actions_of(memory, metadata) {
        queue.wake(&key);
    }
}

/// Takes in what a watch shows.
pub trait Sink<K>: Send {
    /// An object, present when the watch began or anew. `listed` tells which.
    fn seen(&mut self, object: K, listed: bool);
    /// The list is complete: objects not listed since it began are gone.
    fn listed(&mut self);
    /// A new list begins.
    fn restarted(&mut self);
    /// An object is gone.
    fn gone(&mut self, object: K);
    /// The watch was interrupted. False ends it, for what it would show can no longer be had.
    fn goes_on(&mut self, _error: &watcher::Error) -> bool {
        true
    }
}

/// Follows a watch until cancelled, or until its sink gives up. Interruptions are bridged by the stream itself, with
/// growing pauses.
pub(crate) async fn follow<K, S>(
    name: &'static str,
    stream: S,
    mut sink: impl Sink<K>,
    synced: Synced,
    cancel: CancellationToken,
) where
    K: Debug + Send + 'static,
    S: TryStream<Ok = Event<K>, Error = watcher::Error> + Send,
    S: futures::Stream<Item = Result<Event<K>, watcher::Error>>,
{
    let mut events = std::pin::pin!(stream.default_backoff());
    loop {
        let event = tokio::select! {
            () = cancel.cancelled() => return,
            event = events.next() => event,
        };
        match event {
            Some(Ok(Event::Init)) => sink.restarted(),
            Some(Ok(Event::InitApply(object))) => sink.seen(object, true),
            Some(Ok(Event::InitDone)) => {
                sink.listed();
                synced.mark(name);
            }
            Some(Ok(Event::Apply(object))) => sink.seen(object, false),
            Some(Ok(Event::Delete(object))) => sink.gone(object),
            Some(Err(error)) => {
                metrics::counter!("aileron_watch_errors_total", "watch" => name).increment(1);
                tracing::warn!(watch = name, %error, "the watch was interrupted");
                if !sink.goes_on(&error) {
                    return;
                }
            }
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;
    use crate::action::{TaskAction, TaskActionSpec};

    fn names(metadata: Value) -> Vec<String> {
        let metadata = serde_json::from_value(metadata).unwrap();
        let memory = Memory::default();
        let mut root = TaskAction::new("r2-a0", TaskActionSpec::default());
        root.metadata.namespace = Some("ns".into());
        root.spec.run_name = "r2".into();
        root.spec.action_name = "r2".into();
        memory.observe(root);
        actions_of(&memory, &metadata).into_iter().map(|key| format!("{}/{}", key.namespace, key.name)).collect()
    }

    #[test]
    fn objects_lead_to_their_action_also_those_that_operators_make() {
        let owner = |kind: &str| json!([{"apiVersion": "v1", "kind": kind, "name": "r1-a0", "uid": "u"}]);
        let own = json!({"name": "r1-a0-0", "namespace": "ns", "ownerReferences": owner("TaskAction")});
        assert_eq!(names(own), ["ns/r1-a0"]);
        let labels = json!({"run": "r1", "action": "a0"});
        let of_operator = json!({"name": "r1-a0-0-driver", "namespace": "ns", "labels": labels,
            "ownerReferences": owner("SparkApplication")});
        assert_eq!(names(of_operator)[0], "ns/r1-a0");
        assert_eq!(names(json!({"name": "r1-a0-0", "namespace": "ns"})), ["ns/r1-a0"]);
        let labels = json!({"run": "r2", "action": "r2"});
        let of_root = json!({"name": "job-worker-0", "namespace": "ns", "labels": labels});
        assert_eq!(names(of_root), ["ns/r2-a0"], "and nobody is woken in vain");
    }
}
