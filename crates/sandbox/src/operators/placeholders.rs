//! Replaces `{placeholders}` in the status of a stage.

use serde_json::{Map, Value};

/// An unknown placeholder.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown placeholder {{{0}}}; the documentation of rule files lists the known ones")]
pub struct UnknownPlaceholder(String);

/// The values of the placeholders for one object.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    /// Names of placeholders and their values.
    pub named: Vec<(String, String)>,
    /// Roles and the number of their replicas.
    pub replicas: Vec<(String, i64)>,
}

/// The placeholders in [`Values::named`] that every object has.
pub(super) const NAMES: [&str; 8] = ["now", "name", "namespace", "uid", "hex", "short", "attempt", "message"];

const ROLE: &str = "{role}";

impl Values {
    fn with(&self, name: String, value: String) -> Self {
        let mut named = self.named.clone();
        named.push((name, value));
        Self { named, replicas: self.replicas.clone() }
    }

    fn get(&self, name: &str) -> Option<String> {
        let count = |role: &str| self.replicas.iter().find(|(one, _)| one == role).map(|(_, count)| count.to_string());
        let value = self.named.iter().rev().find(|(one, _)| one == name).map(|(_, value)| value.clone());
        value.or_else(|| name.strip_prefix("replicas.").and_then(count))
    }

    /// The values for each copy of an item. An item with `{role}` is copied for each role with replicas, an item with
    /// `{index.ROLE}` for each replica of the role. Other items occur once.
    fn copies(&self, mentions: impl Fn(&str) -> bool) -> Vec<Self> {
        if mentions(ROLE) {
            let roles = self.replicas.iter().filter(|(_, count)| *count > 0);
            let of = |(role, count): &(String, i64)| {
                self.with("role".into(), role.clone()).with("replicas".into(), count.to_string())
            };
            return roles.map(of).collect();
        }
        let indexed = self.replicas.iter().find(|(role, _)| {
            let name = index_name(role);
            mentions(&format!("{{{name}}}")) && self.get(&name).is_none()
        });
        match indexed {
            Some((role, count)) => (1..=*count).map(|at| self.with(index_name(role), at.to_string())).collect(),
            None => vec![self.clone()],
        }
    }
}

/// The value with all placeholders replaced.
pub(super) fn fill(value: &Value, values: &Values) -> Result<Value, UnknownPlaceholder> {
    Ok(match value {
        Value::String(text) => filled_text(text, values)?,
        Value::Array(items) => {
            let mut filled = Vec::new();
            for item in items {
                for values in values.copies(|what| mentions(item, what)) {
                    filled.push(fill(item, &values)?);
                }
            }
            Value::Array(filled)
        }
        Value::Object(fields) => {
            let mut filled = Map::new();
            for (key, value) in fields {
                for values in values.copies(|what| key.contains(what)) {
                    filled.insert(replaced(key, &values)?, fill(value, &values)?);
                }
            }
            Value::Object(filled)
        }
        other => other.clone(),
    })
}

/// Checks that all placeholders are known, given the roles of the kind.
pub(super) fn check<'a>(value: &Value, roles: impl Iterator<Item = &'a String>) -> Result<(), UnknownPlaceholder> {
    let named = NAMES.iter().map(|name| ((*name).to_owned(), String::new())).collect();
    let values = Values { named, replicas: roles.map(|role| (role.clone(), 1)).collect() };
    fill(value, &values).map(drop)
}

/// A text with its placeholders replaced. A text that is only a count, such as `{attempt}`, becomes a number.
fn filled_text(text: &str, values: &Values) -> Result<Value, UnknownPlaceholder> {
    let filled = replaced(text, values)?;
    let is_placeholder = text.starts_with('{') && text.ends_with('}') && text.matches('{').count() == 1;
    let is_number = is_placeholder && ["{attempt}", "{replicas", "{index."].iter().any(|start| text.starts_with(start));
    Ok(match filled.parse::<i64>() {
        Ok(number) if is_number => number.into(),
        _ => filled.into(),
    })
}

fn replaced(text: &str, values: &Values) -> Result<String, UnknownPlaceholder> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        filled.push_str(before);
        filled.push_str(&values.get(name).ok_or_else(|| UnknownPlaceholder(name.to_owned()))?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

fn mentions(value: &Value, what: &str) -> bool {
    match value {
        Value::String(text) => text.contains(what),
        Value::Array(items) => items.iter().any(|item| mentions(item, what)),
        Value::Object(fields) => fields.iter().any(|(key, value)| key.contains(what) || mentions(value, what)),
        _ => false,
    }
}

fn index_name(role: &str) -> String {
    format!("index.{role}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn values() -> Values {
        let named = [("name", "job"), ("message", "7"), ("attempt", "2")];
        Values {
            named: named.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            replicas: vec![("Master".into(), 0), ("Worker".into(), 2)],
        }
    }

    #[test]
    fn counts_become_numbers_and_texts_stay_texts() {
        let template = json!({"a": "{name}-{attempt}", "b": "{attempt}", "c": "{message}", "d": "{replicas.Worker}"});
        assert_eq!(fill(&template, &values()).unwrap(), json!({"a": "job-2", "b": 2, "c": "7", "d": 2}));
    }

    #[test]
    fn items_with_roles_or_replicas_are_copied_for_each() {
        let template = json!({
            "byRole": {"{role}": {"active": "{replicas}"}, "kept": 1},
            "byReplica": {"{name}-exec-{index.Worker}": "RUNNING"},
            "list": [{"name": "{role}", "ready": "{replicas}"}, "{name}-{index.Worker}", "{index.Master}"],
        });
        let filled = json!({
            "byRole": {"Worker": {"active": 2}, "kept": 1},
            "byReplica": {"job-exec-1": "RUNNING", "job-exec-2": "RUNNING"},
            "list": [{"name": "Worker", "ready": 2}, "job-1", "job-2"],
        });
        assert_eq!(fill(&template, &values()).unwrap(), filled);
    }

    #[test]
    fn an_unknown_placeholder_is_an_error() {
        assert_eq!(fill(&json!(["{nobody}"]), &values()), Err(UnknownPlaceholder("nobody".into())));
        assert_eq!(fill(&json!("{role}"), &values()), Err(UnknownPlaceholder("role".into())));
        assert_eq!(fill(&json!("a { b"), &values()).unwrap(), json!("a { b"));
    }
}
