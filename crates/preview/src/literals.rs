//! Values of inputs and outputs, between what people write and Flyte's literals.

mod read;
mod types;

use aileron_idl::flyteidl2::core::{Literal, LiteralMap, Primitive, Scalar, literal, primitive, scalar};
use aileron_idl::flyteidl2::core::{TypedInterface, VariableMap};
use aileron_idl::struct_to_json;
use aileron_kubekit::duration::GoDuration;
use aileron_machinery::arguments::msgpack_to_json;
use jiff::Timestamp;
use serde_json::{Map, Value};

pub use read::{ValueError, from_json, from_text};
pub use types::{TypeError, parse_type, type_name};

/// The encoding of the SDK's structured values.
const MSGPACK: &str = "msgpack";

/// A name and its type, as an interface declares it.
pub type Declared<'a> = (&'a str, &'a aileron_idl::flyteidl2::core::LiteralType);

/// The inputs that an interface declares.
pub fn declared_inputs(interface: Option<&TypedInterface>) -> Vec<Declared<'_>> {
    declared(interface.and_then(|interface| interface.inputs.as_ref()))
}

/// The outputs that an interface declares.
pub fn declared_outputs(interface: Option<&TypedInterface>) -> Vec<Declared<'_>> {
    declared(interface.and_then(|interface| interface.outputs.as_ref()))
}

fn declared(variables: Option<&VariableMap>) -> Vec<Declared<'_>> {
    let entries = variables.map_or(&[][..], |variables| &variables.variables);
    entries.iter().filter_map(|entry| Some((entry.key.as_str(), entry.value.as_ref()?.r#type.as_ref()?))).collect()
}

/// All values of a map as one JSON object, in the order of their names.
pub fn map_to_json(literals: &LiteralMap) -> Value {
    Value::Object(literals.literals.iter().map(|(name, literal)| (name.clone(), to_json(literal))).collect())
}

/// A literal as plain JSON: numbers, texts, lists and objects as they are, times and durations as texts, files by their
/// location. It is for people: the type cannot be told from it.
pub fn to_json(literal: &Literal) -> Value {
    match &literal.value {
        Some(literal::Value::Scalar(scalar)) => scalar_to_json(scalar),
        Some(literal::Value::Collection(collection)) => collection.literals.iter().map(to_json).collect(),
        Some(literal::Value::Map(map)) => map_to_json(map),
        Some(literal::Value::OffloadedMetadata(elsewhere)) => elsewhere.uri.as_str().into(),
        None => Value::Null,
    }
}

fn scalar_to_json(scalar: &Scalar) -> Value {
    use scalar::Value as Kind;
    match &scalar.value {
        Some(Kind::Primitive(primitive)) => primitive_to_json(primitive),
        Some(Kind::Blob(blob)) => blob.uri.as_str().into(),
        Some(Kind::Schema(schema)) => schema.uri.as_str().into(),
        Some(Kind::StructuredDataset(dataset)) => dataset.uri.as_str().into(),
        Some(Kind::Generic(fields)) => struct_to_json(fields).unwrap_or(Value::Null),
        Some(Kind::Binary(binary)) => {
            let read = (binary.tag == MSGPACK).then(|| msgpack_to_json(&binary.value).ok()).flatten();
            // Bytes nobody can read are at least told apart from a value.
            read.unwrap_or_else(|| {
                let mut object = Map::new();
                object.insert("tag".into(), binary.tag.as_str().into());
                object.insert("bytes".into(), binary.value.len().into());
                Value::Object(object)
            })
        }
        Some(Kind::Union(union)) => union.value.as_deref().map_or(Value::Null, to_json),
        Some(Kind::Error(error)) => error.message.as_str().into(),
        Some(Kind::NoneType(_)) | None => Value::Null,
    }
}

fn primitive_to_json(primitive: &Primitive) -> Value {
    use primitive::Value as Kind;
    match &primitive.value {
        Some(Kind::Integer(number)) => (*number).into(),
        Some(Kind::FloatValue(number)) => (*number).into(),
        Some(Kind::StringValue(text)) => text.as_str().into(),
        Some(Kind::Boolean(flag)) => (*flag).into(),
        Some(Kind::Datetime(time)) => {
            Timestamp::new(time.seconds, time.nanos).map_or(Value::Null, |time| time.to_string().into())
        }
        Some(Kind::Duration(span)) => {
            let nanos = i128::from(span.seconds) * 1_000_000_000 + i128::from(span.nanos);
            i64::try_from(nanos).map_or(Value::Null, |nanos| GoDuration(nanos).to_string().into())
        }
        None => Value::Null,
    }
}

#[cfg(test)]
mod tests;
