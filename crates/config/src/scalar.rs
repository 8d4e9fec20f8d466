//! Single values: which ones fit a form, and what they become.
//!
//! The rules are as weak as upstream's decoder: a number may be written as text and a text as number, because flags
//! and environment variables only know texts.

use aileron_kubekit::duration::GoDuration;
use aileron_kubekit::quantity::Quantity;
use serde_json::{Number, Value};

use super::node::{Data, Node};
use super::shape::Kind;

/// Why a value does not become what it should.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    pub expected: String,
}

/// A value that fits, and a remark when it becomes something its author may not expect.
#[derive(Debug, PartialEq)]
pub(super) struct Fit {
    pub value: Value,
    pub remark: Option<String>,
}

/// Makes a value of the wanted form out of a node. Forms that are not single values never fit.
pub(super) fn fit(kind: &Kind<'_>, node: &Node) -> Result<Fit, Misfit> {
    let plain = |value: Value| Ok(Fit { value, remark: None });
    match kind {
        Kind::Text => text(node),
        Kind::Duration => duration(&node.data).map_or_else(
            || misfit("a duration such as 30s, 5m or 1h30m"),
            |duration| plain(Value::String(duration.to_string())),
        ),
        Kind::Quantity => quantity(&node.data).map_or_else(
            || misfit("a quantity such as 500m, 2 or 1Gi"),
            |quantity| plain(Value::String(quantity.to_string())),
        ),
        Kind::Word(words) => {
            let written = scalar_text(&node.data).unwrap_or_default();
            words.iter().find(|word| word.eq_ignore_ascii_case(&written)).map_or_else(
                || misfit(format!("one of {}", words.join(", "))),
                |word| plain(Value::String((*word).to_owned())),
            )
        }
        Kind::Integer { bits } => integer(&node.data, *bits).map_or_else(
            || misfit(if *bits == 32 { "a whole number of 32 bits" } else { "a whole number" }),
            |number| plain(Value::from(number)),
        ),
        Kind::Number => number(&node.data).map_or_else(|| misfit("a number"), |number| plain(Value::Number(number))),
        Kind::Bool => boolean(&node.data).map_or_else(|| misfit("true or false"), |value| plain(Value::Bool(value))),
        Kind::IntOrText => match &node.data {
            Data::Number(number) if number.is_i64() => plain(Value::Number(number.clone())),
            Data::Text(text) => plain(Value::String(text.clone())),
            _ => misfit("a whole number or a text"),
        },
        Kind::Any => plain(any(node)),
        Kind::Struct(_) | Kind::Map(_) | Kind::List(_) => misfit("a single value"),
    }
}

fn misfit(expected: impl Into<String>) -> Result<Fit, Misfit> {
    Err(Misfit { expected: expected.into() })
}

fn text(node: &Node) -> Result<Fit, Misfit> {
    match &node.data {
        Data::Text(text) => Ok(Fit { value: Value::String(text.clone()), remark: None }),
        Data::Number(number) => Ok(Fit { value: Value::String(number_text(number)), remark: None }),
        // Upstream's decoder turns booleans into digits. Files rely on it, if only unknowingly.
        Data::Bool(value) => Ok(Fit {
            value: Value::String(String::from(if *value { "1" } else { "0" })),
            remark: Some(format!("{value} becomes the text \"{}\"; write \"{value}\" to keep it", u8::from(*value))),
        }),
        Data::Null | Data::List(_) | Data::Map(_) => misfit("a text"),
    }
}

/// Numbers count nanoseconds, and an empty text is no time at all.
fn duration(data: &Data) -> Option<GoDuration> {
    match data {
        Data::Number(_) => integer(data, 64).map(GoDuration),
        Data::Text(text) if text.is_empty() => Some(GoDuration::default()),
        Data::Text(text) => text.parse().ok(),
        _ => None,
    }
}

fn quantity(data: &Data) -> Option<Quantity> {
    match data {
        Data::Number(number) => number_text(number).parse().ok(),
        Data::Text(text) => text.parse().ok(),
        _ => None,
    }
}

fn integer(data: &Data, bits: u32) -> Option<i64> {
    let value = match data {
        Data::Number(number) => number.as_i64().or_else(|| whole(number.as_f64()?))?,
        Data::Text(text) if text.is_empty() => 0,
        Data::Text(text) => text.parse().ok()?,
        _ => return None,
    };
    (bits == 64 || i32::try_from(value).is_ok()).then_some(value)
}

/// A whole number that happens to be written as a fraction, such as `1e3`.
fn whole(value: f64) -> Option<i64> {
    // Beyond 2^53 a float no longer tells neighbouring whole numbers apart.
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

/// The spellings of Go's `strconv.ParseBool`.
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

/// A number as text: never with an exponent, and `1e3` without a fraction.
fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => value.to_string(),
        _ => number.to_string(),
    }
}

/// A value of no particular form, as it stands.
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

    fn node(data: Data) -> Node {
        Node { line: 1, data }
    }

    fn value(kind: &Kind<'_>, data: Data) -> Option<Value> {
        fit(kind, &node(data)).ok().map(|fit| fit.value)
    }

    #[test]
    fn texts_and_numbers_become_each_other() {
        let text = |text: &str| Data::Text(text.into());
        assert_eq!(value(&Kind::Integer { bits: 64 }, text("-7")), Some(json!(-7)));
        assert_eq!(value(&Kind::Integer { bits: 32 }, Data::Number(3_000_000_000_i64.into())), None);
        assert_eq!(value(&Kind::Integer { bits: 64 }, text("seven")), None);
        assert_eq!(value(&Kind::Text, Data::Number(5.into())), Some(json!("5")));
        assert_eq!(value(&Kind::Text, Data::Number(Number::from_f64(1e3).unwrap())), Some(json!("1000")));
        assert_eq!(value(&Kind::Text, Data::Number(Number::from_f64(0.25).unwrap())), Some(json!("0.25")));
        assert_eq!(value(&Kind::Integer { bits: 64 }, Data::Number(Number::from_f64(1e3).unwrap())), Some(json!(1000)));
        assert_eq!(value(&Kind::Integer { bits: 64 }, Data::Number(Number::from_f64(1.5).unwrap())), None);
        assert_eq!(value(&Kind::Bool, text("T")), Some(json!(true)));
        assert_eq!(value(&Kind::Bool, text("yes")), None);
        assert_eq!(value(&Kind::Number, text("0.5")), Some(json!(0.5)));
    }

    #[test]
    fn durations_and_quantities_become_canonical() {
        assert_eq!(value(&Kind::Duration, Data::Text("90s".into())), Some(json!("1m30s")));
        assert_eq!(value(&Kind::Duration, Data::Text(String::new())), Some(json!("0s")));
        assert_eq!(value(&Kind::Duration, Data::Number(1_500_000_000.into())), Some(json!("1.5s")));
        assert_eq!(value(&Kind::Duration, Data::Text("soon".into())), None);
        assert_eq!(value(&Kind::Quantity, Data::Text("1000m".into())), Some(json!("1")));
        assert_eq!(value(&Kind::Quantity, Data::Number(2.into())), Some(json!("2")));
        assert_eq!(value(&Kind::Quantity, Data::Text("lots".into())), None);
    }

    #[test]
    fn booleans_as_texts_are_remarked_on() {
        let fit = fit(&Kind::Text, &node(Data::Bool(false))).unwrap();
        assert_eq!(fit.value, json!("0"));
        assert!(fit.remark.unwrap().contains("write \"false\""));
    }

    #[test]
    fn words_ignore_letter_case() {
        let kind = Kind::Word(vec!["Pod", "TaskExecution"]);
        assert_eq!(value(&kind, Data::Text("taskexecution".into())), Some(json!("TaskExecution")));
        assert_eq!(fit(&kind, &node(Data::Text("x".into()))).unwrap_err().expected, "one of Pod, TaskExecution");
    }
}
