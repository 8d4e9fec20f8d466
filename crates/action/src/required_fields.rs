//! The fields of a `TaskAction` that every task needs.

use crate::{Action, Template};

/// Fields that every task needs and this one does not have.
pub fn missing_fields(action: &Action) -> Vec<&'static str> {
    let spec = &action.object.spec;
    let required = [
        ("runName", spec.run_name.is_empty()),
        ("project", spec.project.is_empty()),
        ("domain", spec.domain.is_empty()),
        ("actionName", spec.action_name.is_empty()),
        ("taskType", spec.task_type.is_empty()),
        ("taskTemplate", matches!(action.template, Template::Absent)),
        ("inputUri", spec.input_uri.is_empty()),
        ("runOutputBase", spec.run_output_base.is_empty()),
    ];
    required.into_iter().filter_map(|(name, empty)| empty.then_some(name)).collect()
}
