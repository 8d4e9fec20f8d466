//! Literals as the text of an argument.

use aileron_idl::flyteidl2::core::{Literal, Primitive, Scalar, literal, primitive, scalar};
use jiff::Timestamp;

use super::msgpack;

/// Why a literal has no text. The names of types are Flyte's Go names: they are in messages users know.
#[derive(Debug, thiserror::Error)]
pub(super) enum LiteralError {
    /// Not a scalar or a list of them.
    #[error("received an unexpected primitive type [{0}]")]
    Kind(&'static str),
    /// A scalar without text, such as nothing.
    #[error("received an unexpected scalar type [{0}]")]
    Scalar(&'static str),
    /// Bytes in an encoding nobody knows.
    #[error("unsupported binary tag [{0}]")]
    BinaryTag(String),
    /// Bytes that are not the messagepack they claim to be.
    #[error("failed to unmarshal messagepack bytes with literal:[{literal}], err:[{source}]")]
    Msgpack {
        /// The scalar in protobuf's text format.
        literal: String,
        /// What is wrong with the bytes.
        source: msgpack::MsgpackError,
    },
    /// A point in time before year 1 or past 9999.
    #[error("timestamp is out of range")]
    Timestamp(#[source] jiff::Error),
}

/// The tag of binaries in messagepack.
const MSGPACK: &str = "msgpack";

/// How many bytes of a value an error message shows. Messages become part of the status of an action, which must stay
/// far below the 1.5 MiB that etcd stores for one object.
const SHOWN_BYTES: usize = 1024;

pub(super) fn print(literal: &Literal) -> Result<String, LiteralError> {
    match &literal.value {
        Some(literal::Value::Scalar(scalar)) => print_scalar(scalar),
        Some(literal::Value::Collection(collection)) => {
            let items = collection.literals.iter().map(print).collect::<Result<Vec<_>, _>>()?;
            Ok(format!("[{}]", items.join(",")))
        }
        Some(literal::Value::Map(_)) => Err(LiteralError::Kind("*core.Literal_Map")),
        Some(literal::Value::OffloadedMetadata(_)) => Err(LiteralError::Kind("*core.Literal_OffloadedMetadata")),
        None => Err(LiteralError::Kind("<nil>")),
    }
}

fn print_scalar(scalar: &Scalar) -> Result<String, LiteralError> {
    use scalar::Value;
    let unexpected = |name| Err(LiteralError::Scalar(name));
    match &scalar.value {
        Some(Value::Primitive(primitive)) => print_primitive(primitive),
        Some(Value::Blob(blob)) => Ok(blob.uri.clone()),
        Some(Value::Schema(schema)) => Ok(schema.uri.clone()),
        Some(Value::Binary(binary)) if binary.tag == MSGPACK => msgpack::print(&binary.value)
            .map_err(|source| LiteralError::Msgpack { literal: binary_text(&binary.value, &binary.tag), source }),
        Some(Value::Binary(binary)) => Err(LiteralError::BinaryTag(binary.tag.clone())),
        Some(Value::NoneType(_)) => unexpected("*core.Scalar_NoneType"),
        Some(Value::Error(_)) => unexpected("*core.Scalar_Error"),
        Some(Value::Generic(_)) => unexpected("*core.Scalar_Generic"),
        Some(Value::StructuredDataset(_)) => unexpected("*core.Scalar_StructuredDataset"),
        Some(Value::Union(_)) => unexpected("*core.Scalar_Union"),
        None => unexpected("<nil>"),
    }
}

fn print_primitive(primitive: &Primitive) -> Result<String, LiteralError> {
    use primitive::Value;
    match &primitive.value {
        Some(Value::Integer(integer)) => Ok(integer.to_string()),
        Some(Value::Boolean(boolean)) => Ok(boolean.to_string()),
        Some(Value::FloatValue(float)) => Ok(msgpack::print_float(*float)),
        Some(Value::StringValue(text)) => Ok(text.clone()),
        Some(Value::Datetime(time)) => {
            Timestamp::new(time.seconds, time.nanos).map(|time| time.to_string()).map_err(LiteralError::Timestamp)
        }
        Some(Value::Duration(duration)) => Ok(print_duration(duration.seconds, duration.nanos)),
        None => Err(LiteralError::Kind("<nil>")),
    }
}

/// A duration in protobuf's text format, which is what Go prints for the message.
fn print_duration(seconds: i64, nanos: i32) -> String {
    let seconds = (seconds != 0).then(|| format!("seconds:{seconds}"));
    let nanos = (nanos != 0).then(|| format!("nanos:{nanos}"));
    seconds.into_iter().chain(nanos).collect::<Vec<_>>().join(" ")
}

/// A scalar of bytes in protobuf's text format, which is what Go prints for the message.
///
/// # Differs from upstream
/// Only the first kilobyte of the bytes is shown; upstream puts a value of any size into the message.
fn binary_text(value: &[u8], tag: &str) -> String {
    let shown = &value[..value.len().min(SHOWN_BYTES)];
    let cut = if shown.len() < value.len() { "..." } else { "" };
    let value = if value.is_empty() { String::new() } else { format!("value:{}{cut} ", quoted(shown)) };
    format!("binary:{{{value}tag:{}}}", quoted(tag.as_bytes()))
}

/// Bytes as protobuf's text format quotes them: text stays, control characters and bytes that are no text are escaped.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => text.extend(['\\', c]),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\0'..' ' | '\x7f' => text.push_str(&format!("\\x{:02x}", u32::from(c))),
                '\u{80}'..='\u{9f}' => text.push_str(&format!("\\u{:04x}", u32::from(c))),
                _ => text.push(c),
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text.push('"');
    text
}
