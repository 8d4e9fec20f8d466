//! The watch over ended actions.
//!
//! An ended action still has our finalizer, so the API server deletes it only after we removed the finalizer. The watch
//! reads only metadata, and the store keeps nothing of ended actions. The whole object is fetched when it is deleted.

mod fetches;
mod last_rounds;

use std::collections::HashSet;
use std::time::Duration;

use aileron_action::labels::{TERMINATED, TERMINATION_STATUS};
use aileron_action::{ACTION_FINALIZER, TaskAction};
use aileron_machinery::ActionKey;
use aileron_machinery::time::jitter::random;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::api::{Api, ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher;
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::fetches::Fetches;
use self::last_rounds::LastRounds;
use super::interruptions::bounded;
use super::{PAGE, Sink, WatchContext};
use crate::cluster::listed::{Listed, Malformed};

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "ended-taskactions";

/// Requests in flight. A few at once are fast enough for the deletion of a whole run, and do not burden the API server.
const FETCHES_IN_FLIGHT: usize = 8;
/// A request that is not answered within this time has failed. It must not keep other actions from being deleted.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Follows ended actions. An ended action that is being deleted is put back into the store for its last round.
pub async fn run(cx: WatchContext) {
    let api: Api<Listed<PartialObjectMeta<TaskAction>>> = Api::all(cx.client.clone());
    let selector = format!("{TERMINATION_STATUS}={TERMINATED}");
    let config = watcher::Config::default().labels(&selector).page_size(PAGE);
    let (deleted, to_fetch) = mpsc::unbounded_channel();
    let last_rounds = LastRounds::new(&cx.caches.actions);
    let sink = Ended { last_rounds: last_rounds.clone(), deleted, listed: HashSet::new() };
    tokio::select! {
        () = cx.follow(NAME, api, config, sink) => {}
        () = fetch_all(to_fetch, |key| fetch(&cx, &last_rounds, key)) => {}
    }
}

struct Ended {
    last_rounds: LastRounds,
    /// Ended actions to fetch for their last round.
    deleted: mpsc::UnboundedSender<ActionKey>,
    listed: HashSet<ActionKey>,
}

impl Ended {
    fn seen_metadata(&mut self, metadata: &ObjectMeta, listed: bool) {
        let key = ActionKey::of(metadata);
        if listed {
            self.listed.insert(key.clone());
        }
        let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
        let ours = finalizers.iter().any(|name| name == ACTION_FINALIZER);
        if ours && metadata.deletion_timestamp.is_some() {
            self.last_rounds.begin(key.clone(), metadata.uid.clone());
            // The receiver lives as long as this watch, so sending cannot fail while it matters.
            let _ = self.deleted.send(key);
        }
    }
}

impl Sink<PartialObjectMeta<TaskAction>> for Ended {
    fn seen(&mut self, object: PartialObjectMeta<TaskAction>, listed: bool) {
        self.seen_metadata(&object.metadata, listed);
    }

    fn malformed(&mut self, object: Malformed, listed: bool) {
        self.seen_metadata(&object.metadata, listed);
    }

    fn restarted(&mut self) {
        self.listed.clear();
    }

    /// An action that was deleted while the watch was interrupted is not in the new list, and no event tells about it.
    fn listed(&mut self) {
        self.last_rounds.retain(&std::mem::take(&mut self.listed));
    }

    fn gone(&mut self, metadata: &ObjectMeta, _object: Option<PartialObjectMeta<TaskAction>>) {
        self.last_rounds.end(&ActionKey::of(metadata), metadata.uid.as_deref());
    }
}

/// Fetches each of these actions. The watch does not show an action again, so a fetch that failed is repeated here, after
/// a pause that grows with each failure.
async fn fetch_all<F>(mut deleted: mpsc::UnboundedReceiver<ActionKey>, fetch: impl Fn(ActionKey) -> F)
where
    F: Future<Output = Result<(), String>>,
{
    let mut fetches = Fetches::default();
    let mut in_flight = FuturesUnordered::new();
    loop {
        while in_flight.len() < FETCHES_IN_FLIGHT
            && let Some(key) = fetches.take_due(Instant::now())
        {
            let answer = fetch(key.clone());
            in_flight.push(async move { (key, answer.await) });
        }
        let next = fetches.next_due().filter(|_| in_flight.len() < FETCHES_IN_FLIGHT);
        tokio::select! {
            key = deleted.recv() => match key {
                Some(key) => fetches.add(key, Instant::now()),
                None => return,
            },
            Some((key, result)) = in_flight.next() => match result {
                Ok(()) => fetches.succeeded(&key),
                Err(error) => {
                    let failures = fetches.failed(key.clone(), Instant::now(), random());
                    tracing::warn!(
                        namespace = %key.namespace, name = %key.name, error, failures,
                        "failed to fetch an ended action; retrying"
                    );
                }
            },
            () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
    }
}

/// Fetches an action for its last round. An action that is gone needs none.
async fn fetch(cx: &WatchContext, last_rounds: &LastRounds, key: ActionKey) -> Result<(), String> {
    let api: Api<Listed<TaskAction>> = Api::namespaced(cx.client.clone(), &key.namespace);
    let found = tokio::time::timeout(FETCH_TIMEOUT, api.get_opt(&key.name)).await;
    let found = found.map_err(|_| format!("the API server did not answer within {FETCH_TIMEOUT:?}"))?;
    if let Some(object) = found.map_err(|error| bounded(&error))?
        && last_rounds.store(&key, object).map_err(|outdated| outdated.to_string())?
    {
        cx.queue.wake(&key);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use aileron_action::labels::COMPLETED_TIME;

    use super::*;
    use crate::caches::actions::ActionStore;

    fn ended(name: &str) -> TaskAction {
        let mut action = TaskAction::new(name, Default::default());
        action.metadata.namespace = Some("ns".to_owned());
        action.metadata.uid = Some(name.to_owned());
        action.metadata.resource_version = Some("1".to_owned());
        let labels = [(TERMINATION_STATUS, TERMINATED), (COMPLETED_TIME, "2026-01-01.00-00")];
        action.metadata.labels = Some(labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        action
    }

    fn key(name: &str) -> ActionKey {
        ActionKey::new("ns", name)
    }

    #[test]
    fn an_action_that_was_deleted_during_an_interruption_is_removed() {
        let actions = Arc::<ActionStore>::default();
        let (deleted, _receiver) = mpsc::unbounded_channel();
        let mut sink = Ended { last_rounds: LastRounds::new(&actions), deleted, listed: HashSet::new() };
        for name in ["stays", "deleted"] {
            actions.observe(ended(name));
        }
        let mut running = ended("running");
        running.metadata.labels = None;
        actions.observe(running);
        sink.restarted();
        sink.seen_metadata(&ended("stays").metadata, true);
        assert!(actions.get(&key("deleted")).is_some(), "the list is not complete yet");
        sink.listed();
        assert!(actions.get(&key("deleted")).is_none());
        assert!(actions.get(&key("stays")).is_some());
        assert!(actions.get(&key("running")).is_some(), "this action belongs to another watch");
    }

    /// Plays an outage: the names of the requests that were sent until `until`, and the largest number in flight.
    async fn requests(keys: usize, outage: Duration, until: Duration) -> (Vec<Arc<str>>, usize) {
        let (deleted, to_fetch) = mpsc::unbounded_channel();
        for number in 0..keys {
            let _ = deleted.send(key(&number.to_string()));
        }
        let begin = Instant::now();
        let (sent, in_flight, most) = (Mutex::new(Vec::new()), AtomicUsize::new(0), AtomicUsize::new(0));
        let fetch = async |key: ActionKey| {
            most.fetch_max(in_flight.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sent.lock().expect("no panic").push(key.name);
            tokio::time::sleep(Duration::from_millis(10)).await;
            in_flight.fetch_sub(1, Ordering::SeqCst);
            if begin.elapsed() < outage { Err("no answer".to_owned()) } else { Ok(()) }
        };
        let _ = tokio::time::timeout(until, fetch_all(to_fetch, fetch)).await;
        drop(deleted);
        (sent.into_inner().expect("no panic"), most.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_costs_few_requests_and_every_action_is_fetched_in_the_end() {
        let hour = Duration::from_secs(3600);
        let (sent, most) = requests(1_000, hour, 2 * hour).await;
        assert_eq!(most, FETCHES_IN_FLIGHT);
        let names: HashSet<_> = sent.iter().collect();
        assert_eq!(names.len(), 1_000);
        // One request per minute and action at most, after the first minutes.
        assert!(sent.len() < 1_000 * 90, "{}", sent.len());
        let (sent, _) = requests(1_000, Duration::ZERO, hour).await;
        assert_eq!(sent.len(), 1_000, "one request for each action");
    }
}
