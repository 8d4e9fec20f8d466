//! The reference page of all keys.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::write::sorted;
use crate::schema::foreign;
use crate::schema::shape::{Field, Kind, Shape};

/// The page with every key of the schema, its type, its default and its meaning.
pub(crate) fn markdown_of(schema: &Value, defaults: &Value) -> String {
    let mut page = Page { homes: homes(Shape::of(schema), defaults), text: String::from(INTRODUCTION) };
    for field in Shape::of(schema).fields() {
        match field.no_effect.reason() {
            Some(reason) => page.section_without_effect(field, reason),
            None => page.section(field.name, field.doc, field.shape, default_of(defaults, field.name)),
        }
    }
    page.unread_sections();
    page.text
}

const INTRODUCTION: &str = "\
# Configuration

<!-- Generated from the types in crates/config, crates/machinery and crates/plugins: change the comments there. -->

Sections, keys and defaults are those of Flyte's executor, so the files of an installation can be used as they are.

- [Sections of other parts of Flyte](#sections-that-are-not-read) are not read. A section that nobody knows is not read
  either and gives a warning; with `--strict` it is an error. An unknown key in a section that is read is an error.
- Keys marked **Aileron only** do not exist in Flyte's executor.
- Keys marked **No effect** are accepted, so that an existing file can be loaded, but the executor does not use them. If
  a file sets such a key to something else than its default, the executor prints a warning.
- Several files are merged: a later file wins, maps are merged entry by entry, lists are replaced.
- Environment variables win over files. The name of a variable is the key with its sections in upper case, with
  underscores instead of dashes (`PLUGINS.K8S.DEFAULT_CPUS=500m`). Empty variables are ignored.
- Flags win over environment variables and files: `--plugins.k8s.default-cpus=500m`.
- The letter case of keys does not matter. The keys of a map become lower case unless they contain a dot. To keep their
  letter case, write a list of maps with one entry each.
- A map or list that is set replaces its default as a whole. `null` and an empty map mean \"not set\".
- Durations are written like `30s`, `5m` or `1h30m`, quantities like `500m` or `1Gi`. A duration without a unit counts
  nanoseconds, as in Flyte: a number below a million is refused, because another unit was surely meant.
- Every value must have the right type. All mistakes are reported at once, with file and line. `aileron config check`
  refuses exactly what `aileron run` refuses before it connects to the cluster.
";

struct Page<'a> {
    homes: Homes<'a>,
    text: String,
}

/// For each type, by its name: the path of the section that describes it, and the defaults it has there.
type Homes<'a> = BTreeMap<&'a str, (String, &'a Value)>;

/// What a key holds. The order is the order of preference of [`homes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    OneGroup,
    MapOfGroups,
    ListOfGroups,
}

impl<'a> Page<'a> {
    /// The sections that are known by name and not read, grouped by what they belong to.
    fn unread_sections(&mut self) {
        let mut owners: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (prefix, list) in [("", foreign::SECTIONS), ("plugins.", foreign::PLUGIN_SECTIONS)] {
            for section in list {
                owners.entry(section.owner).or_default().push(format!("`{prefix}{}`", section.name));
            }
        }
        self.text.push_str("\n## Sections that are not read\n\n");
        self.text.push_str("They belong to other parts of Flyte. The executor ignores them and says so once.\n\n");
        self.text.push_str("| belongs to | sections |\n| --- | --- |\n");
        for (owner, sections) in owners {
            let _ = writeln!(self.text, "| {owner} | {} |", sections.join(", "));
        }
    }

    /// A top-level section that has no effect: why, and the keys that are accepted.
    fn section_without_effect(&mut self, field: Field<'_>, reason: &str) {
        let _ = write!(self.text, "\n## `{}`\n\n{}\n\n", field.name, escape(field.doc));
        let _ = writeln!(self.text, "{}", without_effect(field.shape, reason));
    }

    /// A heading and a table for one group of keys, then the groups inside it that are described here.
    fn section(&mut self, path: &str, doc: &str, shape: Shape<'a>, default: &'a Value) {
        let _ = write!(self.text, "\n## `{path}`\n\n{}\n\n", escape(doc));
        self.text.push_str("| key | type | default | meaning |\n| --- | --- | --- | --- |\n");
        let mut here = Vec::new();
        for field in shape.fields() {
            let below = format!("{path}.{}", field.name);
            let (kind, default) = self.cells(&below, field, default_of(default, field.name), &mut here);
            let _ = writeln!(self.text, "| `{}` | {kind} | {default} | {} |", field.name, meaning(field));
        }
        for (path, doc, shape, default) in here {
            self.section(&path, doc, shape, default);
        }
    }

    /// Type and default of a key. If the group of the key gets its own section here, it is added to `here`.
    fn cells(
        &self,
        path: &str,
        field: Field<'a>,
        default: &'a Value,
        here: &mut Vec<(String, &'a str, Shape<'a>, &'a Value)>,
    ) -> (String, String) {
        let group = group_of(field.shape);
        if group.is_some() && field.no_effect.reason().is_some() {
            return (type_text(field.shape), String::new());
        }
        let Some((holds, group)) = group else { return (type_text(field.shape), shown(default)) };
        let home = group.type_name().and_then(|name| self.homes.get(name));
        let (home, home_default) = home.map_or((path, &Value::Null), |(home, default)| (home.as_str(), *default));
        if home == path {
            here.push((path.to_owned(), field.doc, group, home_default));
        }
        let link = format!("(#{})", home.to_lowercase().replace('.', ""));
        match holds {
            Holds::OneGroup if home == path => (format!("[group]{link}"), String::new()),
            Holds::OneGroup => (format!("same keys as [`{home}`]{link}"), difference(default, home_default)),
            Holds::MapOfGroups => (format!("map of [groups]{link}"), shown(default)),
            Holds::ListOfGroups => (format!("list of [groups]{link}"), shown(default)),
        }
    }
}

/// Chooses the section that describes each type: the place with the shortest path, and one that is not inside a list or
/// map if there is one. Places without effect are not chosen.
fn homes<'a>(root: Shape<'a>, defaults: &'a Value) -> Homes<'a> {
    let mut homes = Homes::new();
    let mut level = vec![(String::new(), root, defaults)];
    while !level.is_empty() {
        let mut next: Vec<_> = level
            .iter()
            .flat_map(|(path, shape, default)| {
                let effective = shape.fields().filter(|field| field.no_effect.reason().is_none());
                effective.filter_map(move |field| {
                    let (holds, group) = group_of(field.shape)?;
                    let path = if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
                    let default = if holds == Holds::OneGroup { default_of(default, field.name) } else { &Value::Null };
                    Some((holds, path, group, default))
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

/// The last cell of a row: what the key does, or why it does nothing.
fn meaning(field: Field<'_>) -> String {
    if let Some(reason) = field.no_effect.reason() {
        return without_effect(field.shape, reason);
    }
    let mut text = escape(field.doc);
    if field.aileron_only {
        text.push_str(" **Aileron only.**");
    }
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (key, reason) in field.no_effect.keys_below() {
        by_reason.entry(reason).or_default().push(code(key));
    }
    for (reason, keys) in by_reason {
        let _ = write!(text, " **No effect** here: {} ({}).", keys.join(", "), escape(reason));
    }
    text
}

/// Why a key has no effect and, for a group, which keys are accepted directly below it.
fn without_effect(shape: Shape<'_>, reason: &str) -> String {
    let keys: Vec<String> =
        group_of(shape).iter().flat_map(|(_, group)| group.fields()).map(|field| code(field.name)).collect();
    let accepted = if keys.is_empty() { String::new() } else { format!(" Accepted keys: {}.", keys.join(", ")) };
    format!("**No effect:** {}.{accepted}", escape(reason))
}

/// The group that a key holds, alone or in a list or map. Kubernetes types are not groups: their own documentation
/// describes them.
fn group_of(shape: Shape<'_>) -> Option<(Holds, Shape<'_>)> {
    let is_group = |shape: Shape<'_>| shape.kubernetes_type().is_none() && matches!(shape.kind(), Kind::Struct(_));
    match shape.kind() {
        Kind::Struct(_) if is_group(shape) => Some((Holds::OneGroup, shape)),
        Kind::Map(inner) if is_group(inner) => Some((Holds::MapOfGroups, inner)),
        Kind::List(inner) if is_group(inner) => Some((Holds::ListOfGroups, inner)),
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
    /// A map with a longer text than this is printed as its number of entries.
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

/// The keys whose default differs from the section that describes the type. If that section is for the entries of a
/// list or map, it has no defaults: then all keys with a non-zero default are listed.
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
