//! How many entries the process keeps in memory for actions and their objects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of entries of each data structure that grows with the number of actions. All clones share them.
///
/// When all actions and their objects are deleted, every number returns to zero.
#[derive(Clone, Debug, Default)]
pub struct MemoryCounts {
    entries: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

impl MemoryCounts {
    /// The numbers at the last count, by data structure. Empty until the first count.
    #[must_use]
    pub fn entries(&self) -> BTreeMap<&'static str, usize> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the numbers, and publishes them as gauges.
    pub(crate) fn set(&self, entries: BTreeMap<&'static str, usize>) {
        for (structure, count) in &entries {
            metrics::gauge!("aileron_memory_entries", "structure" => *structure).set(*count as f64);
        }
        *self.entries.lock().unwrap_or_else(PoisonError::into_inner) = entries;
    }
}
