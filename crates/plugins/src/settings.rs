//! Settings of a task that only its plugin understands.

use aileron_idl::flyteidl2::core::TaskTemplate;
use aileron_idl::message_from_struct;
use aileron_machinery::{PluginError, code};
use prost::{Message, Name};

/// Reads `custom` of a template as the plugin's message. A task that has none, or one that does not fit, cannot work.
///
/// Mirrors `utils.UnmarshalStruct` and what its callers make of an error.
pub(crate) fn settings<M: Message + Name + Default>(template: &TaskTemplate) -> Result<M, PluginError> {
    let Some(custom) = &template.custom else {
        return Err(PluginError::bad_task_specification(format!(
            "invalid TaskSpecification, custom is absent where {} is expected",
            M::NAME
        )));
    };
    message_from_struct(custom).map_err(|error| {
        let message = format!("invalid TaskSpecification, custom is not a readable {}", M::NAME);
        PluginError::caused_by(code::BAD_TASK_SPECIFICATION, message, error)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use aileron_idl::flyteidl2::plugins::DaskJob;
    use aileron_idl::json_to_struct;
    use serde_json::{Value, json};

    use super::*;

    fn read(custom: Option<Value>) -> Result<DaskJob, PluginError> {
        let custom = custom.map(|custom| json_to_struct(&custom).unwrap());
        settings(&TaskTemplate { custom, ..TaskTemplate::default() })
    }

    #[test]
    fn settings_that_do_not_fit_are_the_tasks_fault() {
        assert_eq!(
            read(Some(json!({"workers": {"numberOfWorkers": 2}}))).unwrap().workers.unwrap().number_of_workers,
            2
        );
        let absent = read(None).unwrap_err();
        assert_eq!(absent.non_retryable_code(), Some("BadTaskSpecification"));
        let unfit = read(Some(json!({"workers": 1}))).unwrap_err();
        assert_eq!(unfit.non_retryable_code(), Some("BadTaskSpecification"));
        assert!(unfit.to_string().contains("DaskJob.workers"), "{unfit}");
    }
}
