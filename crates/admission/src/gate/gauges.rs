//! Gauges of the gate: waiting actions by reason, and kinds in back-off.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use super::namespace::NamespaceAdmission;

/// The label values that were published, so that a gauge whose value is gone is set to zero.
#[derive(Default)]
pub(super) struct Gauges {
    /// Kind and namespace.
    backoffs: BTreeSet<(String, String)>,
    reasons: BTreeSet<&'static str>,
}

impl Gauges {
    /// Publishes the current values.
    pub(super) fn publish(&mut self, namespaces: &HashMap<Arc<str>, NamespaceAdmission>, now: Instant) {
        let mut waiting: BTreeMap<&'static str, usize> = BTreeMap::new();
        let mut backoffs = BTreeSet::new();
        for (namespace, admission) in namespaces {
            for (reason, count) in admission.waiting_by_reason(now) {
                *waiting.entry(reason.code.as_str()).or_default() += count;
            }
            let kinds = admission.kinds_in_backoff(now);
            backoffs.extend(kinds.map(|kind| (kind.kind.to_string(), namespace.to_string())));
        }
        self.reasons.extend(waiting.keys());
        for reason in &self.reasons {
            let count = waiting.get(reason).copied().unwrap_or_default();
            metrics::gauge!("aileron_launches_waiting", "reason" => *reason).set(count as f64);
        }
        for (kind, namespace) in self.backoffs.union(&backoffs) {
            let is_active = backoffs.contains(&(kind.clone(), namespace.clone()));
            metrics::gauge!("aileron_backoff_active", "kind" => kind.clone(), "namespace" => namespace.clone())
                .set(if is_active { 1.0 } else { 0.0 });
        }
        self.backoffs = backoffs;
    }
}
