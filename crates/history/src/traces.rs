//! What people did to objects and actions while tasks ran.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Objects that people made and that no executor may touch, and actions whose end people changed. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    foreign: Arc<Mutex<BTreeSet<String>>>,
    disturbed: Arc<Mutex<BTreeSet<(String, String)>>>,
}

impl Traces {
    /// UIDs of objects that people made.
    #[must_use]
    pub fn foreign(&self) -> BTreeSet<String> {
        self.foreign.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds an object that people made.
    pub fn add_foreign(&self, uid: &str) {
        self.foreign.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned());
    }

    /// Whether somebody changed how this action ends.
    #[must_use]
    pub fn is_disturbed(&self, namespace: &str, name: &str) -> bool {
        let disturbed = self.disturbed.lock().unwrap_or_else(PoisonError::into_inner);
        disturbed.contains(&(namespace.to_owned(), name.to_owned()))
    }

    /// Somebody changes how this action ends.
    pub fn disturb(&self, namespace: &str, name: &str) {
        let mut disturbed = self.disturbed.lock().unwrap_or_else(PoisonError::into_inner);
        disturbed.insert((namespace.to_owned(), name.to_owned()));
    }
}
