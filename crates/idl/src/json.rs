//! Typed messages as JSON and as `google.protobuf.Struct`.
//!
//! Reading accepts what software development kits of several generations send: whole numbers as doubles or texts,
//! enums by name or number, field names in the proto or the camel case form, nulls, and fields we do not know.

mod read;

use prost::{Message, Name};
use prost_reflect::{DynamicMessage, MessageDescriptor, SerializeOptions};
use prost_types::Struct;
use serde_json::Value;

use crate::descriptors::descriptor_of;
use crate::error::JsonError;
use crate::number;
use crate::path::Path;
use crate::structs::{json_to_struct, struct_to_json_at};

/// Which of the two names of a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldNames {
    /// As in the `.proto` file, `worker_group_spec`.
    #[default]
    Proto,
    /// Camel case, `workerGroupSpec`: the canonical protobuf JSON, which Go's `jsonpb.Marshaler{}` writes.
    Camel,
}

/// Reads plugin settings (`TaskTemplate.custom`) as the plugin's message.
///
/// Mirrors `utils.UnmarshalStructToPb`, which is equally generous with names, numbers and unknown fields.
///
/// # Differs from upstream
/// Whole numbers in texts may carry a fraction (`"3.0"`), and an enum may be a number in a text.
///
/// # Errors
/// Names the field whose value does not fit.
pub fn message_from_struct<M: Message + Name + Default>(fields: &Struct) -> Result<M, JsonError> {
    message_from_json(&struct_to_json_at(fields, &Path::Root(M::NAME))?)
}

/// Reads a JSON document as a message; see [`message_from_struct`].
///
/// # Errors
/// Names the field whose value does not fit.
pub fn message_from_json<M: Message + Name + Default>(value: &Value) -> Result<M, JsonError> {
    message_with(&descriptor_of::<M>()?, value)
}

/// Reads a JSON document as a message whose descriptor is at hand.
pub(crate) fn message_with<M: Message + Name + Default>(
    descriptor: &MessageDescriptor,
    value: &Value,
) -> Result<M, JsonError> {
    let dynamic = read::message(descriptor, value, &Path::Root(M::NAME))?;
    dynamic.transcode_to().map_err(|source| JsonError::Transcode { message: M::full_name(), source })
}

/// Writes a message with proto field names; fields that hold their default are left out.
///
/// 64-bit integers are texts, enums are names, whole doubles have no fraction, as protobuf's own JSON has it.
///
/// # Errors
/// When a value has no JSON form: an infinity in a struct, a duration or a time out of range.
pub fn message_to_json<M: Message + Name>(message: &M) -> Result<Value, JsonError> {
    message_to_json_named(message, FieldNames::Proto)
}

/// Writes a message with the chosen field names; see [`message_to_json`].
///
/// # Errors
/// As [`message_to_json`].
pub fn message_to_json_named<M: Message + Name>(message: &M, names: FieldNames) -> Result<Value, JsonError> {
    let mut dynamic = DynamicMessage::new(descriptor_of::<M>()?);
    dynamic.transcode_from(message).map_err(|source| JsonError::Transcode { message: M::full_name(), source })?;
    let options = SerializeOptions::new().use_proto_field_name(names == FieldNames::Proto);
    let mut value = dynamic
        .serialize_with_options(serde_json::value::Serializer, &options)
        .map_err(|source| JsonError::Unwritable { message: M::full_name(), source })?;
    number::drop_empty_fractions(&mut value);
    Ok(value)
}

/// Writes a message as a struct, for example as the `custom_info` of a phase.
///
/// Mirrors `utils.MarshalPbToStruct` when `names` is [`FieldNames::Camel`].
///
/// # Errors
/// As [`message_to_json`].
pub fn message_to_struct<M: Message + Name>(message: &M, names: FieldNames) -> Result<Struct, JsonError> {
    json_to_struct(&message_to_json_named(message, names)?)
}

#[cfg(test)]
mod tests;
