//! JSON into a dynamic message.
//!
//! prost-reflect can read JSON too, but it drops unknown enum names without a word, rejects an enum number written
//! as a double, and never says which field was wrong.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use prost::bytes::Bytes;
use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value as Reflected,
};
use serde_json::Value;

use crate::error::{JsonError, shortened};
use crate::number;
use crate::path::Path;
use crate::structs::json_to_struct_at;

/// Reads one message; a null is the empty message, as in Go's `jsonpb`.
pub(super) fn message(
    descriptor: &MessageDescriptor,
    value: &Value,
    path: &Path<'_>,
) -> Result<DynamicMessage, JsonError> {
    if let Some(well_known) = descriptor.full_name().strip_prefix("google.protobuf.") {
        return well_known_message(descriptor, well_known, value, path);
    }
    let mut read = DynamicMessage::new(descriptor.clone());
    let members = match value {
        Value::Null => return Ok(read),
        Value::Object(members) => members,
        other => return Err(JsonError::mismatch(path, "an object", other)),
    };
    for field in descriptor.fields() {
        // Both names may be present; Go lets the camel case one win.
        let named = members.get_key_value(field.json_name()).or_else(|| members.get_key_value(field.name()));
        let Some((name, value)) = named.filter(|(_, value)| !is_absent(&field, value)) else { continue };
        let path = path.key(name);
        if let Some(oneof) = field.containing_oneof()
            && oneof.fields().any(|other| read.has_field(&other))
        {
            return Err(JsonError::SecondOfOneof { path: path.to_string(), oneof: oneof.name().to_owned() });
        }
        read.set_field(&field, field_value(&field, value, &path)?);
    }
    Ok(read)
}

/// A null leaves a field unset, unless its type can hold a null.
fn is_absent(field: &FieldDescriptor, value: &Value) -> bool {
    let holds_null = matches!(field.kind(), Kind::Message(it) if it.full_name() == "google.protobuf.Value");
    value.is_null() && (!holds_null || field.is_list())
}

fn field_value(field: &FieldDescriptor, value: &Value, path: &Path<'_>) -> Result<Reflected, JsonError> {
    let kind = field.kind();
    if field.is_list() {
        let Value::Array(items) = value else { return Err(JsonError::mismatch(path, "a list", value)) };
        let read = items.iter().enumerate().map(|(index, item)| single(&kind, item, &path.index(index)));
        return Ok(Reflected::List(read.collect::<Result<_, _>>()?));
    }
    if let (true, Kind::Message(entry)) = (field.is_map(), &kind) {
        let Value::Object(members) = value else { return Err(JsonError::mismatch(path, "an object", value)) };
        let (key_kind, value_kind) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
        let read = members.iter().map(|(key, item)| {
            let path = path.key(key);
            Ok((map_key(&key_kind, key, &path)?, single(&value_kind, item, &path)?))
        });
        return Ok(Reflected::Map(read.collect::<Result<_, JsonError>>()?));
    }
    single(&kind, value, path)
}

fn single(kind: &Kind, value: &Value, path: &Path<'_>) -> Result<Reflected, JsonError> {
    if let Kind::Message(descriptor) = kind {
        return message(descriptor, value, path).map(Reflected::Message);
    }
    // Only elements of lists and maps get here as null; Go leaves them at their zero value.
    if value.is_null() {
        return Ok(Reflected::default_value(kind));
    }
    let wrong = |expected: &str| JsonError::mismatch(path, expected, value);
    match kind {
        Kind::Bool => value.as_bool().map(Reflected::Bool).ok_or_else(|| wrong("true or false")),
        Kind::String => value.as_str().map(|it| Reflected::String(it.to_owned())).ok_or_else(|| wrong("a text")),
        Kind::Double => number::double(value).map(Reflected::F64).ok_or_else(|| wrong("a number")),
        Kind::Float => number::double(value).map(|it| Reflected::F32(it as f32)).ok_or_else(|| wrong("a number")),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            fitting(value).map(Reflected::I32).ok_or_else(|| wrong("a whole number of 32 bits"))
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            fitting(value).map(Reflected::I64).ok_or_else(|| wrong("a whole number of 64 bits"))
        }
        Kind::Uint32 | Kind::Fixed32 => {
            fitting(value).map(Reflected::U32).ok_or_else(|| wrong("a whole number of 32 bits, not negative"))
        }
        Kind::Uint64 | Kind::Fixed64 => {
            fitting(value).map(Reflected::U64).ok_or_else(|| wrong("a whole number of 64 bits, not negative"))
        }
        Kind::Enum(descriptor) => enum_number(descriptor, value, path).map(Reflected::EnumNumber),
        Kind::Bytes => bytes(value).map(Reflected::Bytes).ok_or_else(|| wrong("base64")),
        Kind::Message(_) => Err(wrong("an object")),
    }
}

fn fitting<T: TryFrom<i128>>(value: &Value) -> Option<T> {
    number::integer(value).and_then(|integer| T::try_from(integer).ok())
}

/// Numbers outside the declared ones are kept: a newer kit may know more than we do.
fn enum_number(descriptor: &EnumDescriptor, value: &Value, path: &Path<'_>) -> Result<i32, JsonError> {
    let by_name = value.as_str().and_then(|name| descriptor.get_value_by_name(name));
    by_name.map(|it| it.number()).or_else(|| fitting(value)).ok_or_else(|| JsonError::UnknownEnumValue {
        path: path.to_string(),
        value: shortened(value),
        enumeration: descriptor.full_name().to_owned(),
        known: descriptor.values().map(|it| it.name().to_owned()).collect::<Vec<_>>().join(", "),
    })
}

fn map_key(kind: &Kind, key: &str, path: &Path<'_>) -> Result<MapKey, JsonError> {
    let read = match kind {
        Kind::String => Some(MapKey::String(key.to_owned())),
        Kind::Bool => key.parse().ok().map(MapKey::Bool),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => key.parse().ok().map(MapKey::I32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => key.parse().ok().map(MapKey::I64),
        Kind::Uint32 | Kind::Fixed32 => key.parse().ok().map(MapKey::U32),
        Kind::Uint64 | Kind::Fixed64 => key.parse().ok().map(MapKey::U64),
        _ => None,
    };
    read.ok_or_else(|| JsonError::Mismatch {
        path: path.to_string(),
        expected: format!("a key of type {kind:?}"),
        found: key.to_owned(),
    })
}

fn well_known_message(
    descriptor: &MessageDescriptor,
    name: &str,
    value: &Value,
    path: &Path<'_>,
) -> Result<DynamicMessage, JsonError> {
    let mut read = DynamicMessage::new(descriptor.clone());
    if value.is_null() && name != "Value" {
        return Ok(read);
    }
    // Wrappers are written as the bare value they hold.
    if let Some(inner) = descriptor.get_field_by_name("value").filter(|_| name != "Any") {
        read.set_field(&inner, single(&inner.kind(), value, path)?);
        return Ok(read);
    }
    if name == "Struct" {
        read.transcode_from(&json_to_struct_at(value, path)?)
            .map_err(|source| JsonError::Transcode { message: descriptor.full_name().to_owned(), source })?;
        return Ok(read);
    }
    DynamicMessage::deserialize(descriptor.clone(), value).map_err(|error| JsonError::Mismatch {
        path: path.to_string(),
        expected: format!("the JSON form of {}", descriptor.full_name()),
        found: format!("{} ({error})", shortened(value)),
    })
}

/// Protobuf allows both base64 alphabets, with and without padding.
fn bytes(value: &Value) -> Option<Bytes> {
    let text = value.as_str()?.trim_end_matches('=').replace('-', "+").replace('_', "/");
    BASE64_STANDARD_NO_PAD.decode(text).ok().map(Bytes::from)
}
