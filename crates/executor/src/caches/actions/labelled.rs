//! Finds the actions of an object by its labels.
//!
//! A pod that an operator creates is owned by the operator's object. Only its labels name the run and the action. Label
//! values are shortened and cleaned, and a root action is not named after them, so the name of the TaskAction cannot be
//! derived from the labels.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use aileron_action::TaskAction;
use aileron_action::metadata::run_and_action_labels;
use aileron_machinery::ActionKey;

/// The namespace of the objects of an action, and their labels for run and action.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ObjectLabels {
    namespace: String,
    run: String,
    action: String,
}

/// The actions by the labels of their objects. Several actions may have the same labels.
#[derive(Default)]
pub(super) struct LabelIndex {
    keys: HashMap<Arc<ObjectLabels>, BTreeSet<ActionKey>>,
}

impl ObjectLabels {
    pub(super) fn new(namespace: &str, run: &str, action: &str) -> Self {
        Self { namespace: namespace.to_owned(), run: run.to_owned(), action: action.to_owned() }
    }

    /// The labels of the objects of an action; `None` if it names no run or no action.
    pub(super) fn of(action: &TaskAction) -> Option<Self> {
        let (run, name) = run_and_action_labels(&action.spec)?;
        let namespace = action.metadata.namespace.clone().unwrap_or_default();
        Some(Self { namespace, run, action: name })
    }
}

impl LabelIndex {
    pub(super) fn get(&self, labels: &ObjectLabels) -> Vec<ActionKey> {
        self.keys.get(labels).into_iter().flatten().cloned().collect()
    }

    /// Replaces the labels of an action. `None` stands for an action that is not stored.
    pub(super) fn replace(
        &mut self,
        key: &ActionKey,
        before: Option<&Arc<ObjectLabels>>,
        after: Option<&Arc<ObjectLabels>>,
    ) {
        if let Some(before) = before
            && let Some(keys) = self.keys.get_mut(before)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.keys.remove(before);
            }
        }
        if let Some(after) = after {
            self.keys.entry(Arc::clone(after)).or_default().insert(key.clone());
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}
