//! Decides the next stage of an object and computes the status after it.

use std::time::Duration;

use aileron_kubekit::json_path;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::object::{is_terminating, meta};
use super::placeholders::{NAMES, UnknownPlaceholder, Values, fill};
use super::request::{FAIL, HANG, Request, SUCCEED};
use super::rules::{Rules, Stage};

/// Length of the placeholder `{short}`: as many characters as the random end of a generated name has.
const SHORT_CHARS: usize = 5;

/// The next stage of an object, and the delay before it.
#[derive(Debug)]
pub(super) struct NextStep<'a> {
    pub stage: &'a Stage,
    pub after: Duration,
}

impl Rules {
    /// The next stage. `None` if the object has ended, hangs or is being deleted.
    pub(super) fn next(&self, object: &Value) -> Option<NextStep<'_>> {
        if is_terminating(object) {
            return None;
        }
        let request = self.request(object);
        let fits = |stage: &&Stage| {
            let passes = stage.outcome.all().is_empty() || stage.outcome.has(&request.outcome);
            passes && stage.when.iter().all(|(path, allowed)| allowed.has(&text_at(object, path)))
        };
        let stage = self.stages.iter().find(fits)?;
        let run_for = request.run_for.filter(|_| !stage.outcome.all().is_empty());
        Some(NextStep { stage, after: run_for.unwrap_or(stage.after).try_into().unwrap_or_default() })
    }

    /// The status of the object after a stage.
    pub(super) fn status_after(
        &self,
        stage: &Stage,
        object: &Value,
        now: Timestamp,
    ) -> Result<Value, UnknownPlaceholder> {
        let values = self.values(object, now);
        let mut status = object.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
        json_patch::merge(&mut status, &fill(&Value::Object(stage.status.clone()), &values)?);
        for condition in &stage.conditions {
            set_condition(&mut status, &fill(condition, &values)?, &time(now));
        }
        Ok(status)
    }

    /// What the object requests. An unknown outcome becomes a failure with a message that names it.
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

    /// The values of the placeholders for an object.
    fn values(&self, object: &Value, now: Timestamp) -> Values {
        let request = self.request(object);
        let uid = meta(object, "uid");
        let hex: String = uid.chars().filter(char::is_ascii_hexdigit).collect();
        let short = hex.chars().take(SHORT_CHARS).collect();
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
        Values {
            named: NAMES.iter().map(|name| (*name).to_owned()).zip(values).collect(),
            replicas: self.replicas.iter().map(|(role, path)| (role.clone(), count(path))).collect(),
        }
    }
}

/// Merges a condition into the existing one of its type, or adds it. `lastTransitionTime` is set if the status of the
/// condition has changed.
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
    let Some(existing) = all.get_mut(at) else { return };
    let changes = existing.get("status") != condition.get("status");
    json_patch::merge(existing, condition);
    if changes {
        json_patch::merge(existing, &json!({"lastTransitionTime": now}));
    }
}

/// The value at a path as text; empty if there is none.
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
