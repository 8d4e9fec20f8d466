//! What processes keep in memory.

use super::Facts;

pub(super) fn nothing_left(facts: &Facts<'_>) -> Vec<String> {
    let processes = facts.evidence.memory.iter();
    let entries = processes.flat_map(|(process, entries)| entries.iter().map(move |entry| (process, entry)));
    let left = entries.filter(|(_, (_, count))| **count > 0);
    left.map(|(process, (structure, count))| format!("{process} keeps {count} entries of {structure}")).collect()
}
