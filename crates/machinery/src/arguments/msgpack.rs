//! Messagepack values printed the way Go's `%v` prints what they decode to.

use std::cmp::Ordering;
use std::io::Cursor;

use rmp_serde::Deserializer;
use rmp_serde::decode::Error as ReadError;
use rmpv::Value;
use serde::Deserialize as _;

/// Why bytes are not one messagepack value.
///
/// Users see these messages, so where upstream's library (`shamaton/msgpack`) has words for a problem they are used.
///
/// ```
/// use aileron_machinery::arguments::{MsgpackError, msgpack_to_json};
///
/// assert!(matches!(msgpack_to_json(&[]), Err(MsgpackError::NoData)));
/// assert_eq!(msgpack_to_json(&[0x92, 1]).unwrap_err().to_string(), "too short bytes");
/// ```
#[derive(Debug, thiserror::Error)]
pub enum MsgpackError {
    /// There are no bytes.
    #[error("no data")]
    NoData,
    /// The value goes on past the end.
    #[error("too short bytes")]
    TooShort,
    /// Bytes follow the value.
    #[error("data has left over size={size}, last={last}")]
    LeftOver {
        /// The number of bytes.
        size: usize,
        /// The number of bytes that the value takes.
        last: u64,
    },
    /// The type byte is reserved, or the value is an extension.
    #[error("invalid code {0:x} decoding as interface")]
    Code(u8),
    /// Lists in lists in lists.
    #[error("values are nested too deeply")]
    Depth,
    /// Another problem that the library reports.
    #[error("the value cannot be read")]
    Unreadable(#[source] ReadError),
}

/// The deepest nesting of lists and maps that is read. It bounds the stack that one value can use; arguments of commands
/// are never nested like this.
const MAX_DEPTH: usize = 64;

/// The exponent from which Go's shortest form of a float is scientific.
const SCIENTIFIC_FROM: i32 = 6;

/// The text of the one value in `bytes`.
pub(super) fn print(bytes: &[u8]) -> Result<String, MsgpackError> {
    read(bytes).map(|value| print_value(&value))
}

/// The one value in `bytes` as JSON: bytes become a list of numbers, keys of maps become texts, and a float that JSON
/// cannot hold becomes null.
///
/// ```
/// use aileron_machinery::arguments::msgpack_to_json;
/// use aileron_machinery::serde_json::json;
///
/// assert_eq!(msgpack_to_json(&[0x82, 0xa1, b'x', 0x01, 0xa1, b'y', 0xc3])?, json!({"x": 1, "y": true}));
/// # Ok::<(), aileron_machinery::arguments::MsgpackError>(())
/// ```
///
/// # Errors
/// When the bytes are not exactly one messagepack value.
pub fn to_json(bytes: &[u8]) -> Result<serde_json::Value, MsgpackError> {
    read(bytes).map(|value| json_value(&value))
}

/// A float as Go prints it: the shortest digits that give it back, in scientific notation from `1e+06` on.
pub(super) fn print_float(float: f64) -> String {
    print_digits(float, &format!("{float:e}"))
}

/// The one value in `bytes`. Text that is not UTF-8 is read as bytes.
///
/// The reader of `rmpv` itself takes the reserved type byte 0xc1 for nil, so the value is read by `rmp-serde`, which
/// refuses that byte.
fn read(bytes: &[u8]) -> Result<Value, MsgpackError> {
    if bytes.is_empty() {
        return Err(MsgpackError::NoData);
    }
    let mut reader = Deserializer::new(Cursor::new(bytes));
    reader.set_max_depth(MAX_DEPTH);
    let value = Value::deserialize(&mut reader)?;
    let last = reader.position();
    if last != bytes.len() as u64 {
        return Err(MsgpackError::LeftOver { size: bytes.len(), last });
    }
    match extension_code(&value) {
        Some(code) => Err(MsgpackError::Code(code)),
        None => Ok(value),
    }
}

impl From<ReadError> for MsgpackError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::InvalidMarkerRead(_) | ReadError::InvalidDataRead(_) => Self::TooShort,
            ReadError::TypeMismatch(marker) => Self::Code(marker.to_u8()),
            ReadError::DepthLimitExceeded => Self::Depth,
            other => Self::Unreadable(other),
        }
    }
}

/// The type byte of the first extension in the value, if it has one. Extensions have no text.
fn extension_code(value: &Value) -> Option<u8> {
    match value {
        Value::Ext(_, data) => Some(match data.len() {
            1 => 0xd4,
            2 => 0xd5,
            4 => 0xd6,
            8 => 0xd7,
            16 => 0xd8,
            0..=0xff => 0xc7,
            0x100..=0xffff => 0xc8,
            _ => 0xc9,
        }),
        Value::Array(items) => items.iter().find_map(extension_code),
        Value::Map(entries) => {
            entries.iter().find_map(|(key, value)| extension_code(key).or_else(|| extension_code(value)))
        }
        _ => None,
    }
}

fn print_value(value: &Value) -> String {
    match value {
        Value::Nil | Value::Ext(..) => "<nil>".to_owned(),
        Value::Boolean(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::F32(value) => print_digits((*value).into(), &format!("{value:e}")),
        Value::F64(value) => print_float(*value),
        Value::String(text) => text.as_str().unwrap_or_default().to_owned(),
        Value::Binary(bytes) => bracketed("[", bytes.iter().map(ToString::to_string)),
        Value::Array(items) => bracketed("[", items.iter().map(print_value)),
        Value::Map(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by(|(left, _), (right, _)| compare_keys(left, right));
            let entries =
                entries.into_iter().map(|(key, value)| format!("{}:{}", print_value(key), print_value(value)));
            bracketed("map[", entries)
        }
    }
}

fn json_value(value: &Value) -> serde_json::Value {
    match value {
        Value::Nil | Value::Ext(..) => serde_json::Value::Null,
        Value::Boolean(value) => (*value).into(),
        Value::Integer(value) => match value.as_u64() {
            Some(value) => value.into(),
            None => value.as_i64().into(),
        },
        Value::F32(value) => f64::from(*value).into(),
        Value::F64(value) => (*value).into(),
        Value::String(text) => text.as_str().into(),
        Value::Binary(bytes) => bytes.iter().copied().collect(),
        Value::Array(items) => items.iter().map(json_value).collect(),
        Value::Map(entries) => serde_json::Value::Object(
            entries.iter().map(|(key, value)| (print_value(key), json_value(value))).collect(),
        ),
    }
}

/// The order Go prints keys of a map in; across kinds any fixed order will do.
fn compare_keys(left: &Value, right: &Value) -> Ordering {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => print_value(left).cmp(&print_value(right)),
    }
}

fn integer(value: &Value) -> Option<i128> {
    value.as_u64().map(i128::from).or_else(|| value.as_i64().map(i128::from))
}

fn bracketed(open: &str, items: impl Iterator<Item = String>) -> String {
    format!("{open}{}]", items.collect::<Vec<_>>().join(" "))
}

fn print_digits(float: f64, scientific: &str) -> String {
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let (digits, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..SCIENTIFIC_FROM).contains(&exponent) {
        return fixed(digits, exponent);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// `digits * 10^exponent` without an exponent.
fn fixed(digits: &str, exponent: i32) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let digits: String = digits.chars().filter(|c| *c != '.').collect();
    if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = exponent.unsigned_abs() as usize + 1;
    if digits.len() <= whole {
        return format!("{sign}{digits:0<whole$}");
    }
    format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
}
