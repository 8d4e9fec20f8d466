//! What a task says about its job. There are two generations of it, told apart by the version of the task type.

use aileron_idl::flyteidl2::core::TaskTemplate;
use aileron_idl::message_from_struct;
use aileron_machinery::PluginError;
use prost::{Message, Name};

/// The settings of a task, in the words of their generation.
pub(crate) enum Settings<V0, V1> {
    /// Numbers of replicas, all alike.
    V0(V0),
    /// Replicas that may differ, and policies.
    V1(V1),
}

impl<V0, V1> Settings<V0, V1>
where
    V0: Message + Name + Default,
    V1: Message + Name + Default,
{
    /// Reads `custom` as the message that the version of the task type asks for.
    ///
    /// # Errors
    /// The version is unknown, or `custom` is absent or does not fit.
    pub(crate) fn of(template: &TaskTemplate) -> Result<Self, PluginError> {
        match template.task_type_version {
            0 => custom(template).map(Self::V0),
            1 => custom(template).map(Self::V1),
            version => Err(PluginError::bad_task_specification(format!(
                "Invalid TaskSpecification, unsupported task template version [{version}] key"
            ))),
        }
    }
}

/// A job needs somebody to do the work.
pub(crate) fn require_workers(count: Option<i32>) -> Result<(), PluginError> {
    match count {
        Some(1..) => Ok(()),
        _ => Err(PluginError::uncoded("number of workers must be greater than 0")),
    }
}

fn custom<M: Message + Name + Default>(template: &TaskTemplate) -> Result<M, PluginError> {
    let Some(custom) = &template.custom else {
        // This text is upstream's, and users find it when they search for it.
        return Err(PluginError::bad_task_specification(
            "invalid TaskSpecification [<nil>], Err: [nil Struct Object passed]",
        ));
    };
    message_from_struct(custom).map_err(|error| {
        PluginError::bad_task_specification(format!("invalid TaskSpecification [{}], Err: [{error}]", M::NAME))
    })
}
