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

use crate::caches::actions::{ActionStore, actions_of};
use crate::caches::readiness::Readiness;
use crate::queue::Queue;

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

/// Wakes the action that an object was made for. A name that nobody has is woken in vain, which costs nothing.
pub(crate) fn wake_owner(queue: &Queue, memory: &ActionStore, metadata: &ObjectMeta) {
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
