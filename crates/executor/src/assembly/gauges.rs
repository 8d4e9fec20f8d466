//! Gauges that are computed from the caches at regular intervals.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aileron_admission::gate::Gate;
use aileron_admission::pools::Pools;

use crate::caches::memory::MemoryCounts;
use crate::cleanup::object_counts::ObjectCounts;
use crate::watch::WatchContext;

/// Time between two updates. Counting walks all actions and objects; every ten seconds this costs nothing noticeable, and
/// Prometheus rarely scrapes more often.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// What is counted besides the caches.
pub(super) struct Counted {
    pub(super) objects: ObjectCounts,
    pub(super) gate: Arc<Gate>,
    pub(super) pools: Arc<Pools>,
    pub(super) memory: MemoryCounts,
}

impl Counted {
    /// The entries of every data structure that grows with the number of actions.
    fn entries(&self, cx: &WatchContext) -> BTreeMap<&'static str, usize> {
        let tokens = self.pools.counts().values().map(|(held, waiting)| held + waiting).sum();
        BTreeMap::from([
            ("actions", cx.caches.actions.len()),
            ("pods", cx.caches.pods.len()),
            ("objects", cx.caches.objects.len()),
            ("events", cx.caches.events.len()),
            ("queue", cx.queue.len()),
            ("own-writes", cx.objects.own_writes()),
            ("gate", self.gate.known_actions()),
            ("tokens", tokens),
        ])
    }
}

/// Updates the gauges until cancelled.
pub(super) async fn run(cx: WatchContext, mut counted: Counted) {
    // Phases that had a value before: a phase without actions is set to zero instead of keeping its last value.
    let mut shown = BTreeSet::new();
    loop {
        let counts = cx.caches.actions.count_by_phase();
        shown.extend(counts.keys().cloned());
        for phase in &shown {
            let count = counts.get(phase).copied().unwrap_or_default();
            metrics::gauge!("aileron_actions", "phase" => phase.clone()).set(count as f64);
        }
        for (reason, count) in cx.caches.actions.count_by_pending() {
            metrics::gauge!("aileron_pending_actions", "reason" => reason.as_str()).set(count as f64);
        }
        counted.objects.measure();
        counted.memory.set(counted.entries(&cx));
        metrics::gauge!("aileron_queue_depth").set(cx.queue.depth() as f64);
        tokio::select! {
            () = cx.cancel.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}
