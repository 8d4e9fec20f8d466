//! What must be in place before the executor counts as ready.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Named conditions, shared: every clone sees and sets the same ones.
///
/// Without any condition the executor is not ready, because nothing has had time to name what it waits for.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    checks: Arc<Mutex<BTreeMap<String, bool>>>,
}

impl Readiness {
    /// Nothing is ready yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says whether something is in place. Naming it with `false` at the start makes readiness wait for it.
    pub fn set(&self, name: &str, ready: bool) {
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        match checks.get_mut(name) {
            Some(current) => *current = ready,
            None => {
                checks.insert(name.to_owned(), ready);
            }
        }
    }

    /// True when everything named is in place.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        !checks.is_empty() && checks.values().all(|ready| *ready)
    }

    /// Everything named, in alphabetical order, and whether it is in place.
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
    fn is_ready_when_all_that_was_named_is_in_place() {
        let readiness = Readiness::new();
        assert!(!readiness.is_ready(), "nothing named yet");
        readiness.set("pods", true);
        assert!(readiness.is_ready());
        readiness.clone().set("taskactions", false);
        assert!(!readiness.is_ready(), "clones share");
        assert_eq!(readiness.checks(), [("pods".to_owned(), true), ("taskactions".to_owned(), false)]);
        readiness.set("taskactions", true);
        assert!(readiness.is_ready());
    }
}
