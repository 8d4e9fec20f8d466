//! What each object takes of a quota, and what all take together.
//!
//! Reading all objects of a namespace at every write would make a namespace with many objects slow, so only the object
//! that was written is read anew.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use aileron_kubekit::quantity::{Format, Quantity};
use serde_json::Value;

use super::amounts::{self, Amounts};
use crate::store::Key;

/// The tallies of all quotas, by the place of the quota.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    all: BTreeMap<Key, Tally>,
}

/// The tally of one quota.
#[derive(Debug)]
pub(crate) struct Tally {
    spec: Value,
    shares: HashMap<Arc<str>, HashMap<String, Amounts>>,
    total: Amounts,
}

impl Tallies {
    /// The tally of a quota, if it was counted.
    pub(crate) fn of(&mut self, quota: &Key) -> Option<&mut Tally> {
        self.all.get_mut(quota)
    }

    pub(crate) fn keep(&mut self, quota: Key, tally: Tally) {
        self.all.insert(quota, tally);
    }

    /// Only these quotas are left in a namespace.
    pub(crate) fn retain(&mut self, namespace: &str, keep: impl Fn(&str) -> bool) {
        self.all.retain(|quota, _| quota.namespace != namespace || keep(&quota.name));
    }

    /// Everything is to be counted anew.
    pub(crate) fn forget_all(&mut self) {
        self.all.clear();
    }
}

impl Tally {
    /// Nothing is taken of these resources yet.
    pub(crate) fn new<'a>(spec: Value, resources: impl Iterator<Item = &'a String>) -> Self {
        let total = resources.map(|name| (name.clone(), Quantity::new(0, Format::DecimalSi))).collect();
        Self { spec, shares: HashMap::new(), total }
    }

    /// It was counted for a quota of this kind.
    pub(crate) fn is_of(&self, spec: &Value) -> bool {
        self.spec == *spec
    }

    /// What one object takes from now on; nothing if it is gone.
    pub(crate) fn put(&mut self, place: &Arc<str>, key: &Key, share: Amounts) {
        let shares = self.shares.entry(Arc::clone(place)).or_default();
        amounts::plus(&mut self.total, &share);
        let before = if share.is_empty() { shares.remove(&key.name) } else { shares.insert(key.name.clone(), share) };
        amounts::minus(&mut self.total, &before.unwrap_or_default());
    }

    /// What all take together.
    pub(crate) fn total(&self) -> &Amounts {
        &self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(list: &[(&str, &str)]) -> Amounts {
        list.iter().filter_map(|(name, amount)| Some(((*name).to_owned(), amount.parse().ok()?))).collect()
    }

    #[test]
    fn the_total_follows_each_object() {
        let names = ["pods".to_owned(), "limits.memory".to_owned()];
        let mut tally = Tally::new(Value::Null, names.iter());
        let (place, first, second) = (Arc::from("pods"), Key::new("n", "a"), Key::new("n", "b"));
        tally.put(&place, &first, of(&[("pods", "1"), ("limits.memory", "64Mi")]));
        tally.put(&place, &second, of(&[("pods", "1"), ("limits.memory", "32Mi")]));
        assert_eq!(amounts::write(tally.total()), serde_json::json!({"pods": "2", "limits.memory": "96Mi"}));
        tally.put(&place, &second, of(&[("pods", "1")]));
        assert_eq!(amounts::write(tally.total()), serde_json::json!({"pods": "2", "limits.memory": "64Mi"}));
        tally.put(&place, &first, Amounts::new());
        tally.put(&place, &first, Amounts::new());
        assert_eq!(amounts::write(tally.total()), serde_json::json!({"pods": "1", "limits.memory": "0"}));
        assert!(tally.is_of(&Value::Null) && !tally.is_of(&Value::Bool(true)));
    }
}
