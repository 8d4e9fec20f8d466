//! `custom` of a task template: settings of a task that only its plugin understands.
//!
//! | the settings are | read them with |
//! | --- | --- |
//! | a type of the plugin with serde | [`custom_as`] |
//! | a protobuf message of the plugin | [`CustomMessage`] |
//! | one of Flyte's messages | [`settings`] |

use std::marker::PhantomData;
use std::sync::OnceLock;

use aileron_idl::flyteidl2::core::TaskTemplate;
use aileron_idl::{JsonError, Messages, message_from_struct, struct_to_json};
use prost::{Message, Name};
use prost_types::Struct;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{PluginError, TaskContext, code};

/// A protobuf message of the plugin's own in `custom`.
///
/// The descriptor set is what `prost-build` or `protox` write beside the types, imports included. It is decoded when
/// the first task is read.
///
/// ```
/// use aileron_machinery::CustomMessage;
/// use aileron_machinery::idl::flyteidl2::core::SharedMemory;
/// use aileron_machinery::testing::task;
/// # use aileron_machinery::serde_json::Value;
/// # const DESCRIPTOR_SET: &[u8] = &[];
///
/// // `SharedMemory` stands for a message of the plugin, and `DESCRIPTOR_SET` for what its build script has written:
/// // `include_bytes!(concat!(env!("OUT_DIR"), "/descriptor_set.bin"))`.
/// static SETTINGS: CustomMessage<SharedMemory> = CustomMessage::new(DESCRIPTOR_SET);
///
/// let error = SETTINGS.read(&task("kettle", &Value::Null)).unwrap_err();
/// assert_eq!(error.code(), "BadTaskSpecification", "this task has no settings");
/// ```
pub struct CustomMessage<M> {
    descriptor_set: &'static [u8],
    messages: OnceLock<Result<Messages, String>>,
    message: PhantomData<fn() -> M>,
}

impl<M> CustomMessage<M> {
    /// The message of this descriptor set.
    pub const fn new(descriptor_set: &'static [u8]) -> Self {
        Self { descriptor_set, messages: OnceLock::new(), message: PhantomData }
    }
}

impl<M: Message + Name + Default> CustomMessage<M> {
    /// Reads `custom` of the task. A task that has none, or one that does not fit, cannot work.
    ///
    /// # Errors
    /// `BadTaskSpecification`, naming the field whose value does not fit.
    pub fn read(&self, task: &TaskContext) -> Result<M, PluginError> {
        let custom = present(&task.template, M::NAME)?;
        let decode = || Messages::decode(self.descriptor_set).map_err(|error| error.to_string());
        match self.messages.get_or_init(decode) {
            Ok(messages) => messages.message_from_struct(custom).map_err(|error| misfit(M::NAME, error)),
            Err(error) => Err(PluginError::uncoded(format!("the descriptor set of {} is unusable: {error}", M::NAME))),
        }
    }
}

/// Reads `custom` of the task as a type of the plugin. An absent `custom` reads as an empty object, so a type whose
/// fields all have defaults accepts it.
///
/// ```
/// use aileron_machinery::custom_as;
/// use aileron_machinery::testing::task;
/// # use aileron_machinery::serde_json::json;
///
/// #[derive(serde::Deserialize)]
/// struct Settings {
///     litres: u32,
/// }
/// let settings: Settings = custom_as(&task("kettle", &json!({"litres": 2})))?;
/// assert_eq!(settings.litres, 2);
///
/// let error = custom_as::<Settings>(&task("kettle", &json!({"litres": "two"}))).map(drop).unwrap_err();
/// assert!(error.to_string().starts_with("[BadTaskSpecification] custom.litres: invalid type"));
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
///
/// # Errors
/// `BadTaskSpecification`, naming the field that is missing or does not fit.
pub fn custom_as<T: DeserializeOwned>(task: &TaskContext) -> Result<T, PluginError> {
    let custom = task.template.custom.as_ref().map(struct_to_json).transpose();
    let custom = custom.map_err(|error| misfit("custom", error))?.unwrap_or_else(|| Value::Object(Default::default()));
    serde_path_to_error::deserialize(custom).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "custom".to_owned() } else { format!("custom.{path}") };
        PluginError::bad_task_specification(format!("{field}: {}", error.into_inner()))
    })
}

/// Reads `custom` of a template as one of Flyte's messages. A task that has none, or one that does not fit, cannot work.
///
/// Mirrors `utils.UnmarshalStruct` and what its callers make of an error.
///
/// ```
/// use aileron_machinery::idl::flyteidl2::core::SharedMemory;
/// use aileron_machinery::{settings, testing::task};
/// # use aileron_machinery::serde_json::json;
///
/// let task = task("kettle", &json!({"mountPath": "/dev/shm", "sizeLimit": "1Gi"}));
/// let memory: SharedMemory = settings(&task.template)?;
/// assert_eq!(memory.size_limit, "1Gi");
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
///
/// # Errors
/// `BadTaskSpecification`, naming the field whose value does not fit.
pub fn settings<M: Message + Name + Default>(template: &TaskTemplate) -> Result<M, PluginError> {
    message_from_struct(present(template, M::NAME)?).map_err(|error| misfit(M::NAME, error))
}

fn present<'a>(template: &'a TaskTemplate, name: &str) -> Result<&'a Struct, PluginError> {
    template.custom.as_ref().ok_or_else(|| {
        PluginError::bad_task_specification(format!(
            "invalid TaskSpecification, custom is absent where {name} is expected"
        ))
    })
}

fn misfit(name: &str, error: JsonError) -> PluginError {
    let message = format!("invalid TaskSpecification, custom is not a readable {name}");
    PluginError::caused_by(code::BAD_TASK_SPECIFICATION, message, error)
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

    #[derive(Debug, serde::Deserialize)]
    struct Oven {
        degrees: u32,
        #[serde(default)]
        racks: Vec<Rack>,
    }

    #[derive(Debug, serde::Deserialize)]
    struct Rack {
        height: u8,
    }

    #[test]
    fn settings_of_a_serde_type_name_the_field_that_does_not_fit() {
        let read = |custom: Value| custom_as::<Oven>(&crate::testing::task("oven", &custom));
        let oven = read(json!({"degrees": 200, "racks": [{"height": 2}]})).unwrap();
        assert_eq!((oven.degrees, oven.racks[0].height), (200, 2));
        let error = read(json!({"degrees": 200, "racks": [{"height": "two"}]})).unwrap_err();
        assert_eq!(error.non_retryable_code(), Some("BadTaskSpecification"));
        assert!(error.to_string().contains("custom.racks[0].height: invalid type: string"), "{error}");
        let error = read(json!({})).unwrap_err().to_string();
        assert!(error.contains("custom: missing field `degrees`"), "{error}");
    }

    /// `message Oven { uint32 degrees = 1; }` of package `kitchen`.
    #[derive(Clone, PartialEq, Message)]
    struct ProtoOven {
        #[prost(uint32, tag = "1")]
        degrees: u32,
    }

    impl Name for ProtoOven {
        const NAME: &'static str = "Oven";
        const PACKAGE: &'static str = "kitchen";
    }

    /// The compiled form: file `o`, package `kitchen`, message `Oven` with the field `degrees`, syntax `proto3`.
    const KITCHEN: &[u8] =
        b"\n6\n\x01o\x12\x07kitchen\" \n\x04Oven\x12\x18\n\x07degrees\x18\x01 \x01(\rR\x07degreesb\x06proto3";

    #[test]
    fn settings_in_a_message_of_the_plugin_name_the_field_that_does_not_fit() {
        let oven = CustomMessage::<ProtoOven>::new(KITCHEN);
        let read = |custom: Value| oven.read(&crate::testing::task("oven", &custom));
        assert_eq!(read(json!({"degrees": 180})).unwrap().degrees, 180);
        let error = read(json!({"degrees": -1})).unwrap_err();
        assert_eq!(error.non_retryable_code(), Some("BadTaskSpecification"));
        assert!(error.to_string().contains("Oven.degrees"), "{error}");
        let damaged = CustomMessage::<ProtoOven>::new(b"no descriptor").read(&crate::testing::task("oven", &json!({})));
        assert_eq!(damaged.unwrap_err().non_retryable_code(), None, "not the fault of the task");
    }
}
