//! A commented file with every key at its default.

use std::fmt::Write as _;

use serde_json::Value;

use super::super::shape::{Kind, Shape};
use super::write::{inline, key, needs_list, wrap};
use super::{defaults, keys};

/// Comments are wrapped at this column.
const WIDTH: usize = 100;

/// A configuration file with every key, its documentation and its default. Loading it changes nothing.
#[must_use]
pub fn example() -> String {
    let schema = keys();
    let mut text = String::from(
        "# Every key with its default. Keys that are null are not set.\n\
         # Lists of one-entry maps stand for maps whose keys keep their letter case.\n",
    );
    group(Shape::of(&schema), &defaults(), 0, &mut text);
    text
}

fn group(shape: Shape<'_>, value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    for field in shape.fields() {
        if depth == 0 {
            text.push('\n');
        }
        for line in wrap(field.doc, WIDTH - 2 * depth) {
            let _ = writeln!(text, "{indent}# {line}");
        }
        if field.ours {
            let _ = writeln!(text, "{indent}# (Aileron only)");
        }
        entry(field.name, field.shape, value.get(field.name).unwrap_or(&Value::Null), depth, text);
    }
}

fn entry(name: &str, shape: Shape<'_>, value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match (shape.kind(), value) {
        (Kind::Struct(_), Value::Object(_)) if shape.kubernetes_type().is_none() => {
            let _ = writeln!(text, "{indent}{name}:");
            group(shape, value, depth + 1, text);
        }
        (Kind::Map(_), Value::Object(entries)) if !entries.is_empty() => {
            let _ = writeln!(text, "{indent}{name}:");
            let dash = if needs_list(entries.keys()) { "- " } else { "" };
            for (name, value) in entries {
                let _ = writeln!(text, "{indent}  {dash}{}: {}", key(name), inline(value));
            }
        }
        (Kind::List(_), Value::Array(items)) if !items.is_empty() => {
            let _ = writeln!(text, "{indent}{name}:");
            for item in items {
                let _ = writeln!(text, "{indent}  - {}", inline(item));
            }
        }
        _ => {
            let _ = writeln!(text, "{indent}{name}: {}", inline(value));
        }
    }
}
