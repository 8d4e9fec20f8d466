//! Which actions the labels of an object mean.
//!
//! A pod that an operator makes belongs to the operator's object and bears the run and the action as labels only. Labels
//! are cut and cleaned, and a root action is not named after them at all, so a name cannot be made from them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use aileron_action::TaskAction;
use aileron_action::metadata::run_and_action_labels;
use aileron_machinery::ActionKey;

/// Namespace, run and action, as the objects of an action bear them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ObjectLabels {
    namespace: String,
    run: String,
    action: String,
}

/// The actions by what their objects are labelled with. Several may share their labels.
#[derive(Default)]
pub(super) struct LabelIndex {
    keys: HashMap<Arc<ObjectLabels>, BTreeSet<ActionKey>>,
}

impl ObjectLabels {
    pub(super) fn new(namespace: &str, run: &str, action: &str) -> Self {
        Self { namespace: namespace.to_owned(), run: run.to_owned(), action: action.to_owned() }
    }

    /// The labels of an action's objects; none if it names no run or no action.
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

    /// The objects of an action are labelled otherwise than before; none is for an action that is not known.
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
