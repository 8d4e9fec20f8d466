//! Checks a single value against the type of its key and converts it.
//!
//! As in upstream's decoder, a number may be written as a string and a string as a number, because the values of flags
//! and environment variables are always strings.

use aileron_kubekit::duration::GoDuration;
use aileron_kubekit::quantity::Quantity;
use serde_json::{Number, Value};

use crate::document::{Data, Node};
use crate::schema::shape::Kind;

/// The error if a value does not have the type of its key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WrongType {
    /// Which values are allowed, in words.
    pub expected: String,
}

/// A value that was converted to the type of its key.
#[derive(Debug, PartialEq)]
pub(crate) struct Converted {
    pub value: Value,
    /// Set if the conversion may be unexpected for the user.
    pub warning: Option<String>,
    /// Which values are allowed, in words, if upstream accepts this one and it cannot be meant.
    pub unlikely: Option<&'static str>,
}

/// Converts a node to a value of this type. Groups, maps and lists are never accepted here.
pub(crate) fn convert(kind: &Kind<'_>, node: &Node) -> Result<Converted, WrongType> {
    let plain = |value: Value| Ok(Converted { value, warning: None, unlikely: None });
    match kind {
        Kind::Text => text(node),
        Kind::Duration => duration(&node.data),
        Kind::Quantity => quantity(&node.data).map_or_else(
            || wrong_type("a quantity such as 500m, 2 or 1Gi"),
            |quantity| plain(Value::String(quantity.to_string())),
        ),
        Kind::Word(words) => {
            let written = scalar_text(&node.data).unwrap_or_default();
            words.iter().find(|word| word.eq_ignore_ascii_case(&written)).map_or_else(
                || wrong_type(format!("one of {}", words.join(", "))),
                |word| plain(Value::String((*word).to_owned())),
            )
        }
        Kind::Integer { min, max } => integer(&node.data)
            .filter(|number| (*min..=*max).contains(number))
            .map_or_else(|| wrong_type(integer_words(*min, *max)), |number| plain(Value::from(number))),
        Kind::Number => {
            number(&node.data).map_or_else(|| wrong_type("a number"), |number| plain(Value::Number(number)))
        }
        Kind::Bool => {
            boolean(&node.data).map_or_else(|| wrong_type("true or false"), |value| plain(Value::Bool(value)))
        }
        Kind::IntOrText => match &node.data {
            Data::Number(number) if number.is_i64() => plain(Value::Number(number.clone())),
            Data::Text(text) => plain(Value::String(text.clone())),
            _ => wrong_type("a whole number or a text"),
        },
        Kind::Any => plain(any(node)),
        Kind::Struct(_) | Kind::Map(_) | Kind::List(_) => wrong_type("a single value"),
    }
}

fn wrong_type(expected: impl Into<String>) -> Result<Converted, WrongType> {
    Err(WrongType { expected: expected.into() })
}

fn text(node: &Node) -> Result<Converted, WrongType> {
    match &node.data {
        Data::Text(text) => Ok(Converted { value: Value::String(text.clone()), warning: None, unlikely: None }),
        Data::Number(number) => {
            Ok(Converted { value: Value::String(number_text(number)), warning: None, unlikely: None })
        }
        // Upstream's decoder converts a boolean to the string "1" or "0", and existing files may depend on that.
        Data::Bool(value) => Ok(Converted {
            value: Value::String(String::from(if *value { "1" } else { "0" })),
            warning: Some(format!("{value} becomes the text \"{}\"; write \"{value}\" to keep it", u8::from(*value))),
            unlikely: None,
        }),
        Data::Null | Data::List(_) | Data::Map(_) => wrong_type("a text"),
    }
}

/// A number without a unit is a number of nanoseconds, as in upstream's loader. An empty string is a duration of 0.
///
/// # Differs from upstream
///
/// The executor does not start with a number without a unit that is below a millisecond, and every other one gives a
/// warning. Upstream's loader accepts `10`, and the executor then waits for ten nanoseconds.
fn duration(data: &Data) -> Result<Converted, WrongType> {
    let duration = match data {
        Data::Number(_) => integer(data).map(GoDuration),
        Data::Text(text) if text.is_empty() => Some(GoDuration::default()),
        Data::Text(text) => text.parse().ok(),
        _ => None,
    };
    let Some(duration) = duration else { return wrong_type("a duration such as 30s, 5m or 1h30m") };
    let value = Value::String(duration.to_string());
    let (warning, unlikely) = match (data, duration.as_nanos().unsigned_abs()) {
        (Data::Number(_), 1..LEAST_WITHOUT_UNIT) => {
            (None, Some("a duration with a unit, such as 10s; a number without a unit counts nanoseconds"))
        }
        (Data::Number(_), LEAST_WITHOUT_UNIT..) => {
            (Some(format!("a number without a unit counts nanoseconds; this is {duration}, write it so")), None)
        }
        _ => (None, None),
    };
    Ok(Converted { value, warning, unlikely })
}

/// A duration without a unit that has fewer nanoseconds than this was surely meant in another unit: no time of the
/// executor is as short as a millisecond.
const LEAST_WITHOUT_UNIT: u64 = 1_000_000;

fn quantity(data: &Data) -> Option<Quantity> {
    match data {
        Data::Number(number) => number_text(number).parse().ok(),
        Data::Text(text) => text.parse().ok(),
        _ => None,
    }
}

fn integer(data: &Data) -> Option<i64> {
    match data {
        Data::Number(number) => number.as_i64().or_else(|| whole(number.as_f64()?)),
        Data::Text(text) if text.is_empty() => Some(0),
        Data::Text(text) => text.parse().ok(),
        _ => None,
    }
}

fn integer_words(min: i64, max: i64) -> String {
    match (min, max) {
        (i64::MIN, i64::MAX) => "a whole number".to_owned(),
        (min, i64::MAX) => format!("a whole number of at least {min}"),
        (min, max) => format!("a whole number from {min} to {max}"),
    }
}

/// A float that is a whole number, such as `1e3`.
fn whole(value: f64) -> Option<i64> {
    // 2^53: above it a float cannot represent every whole number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation)] // whole and in range, as just checked
    (value.fract() == 0.0 && value.abs() <= EXACT).then_some(value as i64)
}

fn number(data: &Data) -> Option<Number> {
    match data {
        Data::Number(number) => Some(number.clone()),
        Data::Text(text) => Number::from_f64(text.parse().ok()?),
        _ => None,
    }
}

/// Accepts the spellings of Go's `strconv.ParseBool`, and an empty string as false.
fn boolean(data: &Data) -> Option<bool> {
    match scalar_text(data)?.as_str() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn scalar_text(data: &Data) -> Option<String> {
    match data {
        Data::Bool(value) => Some(value.to_string()),
        Data::Number(number) => Some(number_text(number)),
        Data::Text(text) => Some(text.clone()),
        Data::Null | Data::List(_) | Data::Map(_) => None,
    }
}

/// A number as a string, without an exponent: `1e3` becomes `1000`.
fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => value.to_string(),
        _ => number.to_string(),
    }
}

/// The value of a key that accepts any JSON value, unchanged.
fn any(node: &Node) -> Value {
    match &node.data {
        Data::Null => Value::Null,
        Data::Bool(value) => Value::Bool(*value),
        Data::Number(number) => Value::Number(number.clone()),
        Data::Text(text) => Value::String(text.clone()),
        Data::List(items) => Value::Array(items.iter().map(any).collect()),
        Data::Map(entries) => {
            Value::Object(entries.iter().map(|entry| (entry.key.clone(), any(&entry.value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    const INTEGER: Kind<'_> = Kind::Integer { min: i64::MIN, max: i64::MAX };
    const INTEGER_32: Kind<'_> = Kind::Integer { min: -2_147_483_648, max: 2_147_483_647 };

    fn node(data: Data) -> Node {
        Node { line: 1, data }
    }

    fn value(kind: &Kind<'_>, data: Data) -> Option<Value> {
        convert(kind, &node(data)).ok().map(|converted| converted.value)
    }

    #[test]
    fn texts_and_numbers_are_converted_to_each_other() {
        let text = |text: &str| Data::Text(text.into());
        assert_eq!(value(&INTEGER, text("-7")), Some(json!(-7)));
        assert_eq!(value(&INTEGER_32, Data::Number(3_000_000_000_i64.into())), None);
        assert_eq!(value(&INTEGER, text("seven")), None);
        assert_eq!(value(&Kind::Text, Data::Number(5.into())), Some(json!("5")));
        assert_eq!(value(&Kind::Text, Data::Number(Number::from_f64(1e3).unwrap())), Some(json!("1000")));
        assert_eq!(value(&Kind::Text, Data::Number(Number::from_f64(0.25).unwrap())), Some(json!("0.25")));
        assert_eq!(value(&INTEGER, Data::Number(Number::from_f64(1e3).unwrap())), Some(json!(1000)));
        assert_eq!(value(&INTEGER, Data::Number(Number::from_f64(1.5).unwrap())), None);
        assert_eq!(value(&Kind::Bool, text("T")), Some(json!(true)));
        assert_eq!(value(&Kind::Bool, text("yes")), None);
        assert_eq!(value(&Kind::Number, text("0.5")), Some(json!(0.5)));
    }

    #[test]
    fn durations_and_quantities_get_their_canonical_form() {
        assert_eq!(value(&Kind::Duration, Data::Text("90s".into())), Some(json!("1m30s")));
        assert_eq!(value(&Kind::Duration, Data::Text(String::new())), Some(json!("0s")));
        assert_eq!(value(&Kind::Duration, Data::Number(1_500_000_000.into())), Some(json!("1.5s")));
        assert_eq!(value(&Kind::Duration, Data::Text("soon".into())), None);
        assert_eq!(value(&Kind::Quantity, Data::Text("1000m".into())), Some(json!("1")));
        assert_eq!(value(&Kind::Quantity, Data::Number(2.into())), Some(json!("2")));
        assert_eq!(value(&Kind::Quantity, Data::Text("lots".into())), None);
    }

    #[test]
    fn a_duration_without_a_unit_is_refused_or_gives_a_warning() {
        let number = |number: i64| convert(&Kind::Duration, &node(Data::Number(number.into())));
        let small = number(10).unwrap();
        assert_eq!(small.value, json!("10ns"), "as upstream");
        assert!(small.unlikely.unwrap().contains("counts nanoseconds"));
        assert!(number(-999_999).unwrap().unlikely.is_some());
        assert!(number(1_500_000_000).unwrap().warning.unwrap().contains("this is 1.5s"));
        assert_eq!(number(0).unwrap(), Converted { value: json!("0s"), warning: None, unlikely: None });
        assert_eq!(value(&Kind::Duration, Data::Text("10".into())), None, "as upstream, which demands a unit here");
    }

    #[test]
    fn whole_numbers_outside_of_their_range_are_refused() {
        let kind = Kind::Integer { min: 0, max: 255 };
        assert_eq!(value(&kind, Data::Number(255.into())), Some(json!(255)));
        for outside in [-1, 256] {
            let refused = convert(&kind, &node(Data::Number(outside.into()))).unwrap_err();
            assert_eq!(refused.expected, "a whole number from 0 to 255");
        }
    }

    #[test]
    fn a_boolean_for_a_text_key_gives_a_warning() {
        let converted = convert(&Kind::Text, &node(Data::Bool(false))).unwrap();
        assert_eq!(converted.value, json!("0"));
        assert!(converted.warning.unwrap().contains("write \"false\""));
    }

    #[test]
    fn the_letter_case_of_enumerated_words_does_not_matter() {
        let kind = Kind::Word(vec!["Pod", "TaskExecution"]);
        assert_eq!(value(&kind, Data::Text("taskexecution".into())), Some(json!("TaskExecution")));
        assert_eq!(convert(&kind, &node(Data::Text("x".into()))).unwrap_err().expected, "one of Pod, TaskExecution");
    }
}
