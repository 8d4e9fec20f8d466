//! The configuration in effect, and where each value came from.

mod located;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::super::error::Origin;
use super::super::load::Loaded;
use super::super::shape::{Kind, Shape};
use super::super::tree::Tree;
use super::write::{inline, key, needs_list};
use super::{keys, to_value};

pub use located::located;

/// Which keys are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All keys.
    All,
    /// Only keys that somebody has set.
    Set,
}

/// What a value looks like that should not be on a screen.
const HIDDEN: &str = "<hidden>";

/// The configuration in effect as YAML. A comment behind each value says where it came from: file and line,
/// environment variable, flag, or default. Passwords and secret keys are hidden.
#[must_use]
pub fn show(loaded: &Loaded, selection: Selection) -> String {
    let schema = keys();
    let mut view = View { set: &loaded.set, selection, text: String::new() };
    view.group(Shape::of(&schema), &to_value(&loaded.config), &mut Vec::new());
    view.text
}

struct View<'a> {
    set: &'a Tree,
    selection: Selection,
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
            (Kind::Map(_), Value::Object(entries)) if !entries.is_empty() => {
                let _ = writeln!(self.text, "{indent}{name}: # {origin}");
                let dash = if needs_list(entries.keys()) { "- " } else { "" };
                for (name, value) in entries.iter().collect::<BTreeMap<_, _>>() {
                    let origin = self.origin(&[path.as_slice(), &[name]].concat());
                    let value = inline(&hidden(name, value));
                    let _ = writeln!(self.text, "{indent}  {dash}{}: {value} # {origin}", key(name));
                }
            }
            (Kind::List(_), Value::Array(items)) if !items.is_empty() => {
                let _ = writeln!(self.text, "{indent}{name}: # {origin}");
                for item in items {
                    let _ = writeln!(self.text, "{indent}  - {}", inline(item));
                }
            }
            _ => {
                let _ = writeln!(self.text, "{indent}{name}: {} # {origin}", inline(&hidden(name, value)));
            }
        }
    }

    /// The origin of a value; a Kubernetes object has that of the first value set in it.
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

/// The value, or a placeholder when its key says that it is a secret.
fn hidden(name: &str, value: &Value) -> Value {
    let name = name.to_lowercase();
    let secret = name == "password" || name == "secret_key" || name == "access_key" || name.ends_with("_password");
    match value {
        Value::String(text) if secret && !text.is_empty() => Value::String(HIDDEN.to_owned()),
        other => other.clone(),
    }
}
