//! Normalises and compares two answers.

use serde_json::{Value, json};

use crate::play::Answer;
use crate::script::{Scope, Step};

/// The beginnings of message parts that Go libraries produce, such as parser errors and diffs of Go structures.
const GO_MESSAGES: [&str; 5] = ["json parse error", "cannot unmarshal", "\n@@", "error decoding", "yaml"];

/// The difference between two answers, if there is one.
pub fn difference(step: &Step, expected: &Answer, found: &Answer) -> Option<String> {
    if step.scope == Scope::Nothing {
        return None;
    }
    let (left, right) = (shown(step.scope, expected), shown(step.scope, found));
    if left == right {
        return None;
    }
    Some(format!("    real: {left}\n    ours: {right}\n"))
}

fn shown(scope: Scope, answer: &Answer) -> Value {
    let body = match scope {
        Scope::CodeAndReason => json!({"reason": answer.body["reason"], "status": answer.body["status"]}),
        _ => {
            let mut body = answer.body.clone();
            normalise(&mut body, "", scope);
            body
        }
    };
    json!({"code": answer.code, "body": body})
}

/// Replaces values that differ in each run, and removes empty values: Go writes only some of them.
fn normalise(value: &mut Value, name: &str, scope: Scope) {
    match value {
        Value::Object(fields) => {
            fields.remove("managedFields");
            // The descriptions of table columns.
            fields.remove("description");
            if let Some(base) = fields.get("generateName").and_then(Value::as_str) {
                let generated = format!("{base}+++++");
                let is_generated = fields["name"].as_str().is_some_and(|name| name.len() == generated.len());
                fields.insert("name".to_owned(), if is_generated { generated.into() } else { json!("not generated") });
            }
            for (name, field) in fields.iter_mut() {
                normalise(field, name, scope);
            }
            // In a schema, the default `[]` differs from no default.
            fields.retain(|name, field| name == "default" || !is_empty(field));
            // The order of fields is not significant.
            let mut sorted: Vec<_> = std::mem::take(fields).into_iter().collect();
            sorted.sort_by(|left, right| left.0.cmp(&right.0));
            fields.extend(sorted);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| normalise(item, "", scope));
            // The real server repeats some causes, once per validation that finds them.
            if name == "causes" {
                items.dedup();
            }
        }
        Value::String(text) => *text = normalise_text(text, name, scope),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn normalise_text(text: &str, name: &str, scope: Scope) -> String {
    if name == "resourceVersion" {
        return "a revision".to_owned();
    }
    if name == "continue" && !text.is_empty() {
        return "a place to continue".to_owned();
    }
    let mut text = text.to_owned();
    if scope == Scope::MessagePrefix
        && let Some(end) = GO_MESSAGES.iter().filter_map(|mark| text.find(mark)).min()
    {
        text.truncate(end);
    }
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\0']) {
        if c.is_ascii_alphanumeric() || "-:.".contains(c) {
            word.push(c);
        } else {
            out += &if out.ends_with("in record (") { "a-number".to_owned() } else { normalise_word(&word) };
            word.clear();
            if c != '\0' {
                out.push(c);
            }
        }
    }
    out
}

fn normalise_word(word: &str) -> String {
    let is_uid = word.len() == 36 && word.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    let is_time = word.len() == 20 && word.ends_with('Z') && word.as_bytes()[10] == b'T';
    let is_age = word.len() < 4 && word.strip_suffix('s').is_some_and(|n| n.parse::<u32>().is_ok());
    // Large numbers in messages are resource versions.
    let is_revision =
        (word.len() > 1 && word.len() < 7 && word.parse::<u32>().is_ok_and(|number| number > 40)) && word != "300";
    match () {
        () if is_uid => "a-uid".to_owned(),
        () if is_time => "a-time".to_owned(),
        () if is_age => "an-age".to_owned(),
        () if is_revision => "a-number".to_owned(),
        () => word.to_owned(),
    }
}
