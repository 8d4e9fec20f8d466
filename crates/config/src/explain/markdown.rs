//! The reference page of all keys.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::super::shape::{Field, Kind, Shape};
use super::write::sorted;
use super::{defaults, keys};

/// The page with every key, its type, its default and its meaning.
#[must_use]
pub fn markdown() -> String {
    let schema = keys();
    let defaults = defaults();
    let mut page = Page { homes: homes(Shape::of(&schema), &defaults), text: String::from(INTRODUCTION) };
    for field in Shape::of(&schema).fields() {
        page.section(field.name, field.doc, field.shape, default_of(&defaults, field.name));
    }
    page.text
}

const INTRODUCTION: &str = "\
# Configuration

<!-- Made from the types in crates/executor/src/config; change those. -->

Sections, keys and defaults are those of Flyte's executor, so an existing file works unchanged. Keys marked
**Aileron only** are additions.

- Several files are merged: a later file wins, maps are merged entry by entry, lists are replaced.
- Environment variables lie over files: the dotted key in upper case, dashes as underscores
  (`PLUGINS.K8S.DEFAULT_CPUS=500m`). Empty variables are ignored.
- Flags lie over everything: `--plugins.k8s.default-cpus=500m`.
- Keys have no letter case. Keys of maps are lower-cased unless they contain a dot; write a list of one-entry maps to
  keep their case.
- A map or list that is set replaces its default. `null` and an empty map mean \"not set\".
- Durations are written like `30s`, `5m` or `1h30m`, quantities like `500m` or `1Gi`.
- Every key must exist and every value must fit. All mistakes are reported at once, with file and line.
";

struct Page<'a> {
    homes: Homes<'a>,
    text: String,
}

/// Where each type is described, by its name, and the defaults it has there.
type Homes<'a> = BTreeMap<&'a str, (String, &'a Value)>;

/// How a group of keys sits under its key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Seat {
    Alone,
    InMap,
    InList,
}

impl<'a> Page<'a> {
    /// A heading and a table for one group of keys, then the groups inside it that are described here.
    fn section(&mut self, path: &str, doc: &str, shape: Shape<'a>, default: &'a Value) {
        let _ = write!(self.text, "\n## `{path}`\n\n{}\n\n", escape(doc));
        self.text.push_str("| key | type | default | meaning |\n| --- | --- | --- | --- |\n");
        let mut here = Vec::new();
        for field in shape.fields() {
            let below = format!("{path}.{}", field.name);
            let (kind, default) = self.cells(&below, field, default_of(default, field.name), &mut here);
            let ours = if field.ours { " **Aileron only.**" } else { "" };
            let _ = writeln!(self.text, "| `{}` | {kind} | {default} | {}{ours} |", field.name, escape(field.doc));
        }
        for (path, doc, shape, default) in here {
            self.section(&path, doc, shape, default);
        }
    }

    /// Type and default of a key. A group that is described under this key is put on the list.
    fn cells(
        &self,
        path: &str,
        field: Field<'a>,
        default: &'a Value,
        here: &mut Vec<(String, &'a str, Shape<'a>, &'a Value)>,
    ) -> (String, String) {
        let Some((seat, group)) = group_of(field.shape) else { return (type_text(field.shape), shown(default)) };
        let home = group.type_name().and_then(|name| self.homes.get(name));
        let (home, home_default) = home.map_or((path, &Value::Null), |(home, default)| (home.as_str(), *default));
        if home == path {
            here.push((path.to_owned(), field.doc, group, home_default));
        }
        let link = format!("(#{})", home.to_lowercase().replace('.', ""));
        match seat {
            Seat::Alone if home == path => (format!("[group]{link}"), String::new()),
            Seat::Alone => (format!("same keys as [`{home}`]{link}"), difference(default, home_default)),
            Seat::InMap => (format!("map of [groups]{link}"), shown(default)),
            Seat::InList => (format!("list of [groups]{link}"), shown(default)),
        }
    }
}

/// Chooses where each type is described: where it lies least deep, alone rather than in a collection.
fn homes<'a>(root: Shape<'a>, defaults: &'a Value) -> Homes<'a> {
    let mut homes = Homes::new();
    let mut level = vec![(String::new(), root, defaults)];
    while !level.is_empty() {
        let mut next: Vec<_> = level
            .iter()
            .flat_map(|(path, shape, default)| {
                shape.fields().filter_map(move |field| {
                    let (seat, group) = group_of(field.shape)?;
                    let path = if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
                    let default = if seat == Seat::Alone { default_of(default, field.name) } else { &Value::Null };
                    Some((seat, path, group, default))
                })
            })
            .collect();
        next.sort_by(|left, right| (left.0, &left.1).cmp(&(right.0, &right.1)));
        level = next
            .into_iter()
            .filter(|(_, path, group, default)| {
                let Some(name) = group.type_name() else { return false };
                let new = !homes.contains_key(name);
                if new {
                    homes.insert(name, (path.clone(), *default));
                }
                new
            })
            .map(|(_, path, group, default)| (path, group, default))
            .collect();
    }
    homes
}

/// The group of keys of ours that sits under a key, alone or in a collection.
fn group_of(shape: Shape<'_>) -> Option<(Seat, Shape<'_>)> {
    let ours = |shape: Shape<'_>| shape.kubernetes_type().is_none() && matches!(shape.kind(), Kind::Struct(_));
    match shape.kind() {
        Kind::Struct(_) if ours(shape) => Some((Seat::Alone, shape)),
        Kind::Map(inner) if ours(inner) => Some((Seat::InMap, inner)),
        Kind::List(inner) if ours(inner) => Some((Seat::InList, inner)),
        _ => None,
    }
}

fn default_of<'v>(defaults: &'v Value, key: &str) -> &'v Value {
    defaults.get(key).unwrap_or(&Value::Null)
}

fn type_text(shape: Shape<'_>) -> String {
    if let (Some(name), Kind::Struct(_)) = (shape.kubernetes_type(), shape.kind()) {
        return format!("Kubernetes {name}");
    }
    match shape.kind() {
        Kind::Struct(_) => "group".into(),
        Kind::Map(values) => format!("map of {}", type_text(values)),
        Kind::List(items) => format!("list of {}", type_text(items)),
        Kind::Text => "text".into(),
        Kind::Duration => "duration".into(),
        Kind::Quantity => "quantity".into(),
        Kind::Word(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Kind::Integer { .. } => "whole number".into(),
        Kind::Number => "number".into(),
        Kind::Bool => "boolean".into(),
        Kind::IntOrText => "whole number or text".into(),
        Kind::Any => "anything".into(),
    }
}

fn shown(value: &Value) -> String {
    /// A default longer than this is told in words.
    const LONGEST: usize = 120;
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.is_empty() => "empty".into(),
        Value::Array(items) if items.is_empty() => "empty".into(),
        Value::Object(entries) if entries.is_empty() => "empty".into(),
        Value::String(text) => code(text),
        Value::Object(entries) if value.to_string().len() > LONGEST => format!("{} entries", entries.len()),
        other => code(&sorted(other).to_string()),
    }
}

/// The keys whose default is not that of the place where the type is described. An entry of a collection has no
/// defaults there, so only keys that hold something count.
fn difference(default: &Value, home: &Value) -> String {
    let Value::Object(here) = default else { return shown(default) };
    let same = |key: &str, value: &Value| match home {
        Value::Object(there) => there.get(key) == Some(value),
        _ => matches!(value.to_string().as_str(), "null" | "\"\"" | "0" | "false" | "[]" | "{}" | "\"0s\""),
    };
    let different: Map<String, Value> =
        here.iter().filter(|(key, value)| !same(key, value)).map(|(key, value)| (key.clone(), value.clone())).collect();
    if different.is_empty() { String::new() } else { code(&sorted(&Value::Object(different)).to_string()) }
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

fn escape(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
