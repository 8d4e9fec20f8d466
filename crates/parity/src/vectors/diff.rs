//! The differences between two documents, each with its path.

use std::fmt;

use serde_json::Value;

/// One place where our result differs from the recorded one.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The place, as in `spec.containers[0].image`.
    pub path: String,
    /// The recorded value, if there is one.
    pub expected: Option<Value>,
    /// Our value, if there is one.
    pub got: Option<Value>,
}

/// Longer values are cut in messages: a complete pod on one line is unreadable.
const MAX_PRINTED: usize = 300;

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "(the whole result)" } else { &self.path };
        write!(f, "{path}: expected {}, got {}", shortened(self.expected.as_ref()), shortened(self.got.as_ref()))
    }
}

fn shortened(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".into() };
    let text = value.to_string();
    match text.char_indices().nth(MAX_PRINTED) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

/// Every place where the documents differ. Both must be canonical, see [`super::canonical`].
pub fn differences(expected: &Value, got: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(String::new(), expected, got, &mut found);
    found
}

fn compare(path: String, expected: &Value, got: &Value, found: &mut Vec<Difference>) {
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => {
            for (key, value) in expected {
                let path = member(&path, key);
                match got.get(key) {
                    Some(other) => compare(path, value, other, found),
                    None => found.push(Difference { path, expected: Some(value.clone()), got: None }),
                }
            }
            for (key, value) in got.iter().filter(|(key, _)| !expected.contains_key(*key)) {
                found.push(Difference { path: member(&path, key), expected: None, got: Some(value.clone()) });
            }
        }
        (Value::Array(expected), Value::Array(got)) => compare_lists(&path, expected, got, found),
        _ if expected == got => {}
        _ => found.push(Difference { path, expected: Some(expected.clone()), got: Some(got.clone()) }),
    }
}

/// Equal elements at both ends are skipped, so that one missing element is one difference and not a change of every
/// element after it.
fn compare_lists(path: &str, expected: &[Value], got: &[Value], found: &mut Vec<Difference>) {
    let start = expected.iter().zip(got).take_while(|(a, b)| a == b).count();
    let end = expected[start..].iter().rev().zip(got[start..].iter().rev()).take_while(|(a, b)| a == b).count();
    let expected = &expected[start..expected.len() - end];
    let got = &got[start..got.len() - end];
    for index in 0..expected.len().max(got.len()) {
        let path = format!("{path}[{}]", start + index);
        match (expected.get(index), got.get(index)) {
            (Some(expected), Some(got)) => compare(path, expected, got, found),
            (expected, got) => found.push(Difference { path, expected: expected.cloned(), got: got.cloned() }),
        }
    }
}

fn member(path: &str, key: &str) -> String {
    // Keys with dots (labels, resource names) would read as several members.
    let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key:?}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(expected: &Value, got: &Value) -> Vec<String> {
        differences(expected, got).into_iter().map(|difference| difference.path).collect()
    }

    #[test]
    fn equal_documents_do_not_differ_whatever_the_key_order() {
        assert!(differences(&json!({"a": 1, "b": [2]}), &json!({"b": [2], "a": 1})).is_empty());
    }

    #[test]
    fn only_the_place_that_differs_is_named() {
        let expected = json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]});
        let got = json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]});
        assert_eq!(paths(&expected, &got), ["env[1].value"]);
    }

    #[test]
    fn a_missing_element_is_one_difference() {
        assert_eq!(paths(&json!(["a", "b", "c"]), &json!(["a", "c"])), ["[1]"]);
    }

    #[test]
    fn order_in_a_list_matters() {
        assert_eq!(paths(&json!(["a", "b"]), &json!(["b", "a"])), ["[0]", "[1]"]);
    }

    #[test]
    fn keys_with_dots_are_quoted() {
        assert_eq!(paths(&json!({"labels": {"a.b/c": 1}}), &json!({"labels": {}})), [r#"labels["a.b/c"]"#]);
    }
}
