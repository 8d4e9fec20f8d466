//! Prints the configuration in effect and the origin of each value.

mod located;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::to_value;
use super::write::{inline, key, needs_list};
use crate::error::Origin;
use crate::load::Loaded;
use crate::schema::credentials::Secrets;
use crate::schema::shape::{Kind, Shape};
use crate::values::tree::Tree;

pub use located::located;

/// Which keys are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All keys.
    All,
    /// Only keys that a source has set.
    Set,
}

/// The configuration in effect as YAML. A comment after each value names its origin: file and line, environment
/// variable, flag, or default.
#[must_use]
pub fn show(loaded: &Loaded, selection: Selection, secrets: Secrets) -> String {
    let schema = &loaded.schema;
    let mut view = View { set: &loaded.set, selection, secrets, text: String::new() };
    view.group(Shape::of(schema), &to_value(&loaded.config), &mut Vec::new());
    view.text
}

struct View<'a> {
    set: &'a Tree,
    selection: Selection,
    secrets: Secrets,
    text: String,
}

impl View<'_> {
    fn group<'p>(&mut self, shape: Shape<'p>, value: &Value, path: &mut Vec<&'p str>) {
        for field in shape.fields() {
            path.push(field.name);
            self.entry(field.shape, value.get(field.name).unwrap_or(&Value::Null), path);
            path.pop();
        }
    }

    fn entry<'p>(&mut self, shape: Shape<'p>, value: &Value, path: &mut Vec<&'p str>) {
        let Some(name) = path.last().copied() else { return };
        let indent = "  ".repeat(path.len() - 1);
        if matches!((shape.kind(), value), (Kind::Struct(_), Value::Object(_))) && shape.kubernetes_type().is_none() {
            let before = self.text.len();
            let _ = writeln!(self.text, "{indent}{name}:");
            let after_title = self.text.len();
            self.group(shape, value, path);
            if self.text.len() == after_title {
                self.text.truncate(before);
            }
            return;
        }
        let origin = self.origin(path);
        if origin == Origin::Default && self.selection == Selection::Set {
            return;
        }
        match (shape.kind(), value) {
            (Kind::Map(values), Value::Object(entries)) if !entries.is_empty() => {
                let _ = writeln!(self.text, "{indent}{name}: # {origin}");
                let dash = if needs_list(entries.keys()) { "- " } else { "" };
                for (name, value) in entries.iter().collect::<BTreeMap<_, _>>() {
                    let path = [path.as_slice(), &[name]].concat();
                    let origin = self.origin(&path);
                    let value = inline(&self.secrets.mask(values, &path, value));
                    let _ = writeln!(self.text, "{indent}  {dash}{}: {value} # {origin}", key(name));
                }
            }
            (Kind::List(_), Value::Array(items)) if !items.is_empty() => {
                let _ = writeln!(self.text, "{indent}{name}: # {origin}");
                let items = self.secrets.mask(shape, path, &Value::Array(items.clone()));
                for item in items.as_array().into_iter().flatten() {
                    let _ = writeln!(self.text, "{indent}  - {}", inline(item));
                }
            }
            _ => {
                let value = inline(&self.secrets.mask(shape, path, value));
                let _ = writeln!(self.text, "{indent}{name}: {value} # {origin}");
            }
        }
    }

    /// The origin of a value. For a Kubernetes object it is the origin of the first of its fields that was set.
    fn origin(&self, path: &[&str]) -> Origin {
        fn first(tree: &Tree) -> Origin {
            match tree {
                Tree::Struct(fields) => {
                    fields.values().map(first).find(|origin| *origin != Origin::Default).unwrap_or(Origin::Default)
                }
                Tree::Map { origin, .. } | Tree::List(_, origin) | Tree::Leaf(_, origin) => origin.clone(),
            }
        }
        let tree = path.iter().try_fold(self.set, |tree, key| tree.get(key));
        tree.map_or(Origin::Default, first)
    }
}
