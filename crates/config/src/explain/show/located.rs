//! The configuration in effect as JSON, for other programs: key, value and origin.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::to_value;
use super::{Selection, View};
use crate::error::Origin;
use crate::load::Loaded;
use crate::schema::credentials::Secrets;
use crate::schema::shape::{Kind, Shape};

/// The configuration in effect as a list of `{key, value, origin}`, one for each key and for each entry of a map,
/// in alphabetical order.
#[must_use]
pub fn located(loaded: &Loaded, selection: Selection, secrets: Secrets) -> Value {
    let schema = &loaded.schema;
    let view = View { set: &loaded.set, selection, secrets, text: String::new() };
    let mut rows = Vec::new();
    group(&view, Shape::of(schema), &to_value(&loaded.config), &mut Vec::new(), &mut rows);
    rows.sort_by(|left, right| left["key"].as_str().cmp(&right["key"].as_str()));
    Value::Array(rows)
}

fn group<'p>(view: &View<'_>, shape: Shape<'p>, value: &Value, path: &mut Vec<&'p str>, rows: &mut Vec<Value>) {
    for field in shape.fields() {
        path.push(field.name);
        let value = value.get(field.name).unwrap_or(&Value::Null);
        match (field.shape.kind(), value) {
            (Kind::Struct(_), Value::Object(_)) if field.shape.kubernetes_type().is_none() => {
                group(view, field.shape, value, path, rows);
            }
            (Kind::Map(values), Value::Object(entries)) if !entries.is_empty() => {
                for (name, value) in entries.iter().collect::<BTreeMap<_, _>>() {
                    row(view, values, &[path.as_slice(), &[name]].concat(), value, rows);
                }
            }
            _ => row(view, field.shape, path, value, rows),
        }
        path.pop();
    }
}

fn row(view: &View<'_>, shape: Shape<'_>, path: &[&str], value: &Value, rows: &mut Vec<Value>) {
    let origin = view.origin(path);
    if origin != Origin::Default || view.selection == Selection::All {
        let value = view.secrets.mask(shape, path, value);
        rows.push(json!({"key": path.join("."), "value": value, "origin": origin.to_string()}));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::load::Loader;
    use crate::sources::Sources;

    #[test]
    fn tells_where_each_value_came_from_and_hides_secrets() {
        let text = "executor:\n  cluster: east\nstorage:\n  stow:\n    config:\n      secret_key: hush\n";
        let mut sources = Sources::file("a.yaml", text);
        sources.flags.push(("executor.leaderElect".into(), "true".into()));
        let loaded = Loader::new().load(&sources).unwrap();
        let rows = located(&loaded, Selection::Set, Secrets::Hidden);
        let expected = json!([
            {"key": "executor.cluster", "value": "east", "origin": "a.yaml:2"},
            {"key": "executor.leaderElect", "value": true, "origin": "flag --executor.leaderElect"},
            {"key": "storage.stow.config.secret_key", "value": "<hidden>", "origin": "a.yaml:6"},
        ]);
        assert_eq!(rows, expected);
        assert!(located(&loaded, Selection::All, Secrets::Hidden).as_array().unwrap().len() > 100);
        assert!(!located(&loaded, Selection::All, Secrets::Hidden).to_string().contains("hush"));
    }
}
