//! Finds settings that have no effect, so that the user can be warned about them.

use serde_json::Value;

use crate::error::{Origin, Warning};
use crate::schema::no_effect::NoEffect;
use crate::schema::shape::{Kind, Shape};
use crate::values::tree::Tree;

/// A setting that has no effect.
#[derive(Debug, PartialEq)]
struct Setting<'a> {
    path: String,
    origin: Origin,
    reason: &'a str,
}

/// One warning that lists all settings without effect. A setting that is equal to its default is not listed: it changes
/// nothing anyway.
pub(crate) fn warning(root: Shape<'_>, defaults: &Value, set: &Tree) -> Option<Warning> {
    let mut search = Search { path: Vec::new(), found: Vec::new() };
    search.tree(root, Mark { reason: None, of_place: NoEffect::Unmarked }, defaults, set);
    if search.found.is_empty() {
        return None;
    }
    let message = format!("these settings have no effect: {}", by_reason(&search.found).join("; "));
    Some(Warning { origin: Origin::Default, path: String::new(), message })
}

/// The settings with the same reason together: `a (file.yaml:1), b (file.yaml:2): reason`.
fn by_reason(found: &[Setting<'_>]) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for Setting { path, origin, reason } in found {
        let text = format!("{path} ({origin})");
        match groups.iter_mut().find(|(known, _)| known == reason) {
            Some((_, settings)) => settings.push(text),
            None => groups.push((reason, vec![text])),
        }
    }
    groups.into_iter().map(|(reason, settings)| format!("{}: {reason}", settings.join(", "))).collect()
}

/// What the marks above a value say about it.
#[derive(Clone, Copy)]
struct Mark<'a> {
    /// Why the value has no effect, if it has none.
    reason: Option<&'a str>,
    /// The mark of the field that holds the group, list or map. It may name keys of the group.
    of_place: NoEffect<'a>,
}

struct Search<'a> {
    path: Vec<String>,
    found: Vec<Setting<'a>>,
}

impl<'a> Search<'a> {
    fn tree(&mut self, shape: Shape<'a>, mark: Mark<'a>, default: &Value, tree: &Tree) {
        match (tree, mark.reason, shape.kind()) {
            (Tree::Struct(fields), ..) => {
                for (name, tree) in fields {
                    let Some(field) = shape.field(name) else { continue };
                    let reason = mark
                        .reason
                        .or_else(|| field.no_effect.reason())
                        .or_else(|| mark.of_place.reason_below(field.name));
                    let default = default.get(field.name).or(field.default).unwrap_or(&Value::Null);
                    self.below(name, field.shape, Mark { reason, of_place: field.no_effect }, default, tree);
                }
            }
            (Tree::Map { origin, .. } | Tree::List(_, origin) | Tree::Leaf(_, origin), Some(reason), _) => {
                let value = tree.to_json();
                if value != *default && !(is_zero(&value) && is_zero(default)) {
                    self.found.push(Setting { path: self.path.join("."), origin: origin.clone(), reason });
                }
            }
            (Tree::Map { entries, .. }, None, Kind::Map(values)) => {
                for (name, tree) in entries {
                    self.below(name, values, mark, default.get(name).unwrap_or(&Value::Null), tree);
                }
            }
            (Tree::List(items, _), None, Kind::List(shape)) => {
                for (index, tree) in items.iter().enumerate() {
                    self.below(&index.to_string(), shape, mark, &Value::Null, tree);
                }
            }
            _ => {}
        }
    }

    fn below(&mut self, key: &str, shape: Shape<'a>, mark: Mark<'a>, default: &Value, tree: &Tree) {
        self.path.push(key.to_owned());
        self.tree(shape, mark, default, tree);
        self.path.pop();
    }
}

/// True for values that mean "not set". Defaults leave some of them out or write them as null.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty() || text == "0s",
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    }
}
