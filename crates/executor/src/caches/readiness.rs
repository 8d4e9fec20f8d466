//! The conditions that must hold before the executor reports that it is ready.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Named conditions. All clones share them.
///
/// Without any condition the executor is not ready, because its parts have not added their conditions yet.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    checks: Arc<Mutex<BTreeMap<String, bool>>>,
}

impl Readiness {
    /// No conditions yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a condition. A part of the executor that must be ready first adds its condition with `false` at the start.
    pub fn set(&self, name: &str, ready: bool) {
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        match checks.get_mut(name) {
            Some(current) => *current = ready,
            None => {
                checks.insert(name.to_owned(), ready);
            }
        }
    }

    /// Whether readiness depends on this.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }

    /// Whether all conditions hold.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        !checks.is_empty() && checks.values().all(|ready| *ready)
    }

    /// All conditions in alphabetical order, and whether each holds.
    #[must_use]
    pub fn checks(&self) -> Vec<(String, bool)> {
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        checks.iter().map(|(name, ready)| (name.clone(), *ready)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_ready_when_all_conditions_hold() {
        let readiness = Readiness::new();
        assert!(!readiness.is_ready(), "no condition yet");
        readiness.set("pods", true);
        assert!(readiness.is_ready());
        readiness.clone().set("taskactions", false);
        assert!(!readiness.is_ready(), "clones share");
        assert_eq!(readiness.checks(), [("pods".to_owned(), true), ("taskactions".to_owned(), false)]);
        readiness.set("taskactions", true);
        assert!(readiness.is_ready());
    }
}
