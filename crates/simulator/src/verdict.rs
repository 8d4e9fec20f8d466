//! Turns a simulated run into what the rules of `aileron-history` are about.

use aileron_history::plan::PlannedTask;

pub use aileron_history::check::{Evidence, Violation, all, has_ended};

use crate::workload::Planned;

/// The task as the rules see it.
#[must_use]
pub fn planned(planned: &Planned) -> PlannedTask {
    PlannedTask {
        namespace: planned.namespace.to_owned(),
        name: planned.task.name.clone(),
        task_type: planned.task.task_type.clone(),
        is_cached: planned.task.template.metadata.as_ref().is_some_and(|metadata| metadata.discoverable),
        expected: planned.expected,
    }
}
