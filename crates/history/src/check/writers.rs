//! Who writes.

use super::Facts;
use crate::history::What;

pub(super) fn one(facts: &Facts<'_>) -> Vec<String> {
    let without_lease = facts.entries.iter().filter(|entry| matches!(&entry.what, What::Sent { leads: false, .. }));
    without_lease.map(ToString::to_string).collect()
}

pub(super) fn events(facts: &Facts<'_>) -> Vec<String> {
    let without_lease = facts.entries.iter().filter(|entry| matches!(&entry.what, What::Event { leads: false, .. }));
    without_lease.map(ToString::to_string).collect()
}
