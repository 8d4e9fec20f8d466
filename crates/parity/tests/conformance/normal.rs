//! What of two answers is compared.

use serde_json::{Value, json};

use crate::play::Answer;
use crate::script::{Care, Step};

/// Messages from here on are Go's, not Kubernetes's: how a parser puts it, what a diff of Go structures looks like.
const OF_GO: [&str; 5] = ["json parse error", "cannot unmarshal", "\n@@", "error decoding", "yaml"];

/// How the answers differ, if they do.
pub fn difference(step: &Step, expected: &Answer, found: &Answer) -> Option<String> {
    if step.care == Care::Nothing {
        return None;
    }
    let (left, right) = (shown(step.care, expected), shown(step.care, found));
    if left == right {
        return None;
    }
    Some(format!("    real: {left}\n    ours: {right}\n"))
}

fn shown(care: Care, answer: &Answer) -> Value {
    let body = match care {
        Care::Reason => json!({"reason": answer.body["reason"], "status": answer.body["status"]}),
        _ => {
            let mut body = answer.body.clone();
            tidy(&mut body, "", care);
            body
        }
    };
    json!({"code": answer.code, "body": body})
}

/// Replaces what differs from run to run, and drops what is empty: Go writes some empty values and not others.
fn tidy(value: &mut Value, name: &str, care: Care) {
    match value {
        Value::Object(fields) => {
            fields.remove("managedFields");
            // Prose about columns.
            fields.remove("description");
            if let Some(base) = fields.get("generateName").and_then(Value::as_str) {
                let generated = format!("{base}+++++");
                let is_generated = fields["name"].as_str().is_some_and(|name| name.len() == generated.len());
                fields.insert("name".to_owned(), if is_generated { generated.into() } else { json!("not generated") });
            }
            for (name, field) in fields.iter_mut() {
                tidy(field, name, care);
            }
            fields.retain(|_, field| !is_empty(field));
            // The order of fields means nothing.
            let mut sorted: Vec<_> = std::mem::take(fields).into_iter().collect();
            sorted.sort_by(|left, right| left.0.cmp(&right.0));
            fields.extend(sorted);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| tidy(item, "", care));
            // The real server says some things twice or four times, once per place that looks.
            if name == "causes" {
                items.dedup();
            }
        }
        Value::String(text) => *text = tidy_text(text, name, care),
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

fn tidy_text(text: &str, name: &str, care: Care) -> String {
    if name == "resourceVersion" {
        return "a revision".to_owned();
    }
    if name == "continue" && !text.is_empty() {
        return "a place to continue".to_owned();
    }
    let mut text = text.to_owned();
    if care == Care::Begin
        && let Some(end) = OF_GO.iter().filter_map(|mark| text.find(mark)).min()
    {
        text.truncate(end);
    }
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\0']) {
        if c.is_ascii_alphanumeric() || "-:.".contains(c) {
            word.push(c);
        } else {
            out += &if out.ends_with("in record (") { "a-number".to_owned() } else { tidy_word(&word) };
            word.clear();
            if c != '\0' {
                out.push(c);
            }
        }
    }
    out
}

fn tidy_word(word: &str) -> String {
    let is_uid = word.len() == 36 && word.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    let is_time = word.len() == 20 && word.ends_with('Z') && word.as_bytes()[10] == b'T';
    let is_age = word.len() < 4 && word.strip_suffix('s').is_some_and(|n| n.parse::<u32>().is_ok());
    // Large numbers in messages are revisions.
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
