//! Putting facts in place of `{placeholders}`.

use serde_json::{Map, Value};

/// A placeholder that stands for nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing can be put in place of {{{0}}}; see the documentation of rule files for what can")]
pub struct UnknownPlaceholder(String);

/// What is known about an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Placeholders and what takes their place.
    pub words: Vec<(String, String)>,
    /// Roles and how many replicas they have.
    pub replicas: Vec<(String, i64)>,
}

/// The names of those in [`Facts::words`] that are always there.
pub(super) const WORDS: [&str; 8] = ["now", "name", "namespace", "uid", "hex", "short", "attempt", "message"];

const ROLE: &str = "{role}";

impl Facts {
    fn with(&self, name: String, word: String) -> Self {
        let mut words = self.words.clone();
        words.push((name, word));
        Self { words, replicas: self.replicas.clone() }
    }

    fn word(&self, name: &str) -> Option<String> {
        let count = |role: &str| self.replicas.iter().find(|(one, _)| one == role).map(|(_, count)| count.to_string());
        let word = self.words.iter().rev().find(|(one, _)| one == name).map(|(_, word)| word.clone());
        word.or_else(|| name.strip_prefix("replicas.").and_then(count))
    }

    /// The facts for each time that a text which mentions a role or a replica is to be there.
    fn times(&self, mentions: impl Fn(&str) -> bool) -> Vec<Self> {
        if mentions(ROLE) {
            let roles = self.replicas.iter().filter(|(_, count)| *count > 0);
            let of = |(role, count): &(String, i64)| {
                self.with("role".into(), role.clone()).with("replicas".into(), count.to_string())
            };
            return roles.map(of).collect();
        }
        let indexed = self.replicas.iter().find(|(role, _)| {
            let name = index_name(role);
            mentions(&format!("{{{name}}}")) && self.word(&name).is_none()
        });
        match indexed {
            Some((role, count)) => (1..=*count).map(|at| self.with(index_name(role), at.to_string())).collect(),
            None => vec![self.clone()],
        }
    }
}

/// The value with everything filled in.
pub(super) fn fill(value: &Value, facts: &Facts) -> Result<Value, UnknownPlaceholder> {
    Ok(match value {
        Value::String(text) => filled_text(text, facts)?,
        Value::Array(items) => {
            let mut filled = Vec::new();
            for item in items {
                for facts in facts.times(|what| mentions(item, what)) {
                    filled.push(fill(item, &facts)?);
                }
            }
            Value::Array(filled)
        }
        Value::Object(fields) => {
            let mut filled = Map::new();
            for (key, value) in fields {
                for facts in facts.times(|what| key.contains(what)) {
                    filled.insert(replaced(key, &facts)?, fill(value, &facts)?);
                }
            }
            Value::Object(filled)
        }
        other => other.clone(),
    })
}

/// Whether the value can be filled for every object, given the roles of the kind.
pub(super) fn check<'a>(value: &Value, roles: impl Iterator<Item = &'a String>) -> Result<(), UnknownPlaceholder> {
    let words = WORDS.iter().map(|word| ((*word).to_owned(), String::new())).collect();
    let facts = Facts { words, replicas: roles.map(|role| (role.clone(), 1)).collect() };
    fill(value, &facts).map(drop)
}

fn filled_text(text: &str, facts: &Facts) -> Result<Value, UnknownPlaceholder> {
    let filled = replaced(text, facts)?;
    let is_placeholder = text.starts_with('{') && text.ends_with('}') && text.matches('{').count() == 1;
    let is_number = is_placeholder && ["{attempt}", "{replicas", "{index."].iter().any(|start| text.starts_with(start));
    Ok(match filled.parse::<i64>() {
        Ok(number) if is_number => number.into(),
        _ => filled.into(),
    })
}

fn replaced(text: &str, facts: &Facts) -> Result<String, UnknownPlaceholder> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        filled.push_str(before);
        filled.push_str(&facts.word(name).ok_or_else(|| UnknownPlaceholder(name.to_owned()))?);
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

    fn facts() -> Facts {
        let words = [("name", "job"), ("message", "7"), ("attempt", "2")];
        Facts {
            words: words.map(|(name, word)| (name.to_owned(), word.to_owned())).into(),
            replicas: vec![("Master".into(), 0), ("Worker".into(), 2)],
        }
    }

    #[test]
    fn counts_become_numbers_and_texts_stay_texts() {
        let template = json!({"a": "{name}-{attempt}", "b": "{attempt}", "c": "{message}", "d": "{replicas.Worker}"});
        assert_eq!(fill(&template, &facts()).unwrap(), json!({"a": "job-2", "b": 2, "c": "7", "d": 2}));
    }

    #[test]
    fn what_mentions_roles_or_replicas_is_there_for_each() {
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
        assert_eq!(fill(&template, &facts()).unwrap(), filled);
    }

    #[test]
    fn what_stands_for_nothing_is_told() {
        assert_eq!(fill(&json!(["{nobody}"]), &facts()), Err(UnknownPlaceholder("nobody".into())));
        assert_eq!(fill(&json!("{role}"), &facts()), Err(UnknownPlaceholder("role".into())));
        assert_eq!(fill(&json!("a { b"), &facts()).unwrap(), json!("a { b"));
    }
}
