//! How much of a quota each object uses, and the total.
//!
//! Reading all objects of a namespace at every write would be slow in namespaces with many objects. Therefore the store
//! remembers the usage of each object, and a write updates only the usage of the written object.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use aileron_kubekit::quantity::{Format, Quantity};
use serde_json::Value;

use crate::object::Key;
use crate::object::amounts::{self, Amounts};

/// The usage of all quotas, by namespace and name of the quota.
#[derive(Debug, Default)]
pub(crate) struct QuotaUsages {
    all: BTreeMap<Key, QuotaUsage>,
}

/// The usage of one quota.
#[derive(Debug)]
pub(crate) struct QuotaUsage {
    /// The spec of the quota for which the objects were counted.
    spec: Value,
    /// Usage by resource and by the name of the object.
    shares: HashMap<Arc<str>, HashMap<String, Amounts>>,
    total: Amounts,
}

impl QuotaUsages {
    /// The usage of a quota, if it has been counted.
    pub(crate) fn of(&mut self, quota: &Key) -> Option<&mut QuotaUsage> {
        self.all.get_mut(quota)
    }

    pub(crate) fn insert(&mut self, quota: Key, usage: QuotaUsage) {
        self.all.insert(quota, usage);
    }

    /// Drops the usage of the quotas of a namespace for which `keep` returns false.
    pub(crate) fn retain(&mut self, namespace: &str, keep: impl Fn(&str) -> bool) {
        self.all.retain(|quota, _| quota.namespace != namespace || keep(&quota.name));
    }

    /// Drops the usage of all quotas. It is counted again at the next write.
    pub(crate) fn forget_all(&mut self) {
        self.all.clear();
    }
}

impl QuotaUsage {
    /// A usage of zero of these resources.
    pub(crate) fn new<'a>(spec: Value, resources: impl Iterator<Item = &'a String>) -> Self {
        let total = resources.map(|name| (name.clone(), Quantity::new(0, Format::DecimalSi))).collect();
        Self { spec, shares: HashMap::new(), total }
    }

    /// Whether the objects were counted for a quota with this spec.
    pub(crate) fn is_for(&self, spec: &Value) -> bool {
        self.spec == *spec
    }

    /// Replaces the usage of one object. An empty `share` removes it.
    pub(crate) fn put(&mut self, resource: &Arc<str>, key: &Key, share: Amounts) {
        let shares = self.shares.entry(Arc::clone(resource)).or_default();
        amounts::add(&mut self.total, &share);
        let before = if share.is_empty() { shares.remove(&key.name) } else { shares.insert(key.name.clone(), share) };
        amounts::subtract(&mut self.total, &before.unwrap_or_default());
    }

    /// The usage of all objects together.
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
        let mut usage = QuotaUsage::new(Value::Null, names.iter());
        let (resource, first, second) = (Arc::from("pods"), Key::new("n", "a"), Key::new("n", "b"));
        usage.put(&resource, &first, of(&[("pods", "1"), ("limits.memory", "64Mi")]));
        usage.put(&resource, &second, of(&[("pods", "1"), ("limits.memory", "32Mi")]));
        assert_eq!(amounts::write(usage.total()), serde_json::json!({"pods": "2", "limits.memory": "96Mi"}));
        usage.put(&resource, &second, of(&[("pods", "1")]));
        assert_eq!(amounts::write(usage.total()), serde_json::json!({"pods": "2", "limits.memory": "64Mi"}));
        usage.put(&resource, &first, Amounts::new());
        usage.put(&resource, &first, Amounts::new());
        assert_eq!(amounts::write(usage.total()), serde_json::json!({"pods": "1", "limits.memory": "0"}));
        assert!(usage.is_for(&Value::Null) && !usage.is_for(&Value::Bool(true)));
    }
}
