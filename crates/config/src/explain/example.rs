//! An example file: every key that has an effect, with its documentation and its default.

use std::fmt::Write as _;

use serde_json::Value;

use super::write::{inline, key, needs_list, wrap};
use crate::schema::shape::{Kind, Shape};

/// Comments are wrapped at this column.
const WIDTH: usize = 100;

/// A configuration file with every key that has an effect, its documentation and its default.
pub(crate) fn example_of(schema: &Value, defaults: &Value) -> String {
    let mut text = String::from(
        "# Every key that has an effect, with its default. A key that is null is not set.\n\
         # A list of maps with one entry each stands for one map. Its keys keep their letter case.\n\
         # Keys without effect are not in this file; `aileron config reference` lists them.\n",
    );
    group(Shape::of(schema), defaults, 0, &mut text);
    text
}

fn group(shape: Shape<'_>, value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    for field in shape.fields().filter(|field| field.no_effect.reason().is_none()) {
        if depth == 0 {
            text.push('\n');
        }
        for line in wrap(field.doc, WIDTH - 2 * depth) {
            let _ = writeln!(text, "{indent}# {line}");
        }
        if field.aileron_only {
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
