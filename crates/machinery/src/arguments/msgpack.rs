//! Messagepack values printed the way Go's `%v` prints what they decode to.

use std::cmp::Ordering;

/// Why bytes are not one messagepack value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MsgpackError {
    /// The value goes on past the end.
    #[error("the value is cut off")]
    CutOff,
    /// Something follows the value.
    #[error("{0} bytes follow the value")]
    Trailing(usize),
    /// A type byte that is reserved, or an extension.
    #[error("type 0x{0:02x} is not supported")]
    Type(u8),
    /// Text that is not UTF-8.
    #[error("a string is not UTF-8")]
    Text,
    /// Lists in lists in lists.
    #[error("values are nested too deeply")]
    Depth,
}

/// Nobody nests arguments this deep; a stack has to end somewhere.
const MAX_DEPTH: usize = 64;

/// The exponent from which Go's shortest form of a float is scientific.
const SCIENTIFIC_FROM: i32 = 6;

enum Value<'a> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float32(f32),
    Float64(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    List(Vec<Self>),
    Map(Vec<(Self, Self)>),
}

struct Reader<'a> {
    rest: &'a [u8],
}

/// The text of the one value in `bytes`.
pub(super) fn print(bytes: &[u8]) -> Result<String, MsgpackError> {
    let mut reader = Reader { rest: bytes };
    let value = reader.value(0)?;
    match reader.rest.len() {
        0 => Ok(value.print()),
        trailing => Err(MsgpackError::Trailing(trailing)),
    }
}

/// The one value in `bytes` as JSON: bytes become a list of numbers, keys of maps become texts, and a float that JSON
/// cannot hold becomes null.
///
/// # Errors
/// When the bytes are not exactly one messagepack value.
pub fn to_json(bytes: &[u8]) -> Result<serde_json::Value, MsgpackError> {
    let mut reader = Reader { rest: bytes };
    let value = reader.value(0)?;
    match reader.rest.len() {
        0 => Ok(value.to_json()),
        trailing => Err(MsgpackError::Trailing(trailing)),
    }
}

/// A float as Go prints it: the shortest digits that give it back, in scientific notation from `1e+06` on.
pub(super) fn print_float(float: f64) -> String {
    print_digits(float, &format!("{float:e}"))
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

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value<'a>, MsgpackError> {
        if depth > MAX_DEPTH {
            return Err(MsgpackError::Depth);
        }
        let kind = self.take::<1>()?[0];
        Ok(match kind {
            0x00..=0x7f => Value::Unsigned(kind.into()),
            0x80..=0x8f => self.map((kind & 0x0f).into(), depth)?,
            0x90..=0x9f => self.list((kind & 0x0f).into(), depth)?,
            0xa0..=0xbf => self.text((kind & 0x1f).into())?,
            0xc0 => Value::Nil,
            0xc2 => Value::Bool(false),
            0xc3 => Value::Bool(true),
            0xc4..=0xc6 => {
                let length = self.unsigned(kind - 0xc4)?;
                Value::Bytes(self.bytes(length)?)
            }
            0xca => Value::Float32(f32::from_be_bytes(self.take()?)),
            0xcb => Value::Float64(f64::from_be_bytes(self.take()?)),
            0xcc..=0xcf => Value::Unsigned(self.unsigned(kind - 0xcc)?),
            0xd0 => Value::Signed(i8::from_be_bytes(self.take()?).into()),
            0xd1 => Value::Signed(i16::from_be_bytes(self.take()?).into()),
            0xd2 => Value::Signed(i32::from_be_bytes(self.take()?).into()),
            0xd3 => Value::Signed(i64::from_be_bytes(self.take()?)),
            0xd9..=0xdb => {
                let length = self.unsigned(kind - 0xd9)?;
                self.text(length)?
            }
            0xdc | 0xdd => {
                let length = self.unsigned(kind - 0xdc + 1)?;
                self.list(length, depth)?
            }
            0xde | 0xdf => {
                let length = self.unsigned(kind - 0xde + 1)?;
                self.map(length, depth)?
            }
            0xe0..=0xff => Value::Signed(i64::from(kind) - 0x100),
            0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => return Err(MsgpackError::Type(kind)),
        })
    }

    /// A number of `2^width` bytes.
    fn unsigned(&mut self, width: u8) -> Result<u64, MsgpackError> {
        Ok(match width {
            0 => u8::from_be_bytes(self.take()?).into(),
            1 => u16::from_be_bytes(self.take()?).into(),
            2 => u32::from_be_bytes(self.take()?).into(),
            _ => u64::from_be_bytes(self.take()?),
        })
    }

    fn text(&mut self, length: u64) -> Result<Value<'a>, MsgpackError> {
        std::str::from_utf8(self.bytes(length)?).map(Value::Text).map_err(|_| MsgpackError::Text)
    }

    // Lengths are claims: nothing is reserved for them, reading ends where the bytes end.
    fn list(&mut self, length: u64, depth: usize) -> Result<Value<'a>, MsgpackError> {
        (0..length).map(|_| self.value(depth + 1)).collect::<Result<_, _>>().map(Value::List)
    }

    fn map(&mut self, length: u64, depth: usize) -> Result<Value<'a>, MsgpackError> {
        let entries = (0..length).map(|_| Ok((self.value(depth + 1)?, self.value(depth + 1)?)));
        entries.collect::<Result<_, _>>().map(Value::Map)
    }

    fn bytes(&mut self, length: u64) -> Result<&'a [u8], MsgpackError> {
        let length = usize::try_from(length).map_err(|_| MsgpackError::CutOff)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(MsgpackError::CutOff)?;
        self.rest = rest;
        Ok(taken)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], MsgpackError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(MsgpackError::CutOff)?;
        self.rest = rest;
        Ok(*taken)
    }
}

impl Value<'_> {
    fn print(&self) -> String {
        match self {
            Self::Nil => "<nil>".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Unsigned(value) => value.to_string(),
            Self::Signed(value) => value.to_string(),
            Self::Float32(value) => print_digits((*value).into(), &format!("{value:e}")),
            Self::Float64(value) => print_float(*value),
            Self::Text(text) => (*text).to_owned(),
            Self::Bytes(bytes) => bracketed("[", bytes.iter().map(ToString::to_string)),
            Self::List(items) => bracketed("[", items.iter().map(Self::print)),
            Self::Map(entries) => {
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_by(|(left, _), (right, _)| left.compare(right));
                let entries = entries.into_iter().map(|(key, value)| format!("{}:{}", key.print(), value.print()));
                bracketed("map[", entries)
            }
        }
    }

    fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Nil => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Unsigned(value) => (*value).into(),
            Self::Signed(value) => (*value).into(),
            Self::Float32(value) => f64::from(*value).into(),
            Self::Float64(value) => (*value).into(),
            Self::Text(text) => (*text).into(),
            Self::Bytes(bytes) => bytes.iter().copied().collect(),
            Self::List(items) => items.iter().map(Self::to_json).collect(),
            Self::Map(entries) => {
                serde_json::Value::Object(entries.iter().map(|(key, value)| (key.print(), value.to_json())).collect())
            }
        }
    }

    /// The order Go prints keys of a map in; across kinds any fixed order will do.
    fn compare(&self, other: &Self) -> Ordering {
        match (self.integer(), other.integer()) {
            (Some(left), Some(right)) => left.cmp(&right),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => self.print().cmp(&other.print()),
        }
    }

    fn integer(&self) -> Option<i128> {
        match self {
            Self::Unsigned(value) => Some((*value).into()),
            Self::Signed(value) => Some((*value).into()),
            _ => None,
        }
    }
}

fn bracketed(open: &str, items: impl Iterator<Item = String>) -> String {
    format!("{open}{}]", items.collect::<Vec<_>>().join(" "))
}
