//! Gauges that are computed from the caches at regular intervals.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cleanup::object_counts::ObjectCounts;
use crate::watch::WatchContext;

/// Time between two updates. Counting walks all actions and objects; every ten seconds this costs nothing noticeable, and
/// Prometheus rarely scrapes more often.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// Updates the gauges until cancelled.
pub(super) async fn run(cx: WatchContext, mut objects: ObjectCounts) {
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
        objects.measure();
        metrics::gauge!("aileron_queue_depth").set(cx.queue.depth() as f64);
        tokio::select! {
            () = cx.cancel.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}
