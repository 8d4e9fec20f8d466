//! Watches: each one follows one kind of object, fills a cache and wakes the actions that a change concerns.
//!
//! An API server closes the watch of a client that reads too slowly, and the client then works with outdated data. So a
//! watch makes no decisions and sends no requests of its own while it reads: it stores each change and continues.
//!
//! All watches share one [`WatchContext`]. [`Watches`] starts them and notices when one ends.

pub mod actions;
mod current;
pub mod ended;
pub mod events;
mod interruptions;
pub mod kinds;
mod malformed;
mod missed;
pub mod pods;
pub mod quotas;
mod reconnect;
pub mod templates;
pub mod tokens;
mod visibility;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use aileron_machinery::time::clock::Clock;
use futures::StreamExt;
use kube::Resource;
use kube::api::{Api, ObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::current::{Relists, until_current};
pub use self::interruptions::Interruptions;
use self::visibility::{Change, Visibility};
use crate::caches::Caches;
use crate::caches::readiness::Readiness;
use crate::cluster::kube::objects::KubeObjects;
use crate::cluster::listed::{Listed, Malformed};
use crate::queue::Queue;

use self::malformed::MalformedReports;

/// Objects per page of a list. Larger pages save requests; this size keeps one answer below about 5 MB even if all
/// objects are large pods.
pub(crate) const PAGE: u32 = 500;

/// What every watch works with. Clones share everything.
#[derive(Clone)]
pub struct WatchContext {
    /// The client of the cluster.
    pub client: kube::Client,
    /// The caches that watches fill.
    pub caches: Caches,
    /// Receives the actions that a change concerns.
    pub queue: Arc<Queue>,
    /// Drops its record of own writes to an object that was deleted.
    pub objects: Arc<KubeObjects>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Which watches have their first complete list.
    pub synced: Synced,
    /// Requests for new lists of the actions.
    pub relists: Relists,
    /// The errors of watches that were logged lately.
    pub interruptions: Interruptions,
    /// Ends all watches.
    pub cancel: CancellationToken,
}

impl WatchContext {
    /// Wakes the action that an object was made for. Waking an action that does not exist has no effect.
    pub(crate) fn wake_owner(&self, metadata: &ObjectMeta) {
        for key in self.caches.actions.actions_of(metadata) {
            self.queue.wake(&key);
        }
    }

    /// Lists and watches objects, and passes them to a sink until cancelled, or until the sink stops the watch. The watch
    /// reconnects by itself after an interruption, with growing delays. An object that cannot be decoded is reported, and
    /// affects no other object.
    pub(crate) async fn follow<K>(
        &self,
        name: &'static str,
        api: Api<Listed<K>>,
        config: watcher::Config,
        mut sink: impl Sink<K>,
    ) where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let mut events = std::pin::pin!(watcher(api, config).backoff(reconnect::pauses()));
        let mut reports = MalformedReports::new(name);
        let mut visibility = Visibility::default();
        loop {
            let event = tokio::select! {
                () = self.cancel.cancelled() => return,
                event = events.next() => event,
                () = visibility.quiet() => {
                    self.synced.set_visible(name, visibility.works());
                    continue;
                }
            };
            let change = match &event {
                Some(Err(_)) => visibility.error(tokio::time::Instant::now()),
                // A list has only begun.
                Some(Ok(Event::Init)) => None,
                Some(Ok(_)) | None => visibility.works(),
            };
            self.synced.set_visible(name, change);
            match event {
                Some(Ok(Event::Init)) => {
                    reports.restarted();
                    sink.restarted();
                }
                Some(Ok(Event::InitApply(object))) => pass(&mut sink, &mut reports, object, true),
                Some(Ok(Event::InitDone)) => {
                    reports.listed();
                    sink.listed();
                    self.synced.mark(name);
                }
                Some(Ok(Event::Apply(object))) => pass(&mut sink, &mut reports, object, false),
                Some(Ok(Event::Delete(object))) => {
                    reports.gone(object.meta());
                    match object {
                        Listed::Decoded(object) => {
                            let metadata = object.meta().clone();
                            sink.gone(&metadata, Some(*object));
                        }
                        Listed::Malformed(malformed) => sink.gone(&malformed.metadata, None),
                    }
                }
                Some(Err(error)) => {
                    metrics::counter!("aileron_watch_errors_total", "watch" => name).increment(1);
                    self.interruptions.log(name, &error, self.clock.instant());
                    if !sink.continues_after(&error) {
                        return;
                    }
                }
                None => return,
            }
        }
    }
}

fn pass<K>(sink: &mut impl Sink<K>, reports: &mut MalformedReports, object: Listed<K>, listed: bool) {
    match object {
        Listed::Decoded(object) => sink.seen(*object, listed),
        Listed::Malformed(malformed) => {
            reports.seen(&malformed.metadata, &malformed.error, listed);
            sink.malformed(*malformed, listed);
        }
    }
}

/// Receives what a watch shows.
pub trait Sink<K>: Send {
    /// An object of the list (`listed`), or one that was created or changed since.
    fn seen(&mut self, object: K, listed: bool);
    /// As [`Sink::seen`], for an object that cannot be decoded. What is stored about an earlier version is outdated.
    fn malformed(&mut self, object: Malformed, listed: bool);
    /// The list is complete: objects that were not listed since [`Sink::restarted`] are gone.
    fn listed(&mut self);
    /// A new list begins.
    fn restarted(&mut self);
    /// An object was deleted. It is missing if it cannot be decoded.
    fn gone(&mut self, metadata: &ObjectMeta, object: Option<K>);
    /// The watch was interrupted. `false` ends the watch because its objects can no longer be read.
    fn continues_after(&mut self, _error: &watcher::Error) -> bool {
        true
    }
}

/// Which watches have their first complete list. Reconcile rounds begin only when all have: a round that sees an action
/// but not yet its pod would treat the pod as lost.
#[derive(Clone)]
pub struct Synced {
    readiness: Readiness,
    missing: Arc<watch::Sender<BTreeSet<&'static str>>>,
}

impl Synced {
    /// Waits for no watch yet.
    pub fn new(readiness: Readiness) -> Self {
        Self { readiness, missing: Arc::default() }
    }

    /// Adds a watch that must be complete before rounds begin.
    pub fn expect(&self, name: &'static str) {
        self.readiness.set(name, false);
        self.missing.send_modify(|missing| {
            missing.insert(name);
        });
    }

    /// Waits until the first list of every expected watch is complete.
    pub async fn all(&self) {
        // `self` owns the sender, so waiting cannot fail.
        let _ = self.missing.subscribe().wait_for(BTreeSet::is_empty).await;
    }

    /// The readiness of a watch follows what it shows, once its first list is complete.
    fn set_visible(&self, name: &'static str, change: Option<Change>) {
        let Some(change) = change else { return };
        if self.missing.borrow().contains(name) || !self.readiness.names(name) {
            return;
        }
        tracing::warn!(watch = name, ?change, "what the watch shows has changed");
        self.readiness.set(name, change == Change::Visible);
    }

    fn mark(&self, name: &'static str) {
        self.readiness.set(name, true);
        self.missing.send_if_modified(|missing| missing.remove(name));
    }
}

/// The running watches of the process.
pub struct Watches {
    context: WatchContext,
    tasks: TaskTracker,
    /// Cancelled when any watch ends.
    ended: CancellationToken,
}

impl Watches {
    /// No watch is running yet.
    pub fn new(context: WatchContext) -> Self {
        Self { context, tasks: TaskTracker::new(), ended: CancellationToken::new() }
    }

    /// Starts a watch. Rounds begin only after its first complete list.
    pub fn add<F>(&self, name: &'static str, watch: impl FnOnce(WatchContext) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.context.synced.expect(name);
        self.add_background(watch);
    }

    /// Starts a task in the background, for example a watch that rounds do not wait for.
    pub fn add_background<F>(&self, watch: impl FnOnce(WatchContext) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // The guard is dropped when the watch ends for any reason, a panic included.
        let ended = self.ended.clone().drop_guard();
        let watch = watch(self.context.clone());
        // A request of the watch may hang for a minute; the process must not wait for it when it is told to stop.
        let watch = self.context.cancel.clone().run_until_cancelled_owned(watch);
        self.tasks.spawn(async move {
            watch.await;
            drop(ended);
        });
    }

    /// Returns when a watch has ended, which must not happen before [`Watches::stop`].
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Ends all watches.
    pub async fn stop(self) {
        self.context.cancel.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[cfg(test)]
impl WatchContext {
    /// A context with empty caches and a client that reaches no server.
    pub(crate) fn for_tests() -> Self {
        let address = "http://127.0.0.1:1".parse().expect("an address");
        let client = kube::Client::try_from(kube::Config::new(address)).expect("a client");
        let caches = Caches::new("flyte");
        let writer = crate::cluster::kube::Writer::new(client.clone());
        let queue = Arc::<Queue>::default();
        queue.open();
        let clock: Arc<dyn Clock> = Arc::new(aileron_machinery::time::clock::SystemClock);
        Self {
            client,
            objects: Arc::new(KubeObjects::new(writer, caches.clone(), Arc::clone(&clock))),
            caches,
            queue,
            clock,
            synced: Synced::new(Readiness::default()),
            relists: Relists::default(),
            interruptions: Interruptions::default(),
            cancel: CancellationToken::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_hangs_does_not_delay_the_stop() {
        let watches = Watches::new(WatchContext::for_tests());
        watches.add_background(|_| std::future::pending());
        let stopped = tokio::time::timeout(std::time::Duration::from_secs(1), watches.stop()).await;
        assert!(stopped.is_ok());
    }
}
