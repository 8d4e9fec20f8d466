//! Deciding what happens next to an object.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::fill::{Facts, UnknownPlaceholder, WORDS, fill};
use super::request::{FAIL, HANG, Request, SUCCEED};
use super::rules::{Rules, Stage};
use crate::object::{is_terminating, meta};
use crate::table::json_path;

/// How much of a uid stands for `{short}`: as much as the random ends of names that Kubernetes generates.
const SHORT: usize = 5;

/// What happens to an object next, and how long that takes.
#[derive(Debug)]
pub(super) struct Step<'a> {
    pub stage: &'a Stage,
    pub after: Duration,
}

impl Rules {
    /// What happens next; nothing to an object that has ended, hangs or is being deleted.
    pub(super) fn next(&self, object: &Value) -> Option<Step<'_>> {
        if is_terminating(object) {
            return None;
        }
        let request = self.request(object);
        let fits = |stage: &&Stage| {
            let passes = stage.outcome.all().is_empty() || stage.outcome.has(&request.outcome);
            passes && stage.when.iter().all(|(path, words)| words.has(&text_at(object, path)))
        };
        let stage = self.stages.iter().find(fits)?;
        let run_for = request.run_for.filter(|_| !stage.outcome.all().is_empty());
        Some(Step { stage, after: run_for.unwrap_or(stage.after).try_into().unwrap_or_default() })
    }

    /// The object's status after a stage.
    pub(super) fn status_after(
        &self,
        stage: &Stage,
        object: &Value,
        now: Timestamp,
    ) -> Result<Value, UnknownPlaceholder> {
        let facts = self.facts(object, now);
        let mut status = object.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
        json_patch::merge(&mut status, &fill(&Value::Object(stage.status.clone()), &facts)?);
        for condition in &stage.conditions {
            set_condition(&mut status, &fill(condition, &facts)?, &time(now));
        }
        Ok(status)
    }

    /// What the object asks for. What nobody knows how to do is a failure that says so.
    fn request(&self, object: &Value) -> Request {
        let mut request = Request::of(object);
        let known =
            |outcome: &str| [SUCCEED, FAIL, HANG].contains(&outcome) || self.outcomes().any(|one| one == outcome);
        if !known(&request.outcome) {
            let mut all: Vec<_> = self.outcomes().chain([HANG]).collect();
            all.sort_unstable();
            all.dedup();
            let (kind, all) = (&self.kind, all.join(", "));
            request.message = Some(format!(
                "the simulation of {kind} does not know the outcome {:?}; it knows {all}",
                request.outcome
            ));
            request.outcome = FAIL.to_owned();
        }
        request
    }

    fn facts(&self, object: &Value, now: Timestamp) -> Facts {
        let request = self.request(object);
        let uid = meta(object, "uid");
        let hex: String = uid.chars().filter(char::is_ascii_hexdigit).collect();
        let short = hex.chars().take(SHORT).collect();
        let values = [
            time(now),
            meta(object, "name").to_owned(),
            meta(object, "namespace").to_owned(),
            uid.to_owned(),
            hex,
            short,
            request.attempt.to_string(),
            request.message.unwrap_or_else(|| self.message.clone()),
        ];
        let count = |path: &String| json_path::find(object, path).iter().filter_map(|value| value.as_i64()).sum();
        Facts {
            words: WORDS.iter().map(|word| (*word).to_owned()).zip(values).collect(),
            replicas: self.replicas.iter().map(|(role, path)| (role.clone(), count(path))).collect(),
        }
    }
}

/// Puts a condition in place of the one of its type. What the new one does not say stays; the time is that of the last
/// change of its status.
fn set_condition(status: &mut Value, condition: &Value, now: &str) {
    let Some(fields) = status.as_object_mut() else { return };
    let conditions = fields.entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(all) = conditions.as_array_mut() else { return };
    let at = all.iter().position(|one| one["type"] == condition["type"]).unwrap_or_else(|| {
        all.push(Value::Object(Map::new()));
        all.len() - 1
    });
    let Some(place) = all.get_mut(at) else { return };
    let changes = place.get("status") != condition.get("status");
    json_patch::merge(place, condition);
    if changes {
        json_patch::merge(place, &json!({"lastTransitionTime": now}));
    }
}

/// What a path leads to, as text; empty if nowhere.
fn text_at(object: &Value, path: &str) -> String {
    match json_path::find(object, path).first() {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

#[cfg(test)]
mod tests;
