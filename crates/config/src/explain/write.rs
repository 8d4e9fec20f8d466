//! Values as YAML text.

use std::collections::BTreeMap;

use serde_json::Value;

/// A value on one line. JSON is YAML, and plain words need no quotes.
pub(super) fn inline(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        other => sorted(other).to_string(),
    }
}

/// The value with the keys of objects in alphabetical order and without keys that are null, so that the text does not
/// depend on how the JSON library was built.
pub(super) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(entries) => {
            let entries: BTreeMap<_, _> = entries.iter().filter(|(_, value)| !value.is_null()).collect();
            Value::Object(entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// A key, quoted where it must be.
pub(super) fn key(key: &str) -> String {
    inline(&Value::String(key.to_owned()))
}

/// True when a map must be written as a list of one-entry maps for its keys to keep their letter case.
pub(super) fn needs_list(keys: impl IntoIterator<Item = impl AsRef<str>>) -> bool {
    keys.into_iter().any(|key| {
        let key = key.as_ref();
        !key.contains('.') && key.to_lowercase() != key
    })
}

/// Text wrapped into lines of at most `width` characters.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// True for texts that YAML reads as themselves without quotes: a careful subset.
fn is_plain(text: &str) -> bool {
    const WORDS_WITH_MEANING: [&str; 8] = ["null", "true", "false", "yes", "no", "on", "off", "y"];
    text.chars().next().is_some_and(|first| first.is_ascii_alphabetic() || first == '/')
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./".contains(letter))
        && !WORDS_WITH_MEANING.contains(&text.to_lowercase().as_str())
        && text != "n"
}
