//! Values that people write, as literals of a declared type.

use aileron_idl::flyteidl2::core::literal::Value as LiteralValue;
use aileron_idl::flyteidl2::core::literal_type::Type;
use aileron_idl::flyteidl2::core::primitive::Value as PrimitiveValue;
use aileron_idl::flyteidl2::core::scalar::Value as ScalarValue;
use aileron_idl::flyteidl2::core::{
    Blob, BlobMetadata, Literal, LiteralCollection, LiteralMap, LiteralType, Primitive, Scalar, SimpleType, Union, Void,
};
use aileron_idl::json_to_struct;
use aileron_kubekit::duration::GoDuration;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use serde_json::Value;

use super::type_name;

/// A value that is not of its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}{separator}must be {expected}, such as {example}; found {found}", separator = if .place.is_empty() { "" } else { ": " })]
pub struct ValueError {
    /// Where inside the value; empty for the value itself.
    pub place: String,
    /// Name of the type.
    pub expected: String,
    /// A value that would do.
    pub example: String,
    /// What was there, shortened.
    pub found: String,
}

/// Longest piece of a wrong value that is repeated.
const SHOWN_LENGTH: usize = 60;
const NANOS: i64 = 1_000_000_000;

/// A literal from what somebody typed: texts as they are, numbers and booleans by their words, lists, maps and free
/// values as JSON.
///
/// # Errors
/// When the text is no value of the type.
pub fn from_text(kind: &LiteralType, text: &str) -> Result<Literal, ValueError> {
    let wrong = || misfit(kind, text.to_owned());
    match &kind.r#type {
        Some(Type::Simple(simple)) => {
            let value = match SimpleType::try_from(*simple) {
                Ok(SimpleType::Integer) => text.trim().parse::<i64>().map(Value::from).map_err(|_| wrong())?,
                Ok(SimpleType::Float) => return text.trim().parse().map(float).map_err(|_| wrong()),
                Ok(SimpleType::Boolean) => text.trim().parse::<bool>().map(Value::from).map_err(|_| wrong())?,
                Ok(SimpleType::Struct) => serde_json::from_str(text).map_err(|_| wrong())?,
                _ => Value::from(text),
            };
            from_json(kind, &value).map_err(|_| wrong())
        }
        Some(Type::CollectionType(_) | Type::MapValueType(_)) => {
            from_json(kind, &serde_json::from_str(text).map_err(|_| wrong())?)
        }
        Some(Type::UnionType(union)) => {
            let fitting = union.variants.iter().find_map(|variant| Some((variant, from_text(variant, text).ok()?)));
            fitting.map(|(variant, literal)| in_union(variant, literal)).ok_or_else(wrong)
        }
        _ => from_json(kind, &Value::from(text)),
    }
}

/// A literal from a value of a document.
///
/// # Errors
/// When the value is not of the type.
pub fn from_json(kind: &LiteralType, value: &Value) -> Result<Literal, ValueError> {
    let wrong = || misfit(kind, value.to_string());
    match &kind.r#type {
        Some(Type::Simple(simple)) => {
            let simple = SimpleType::try_from(*simple).unwrap_or(SimpleType::None);
            simple_value(simple, value).ok_or_else(wrong)
        }
        Some(Type::CollectionType(inner)) => {
            let items = value.as_array().ok_or_else(wrong)?.iter().enumerate();
            let literals =
                items.map(|(index, item)| from_json(inner, item).map_err(|e| within(e, &format!("[{index}]"))));
            Ok(literal(LiteralValue::Collection(LiteralCollection { literals: literals.collect::<Result<_, _>>()? })))
        }
        Some(Type::MapValueType(inner)) => {
            let entries = value.as_object().ok_or_else(wrong)?.iter();
            let literals = entries.map(|(key, item)| {
                Ok((key.clone(), from_json(inner, item).map_err(|e| within(e, &format!(".{key}")))?))
            });
            Ok(literal(LiteralValue::Map(LiteralMap { literals: literals.collect::<Result<_, ValueError>>()? })))
        }
        Some(Type::Blob(blob)) => {
            let uri = value.as_str().ok_or_else(wrong)?.to_owned();
            Ok(scalar(ScalarValue::Blob(Blob { metadata: Some(BlobMetadata { r#type: Some(blob.clone()) }), uri })))
        }
        Some(Type::EnumType(words)) => {
            let word = value.as_str().filter(|word| words.values.iter().any(|known| known == word));
            word.map(|word| primitive(PrimitiveValue::StringValue(word.to_owned()))).ok_or_else(wrong)
        }
        Some(Type::UnionType(union)) => {
            let fitting = union.variants.iter().find_map(|variant| Some((variant, from_json(variant, value).ok()?)));
            fitting.map(|(variant, literal)| in_union(variant, literal)).ok_or_else(wrong)
        }
        // Nothing that a person could write down.
        Some(Type::Schema(_) | Type::StructuredDatasetType(_)) | None => Err(wrong()),
    }
}

fn simple_value(kind: SimpleType, value: &Value) -> Option<Literal> {
    Some(match kind {
        SimpleType::None => value.is_null().then(|| scalar(ScalarValue::NoneType(Void {})))?,
        SimpleType::Integer => primitive(PrimitiveValue::Integer(value.as_i64()?)),
        SimpleType::Float => float(value.as_f64()?),
        SimpleType::String => primitive(PrimitiveValue::StringValue(value.as_str()?.to_owned())),
        SimpleType::Boolean => primitive(PrimitiveValue::Boolean(value.as_bool()?)),
        SimpleType::Datetime => {
            let time = datetime(value.as_str()?)?;
            let time = prost_types::Timestamp { seconds: time.as_second(), nanos: time.subsec_nanosecond() };
            primitive(PrimitiveValue::Datetime(time))
        }
        SimpleType::Duration => {
            let GoDuration(nanos) = value.as_str()?.trim().parse().ok()?;
            let nanos_part = i32::try_from(nanos % NANOS).ok()?;
            primitive(PrimitiveValue::Duration(prost_types::Duration { seconds: nanos / NANOS, nanos: nanos_part }))
        }
        SimpleType::Struct => scalar(ScalarValue::Generic(json_to_struct(value).ok()?)),
        SimpleType::Binary | SimpleType::Error => return None,
    })
}

/// A point in time; without a zone it is UTC.
fn datetime(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let in_utc = |time: DateTime| time.to_zoned(TimeZone::UTC).ok().map(|time| time.timestamp());
    text.parse()
        .ok()
        .or_else(|| in_utc(text.parse::<DateTime>().ok()?))
        .or_else(|| in_utc(text.parse::<Date>().ok()?.to_datetime(jiff::civil::Time::midnight())))
}

fn in_union(variant: &LiteralType, inner: Literal) -> Literal {
    scalar(ScalarValue::Union(Box::new(Union { value: Some(Box::new(inner)), r#type: Some(variant.clone()) })))
}

fn float(number: f64) -> Literal {
    primitive(PrimitiveValue::FloatValue(number))
}

fn primitive(value: PrimitiveValue) -> Literal {
    scalar(ScalarValue::Primitive(Primitive { value: Some(value) }))
}

fn scalar(value: ScalarValue) -> Literal {
    literal(LiteralValue::Scalar(Box::new(Scalar { value: Some(value) })))
}

fn literal(value: LiteralValue) -> Literal {
    Literal { value: Some(value), ..Literal::default() }
}

fn within(error: ValueError, place: &str) -> ValueError {
    ValueError { place: format!("{place}{}", error.place), ..error }
}

fn misfit(kind: &LiteralType, found: String) -> ValueError {
    let found = match found.char_indices().nth(SHOWN_LENGTH) {
        Some((end, _)) => format!("{}…", &found[..end]),
        None => found,
    };
    ValueError { place: String::new(), expected: type_name(kind), example: example(kind), found }
}

fn example(kind: &LiteralType) -> String {
    match &kind.r#type {
        Some(Type::Simple(simple)) => match SimpleType::try_from(*simple) {
            Ok(SimpleType::Integer) => "41",
            Ok(SimpleType::Float) => "1.5",
            Ok(SimpleType::Boolean) => "true",
            Ok(SimpleType::Datetime) => "2026-03-01T12:00:00Z",
            Ok(SimpleType::Duration) => "1h30m",
            Ok(SimpleType::Struct) => "{\"a\": 1}",
            Ok(SimpleType::None) => "null",
            Ok(SimpleType::String) => "\"some text\"",
            _ => "a literal in a file given with --inputs",
        }
        .to_owned(),
        Some(Type::CollectionType(inner)) => format!("[{}]", example(inner)),
        Some(Type::MapValueType(inner)) => format!("{{\"key\": {}}}", example(inner)),
        Some(Type::Blob(_)) => "s3://bucket/data".to_owned(),
        Some(Type::EnumType(words)) => words.values.first().cloned().unwrap_or_default(),
        Some(Type::UnionType(union)) => union.variants.first().map(example).unwrap_or_default(),
        Some(Type::Schema(_) | Type::StructuredDatasetType(_)) | None => {
            "a literal in a file given with --inputs".to_owned()
        }
    }
}
