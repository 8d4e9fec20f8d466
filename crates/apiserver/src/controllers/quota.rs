//! The quota controller: counts what the objects of a namespace use.

use serde_json::Value;

use crate::admission::quota::{concerns, in_scope, update_status, usage};
use crate::kinds::{Kind, definition};
use crate::object::amounts::{self, Amounts};
use crate::object::{Key, set};
use crate::state::ServerState;
use crate::store::Transaction;
use crate::store::quota_usage::QuotaUsage;

/// Updates the usage in the status of the quotas of a namespace after an object was written or removed.
pub(super) fn recount(state: &ServerState, transaction: &mut Transaction<'_>, written: &Kind, key: &Key) {
    if written.is(definition::RESOURCE) {
        // All objects of the defined kind may have been removed together with the definition.
        transaction.quota_usage().forget_all();
    }
    if key.namespace.is_empty() {
        return;
    }
    let quotas = transaction.list("resourcequotas", &key.namespace);
    if written.is("resourcequotas") {
        transaction.quota_usage().retain(&key.namespace, |name| quotas.iter().any(|quota| quota.key.name == name));
    }
    if quotas.is_empty() {
        return;
    }
    let object = transaction.get(&written.resource, key).map(|stored| stored.body());
    for stored in quotas {
        let quota = stored.body();
        let hard = amounts::read(&quota["spec"]["hard"]);
        if !written.is("resourcequotas") && !hard.keys().any(|name| concerns(written, name)) {
            continue;
        }
        let share = |kind: &Kind, object: &Value| {
            let mut share = if in_scope(kind, object, &quota["spec"]) { usage(kind, object) } else { Amounts::new() };
            share.retain(|name, _| hard.contains_key(name));
            share
        };
        // A count is valid only for the quota spec that it was made for.
        let known = transaction.quota_usage().of(&stored.key).filter(|count| count.is_for(&quota["spec"]));
        let used = if let Some(count) = known {
            let share = object.as_ref().map(|object| share(written, object)).unwrap_or_default();
            count.put(&written.resource, key, share);
            count.total().clone()
        } else {
            let count = count_all(state, transaction, &key.namespace, &quota["spec"], &hard, share);
            let used = count.total().clone();
            transaction.quota_usage().insert(stored.key.clone(), count);
            used
        };
        update_status(state, transaction, &stored.key, |status| {
            set(status, "hard", amounts::write(&hard));
            set(status, "used", amounts::write(&used));
        });
    }
}

/// Counts all existing objects of a namespace.
fn count_all(
    state: &ServerState,
    transaction: &Transaction<'_>,
    namespace: &str,
    spec: &Value,
    hard: &Amounts,
    share: impl Fn(&Kind, &Value) -> Amounts,
) -> QuotaUsage {
    let mut count = QuotaUsage::new(spec.clone(), hard.keys());
    for kind in state.registry.all() {
        if !kind.namespaced || kind.group == "events.k8s.io" || !hard.keys().any(|name| concerns(&kind, name)) {
            continue;
        }
        for stored in transaction.list(&kind.resource, namespace) {
            count.put(&kind.resource, &stored.key, share(&kind, &stored.body()));
        }
    }
    count
}
