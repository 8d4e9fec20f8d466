//! JSON written as block YAML, in the look of the library that upstream uses, so that jobs built by either are the same.
//!
//! # Differs from upstream
//! Long texts are not folded, and texts of several lines stand in double quotes. Readers see the same text.

use std::cmp::Ordering;

use serde_json::{Map, Value};

/// Plain words that YAML 1.1 readers take for something else than a text.
const RESERVED: [&str; 30] = [
    "", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO", "true", "True", "TRUE",
    "false", "False", "FALSE", "on", "On", "ON", "off", "Off", "OFF", "<<", "---", "...",
];
/// Characters that mean something where a text begins.
const LEADING_INDICATORS: &str = "#,[]{}&*!|>'\"%@`";

/// A document with these members.
pub(super) fn document(members: &Map<String, Value>) -> String {
    let mut text = String::new();
    if members.is_empty() {
        text.push_str("{}\n");
    } else {
        write_members(members, 0, &mut text);
    }
    text
}

/// Writes members one per line; the first one continues the line that is there.
fn write_members(members: &Map<String, Value>, indent: usize, text: &mut String) {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by(|one, other| by_name(one.0, other.0));
    for (index, (name, value)) in members.into_iter().enumerate() {
        if index > 0 {
            pad(indent, text);
        }
        text.push_str(&scalar(name));
        text.push(':');
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                text.push('\n');
                pad(indent + 2, text);
                write_members(inner, indent + 2, text);
            }
            Value::Array(items) if !items.is_empty() => {
                text.push('\n');
                pad(indent, text);
                write_items(items, indent, text);
            }
            leaf => write_leaf(leaf, text),
        }
    }
}

fn write_items(items: &[Value], indent: usize, text: &mut String) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            pad(indent, text);
        }
        text.push('-');
        match item {
            Value::Object(inner) if !inner.is_empty() => {
                text.push(' ');
                write_members(inner, indent + 2, text);
            }
            Value::Array(inner) if !inner.is_empty() => {
                text.push(' ');
                write_items(inner, indent + 2, text);
            }
            leaf => write_leaf(leaf, text),
        }
    }
}

fn write_leaf(value: &Value, text: &mut String) {
    text.push(' ');
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&number.as_f64().map_or_else(|| number.to_string(), float)),
        Value::String(string) => text.push_str(&scalar(string)),
        Value::Array(_) => text.push_str("[]"),
        Value::Object(_) => text.push_str("{}"),
    }
    text.push('\n');
}

fn pad(indent: usize, text: &mut String) {
    text.extend(std::iter::repeat_n(' ', indent));
}

/// Letters come after everything else.
fn by_name(one: &str, other: &str) -> Ordering {
    let key = |name: &str| name.chars().map(|c| (c.is_alphabetic(), c)).collect::<Vec<_>>();
    key(one).cmp(&key(other))
}

/// All numbers are floats to upstream; from a million on they have an exponent.
fn float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if exponent >= 6 => format!("{digits}e+{exponent:02}"),
        Ok(exponent) if exponent < -4 => format!("{digits}e-{:02}", exponent.abs()),
        _ => value.to_string(),
    }
}

/// A text: plain where a reader sees the same text, else quoted as little as it takes.
fn scalar(text: &str) -> String {
    if text.chars().any(char::is_control) || text.contains(['\u{2028}', '\u{2029}', '\u{feff}']) || is_other(text) {
        // A JSON string is a double-quoted YAML scalar.
        return Value::from(text).to_string();
    }
    if has_indicators(text) { format!("'{}'", text.replace('\'', "''")) } else { text.to_owned() }
}

/// A reader would take the plain text for null, a truth value, a number or a date.
fn is_other(text: &str) -> bool {
    if RESERVED.contains(&text) {
        return true;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if [".inf", ".nan"].contains(&unsigned.to_lowercase().as_str()) {
        return true;
    }
    let Some(first) = unsigned.chars().next().filter(|first| first.is_ascii_digit() || *first == '.') else {
        return false;
    };
    let plain = unsigned.replace('_', "");
    let lower = plain.to_lowercase();
    let radix = |prefix: &str, radix: u32| {
        lower.strip_prefix(prefix).is_some_and(|digits| u64::from_str_radix(digits, radix).is_ok())
    };
    let is_number = plain.parse::<f64>().is_ok() || radix("0x", 16) || radix("0o", 8) || radix("0b", 2);
    let is_base_60 =
        first != '.' && plain.contains(':') && plain.chars().all(|c| c.is_ascii_digit() || ":.".contains(c));
    is_number || is_base_60 || is_date(unsigned)
}

/// `2001-2-3`, alone or with a time behind it.
fn is_date(text: &str) -> bool {
    let date = text.split(['T', 't', ' ']).next().unwrap_or_default();
    let parts: Vec<_> = date.split('-').collect();
    let digits = |part: &&str| !part.is_empty() && part.len() <= 4 && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.len() == 3 && parts[0].len() == 4 && parts.iter().all(digits)
}

/// Plain, some part of the text would be read as structure.
fn has_indicators(text: &str) -> bool {
    let starts_alone =
        |indicator: char| text.strip_prefix(indicator).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    text.starts_with(|first: char| LEADING_INDICATORS.contains(first))
        || ['-', '?', ':'].into_iter().any(starts_alone)
        || text.starts_with("---")
        || text.starts_with("...")
        || text.starts_with(' ')
        || text.ends_with([' ', ':'])
        || text.contains(": ")
        || text.contains(" #")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_only_where_they_must_be() {
        let plain = ["numpy", "numpy==1.2", "a b", "https://x:80/y", "-e", "s3://b/k.zip", "1.2.3", "x:y", "3 apples"];
        for text in plain {
            assert_eq!(scalar(text), text);
        }
        for text in ["", "n", "True", "null", "1", "-1.5", "0x1F", "1e3", "1:30", "2001-02-03", ".inf", "a\nb", "\t"] {
            assert_eq!(scalar(text), Value::from(text).to_string());
        }
        assert_eq!(scalar("a: b"), "'a: b'");
        assert_eq!(scalar("'quoted'"), "'''quoted'''");
        assert_eq!(scalar("- x"), "'- x'");
        assert_eq!(scalar(" x"), "' x'");
    }

    #[test]
    fn numbers_look_like_floats_of_upstream() {
        let shown = [1.0, 1.5, 999_999.0, 1_000_000.0, 0.0001, 0.000_01, -2.0].map(float);
        assert_eq!(shown, ["1", "1.5", "999999", "1e+06", "0.0001", "1e-05", "-2"]);
    }

    #[test]
    fn names_are_sorted_with_letters_last() {
        let mut names = ["b", "a_b", "ab", "A", "1"];
        names.sort_by(|one, other| by_name(one, other));
        assert_eq!(names, ["1", "A", "a_b", "ab", "b"]);
    }
}
