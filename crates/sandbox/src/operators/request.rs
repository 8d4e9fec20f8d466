//! What an object requests about its simulated run: outcome, message, duration.

use jiff::SignedDuration;
use serde_json::Value;

use super::object::meta;

/// The default outcome.
pub(super) const SUCCEED: &str = "succeed";
/// The outcome of an ordinary failure.
pub(super) const FAIL: &str = "fail";
/// The outcome of an object that never ends.
pub(super) const HANG: &str = "hang";

/// Suffix of an outcome that is for the first attempt only.
const ONCE_SUFFIX: &str = "-once";
/// Label in which the executor writes the number of the attempt, starting at 1.
const ATTEMPT_LABEL: &str = "attempt";

/// A setting that an object can have in its own annotations or labels, or anywhere in its spec: in the annotations or
/// labels of a template, or in an environment variable of a container.
struct Setting {
    annotation: &'static str,
    variable: &'static str,
}

const OUTCOME: Setting = Setting { annotation: "simulate.aileron.dev/outcome", variable: "AILERON_SIMULATE" };
const MESSAGE: Setting = Setting { annotation: "simulate.aileron.dev/message", variable: "AILERON_SIMULATE_MESSAGE" };
const RUN_FOR: Setting = Setting { annotation: "simulate.aileron.dev/run-for", variable: "AILERON_SIMULATE_RUN_FOR" };

/// What an object requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// How the object ends.
    pub outcome: String,
    /// The message of a failure.
    pub message: Option<String>,
    /// How long the object runs before it ends.
    pub run_for: Option<SignedDuration>,
    /// The number of the attempt, starting at 1.
    pub attempt: u32,
}

impl Request {
    pub(super) fn of(object: &Value) -> Self {
        let attempt = attempt(object);
        Self {
            outcome: outcome(OUTCOME.find(object).unwrap_or_default(), attempt),
            message: MESSAGE.find(object).map(str::to_owned),
            // A malformed duration is ignored.
            run_for: RUN_FOR.find(object).and_then(|text| text.trim().parse().ok()),
            attempt,
        }
    }
}

impl Setting {
    /// The value of the setting. Metadata of the object has priority over its spec.
    fn find<'a>(&self, object: &'a Value) -> Option<&'a str> {
        self.in_metadata(&object["metadata"]).or_else(|| self.in_spec(&object["spec"])).filter(|text| !text.is_empty())
    }

    fn in_metadata<'a>(&self, metadata: &'a Value) -> Option<&'a str> {
        ["annotations", "labels"].iter().find_map(|map| metadata.get(map)?.get(self.annotation)?.as_str())
    }

    fn in_spec<'a>(&self, part: &'a Value) -> Option<&'a str> {
        match part {
            Value::Array(items) => items.iter().find_map(|item| self.in_spec(item)),
            Value::Object(fields) => {
                let variables = fields.get("env").and_then(Value::as_array).into_iter().flatten();
                let variable = variables.into_iter().find(|one| one["name"] == self.variable);
                let own = variable.and_then(|one| one["value"].as_str()).or_else(|| self.in_metadata(part));
                own.or_else(|| fields.values().find_map(|field| self.in_spec(field)))
            }
            _ => None,
        }
    }
}

/// The number of the attempt: from the label, or from the end of the name, which counts from 0.
fn attempt(object: &Value) -> u32 {
    let label = object["metadata"]["labels"][ATTEMPT_LABEL].as_str().and_then(|text| text.parse().ok());
    let by_name = || meta(object, "name").rsplit_once('-')?.1.parse::<u32>().ok()?.checked_add(1);
    label.or_else(by_name).unwrap_or(1).max(1)
}

/// The outcome of an attempt. The last outcome of the list is for all following attempts.
fn outcome(list: &str, attempt: u32) -> String {
    let mut all: Vec<&str> = list.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    if let [only] = all[..]
        && let Some(first) = only.strip_suffix(ONCE_SUFFIX)
    {
        all = vec![first, SUCCEED];
    }
    let at = usize::try_from(attempt).unwrap_or(usize::MAX).saturating_sub(1);
    all.get(at).or_else(|| all.last()).copied().unwrap_or(SUCCEED).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_attempt_has_its_outcome() {
        let outcomes = |list: &str| [1, 2, 3].map(|attempt| outcome(list, attempt)).join(" ");
        assert_eq!(outcomes(""), "succeed succeed succeed");
        assert_eq!(outcomes("fail"), "fail fail fail");
        assert_eq!(outcomes("fail-once"), "fail succeed succeed");
        assert_eq!(outcomes("restart, fail , succeed"), "restart fail succeed");
        assert_eq!(outcomes("fail,hang"), "fail hang hang");
    }

    #[test]
    fn the_attempt_is_known_by_label_or_name() {
        assert_eq!(attempt(&json!({"metadata": {"name": "a-0", "labels": {"attempt": "3"}}})), 3);
        assert_eq!(attempt(&json!({"metadata": {"name": "run-a0-1"}})), 2);
        assert_eq!(attempt(&json!({"metadata": {"name": "mine"}})), 1);
        assert_eq!(attempt(&json!({})), 1);
    }

    #[test]
    fn settings_are_found_wherever_a_task_can_put_them() {
        let own = json!({"annotations": {"simulate.aileron.dev/outcome": "hang"}});
        let driver = json!({"env": [{"name": "OTHER"}, {"name": "AILERON_SIMULATE", "value": "fail"}]});
        let template = json!({"metadata": {"labels": {"simulate.aileron.dev/outcome": "fail-once"}}, "spec": {}});
        let outcome = |object: Value| Request::of(&object).outcome;
        assert_eq!(outcome(json!({"metadata": own, "spec": {"driver": driver}})), "hang");
        assert_eq!(outcome(json!({"spec": {"groups": [{}, {"containers": [driver]}]}})), "fail");
        assert_eq!(outcome(json!({"spec": {"head": {"template": template}}})), "fail");
        assert_eq!(outcome(json!({"status": {"driver": driver}})), "succeed");
    }

    #[test]
    fn message_and_duration_are_read_and_a_malformed_duration_is_ignored() {
        let request = |run_for: &str| {
            let annotations = json!({"simulate.aileron.dev/message": "no", "simulate.aileron.dev/run-for": run_for});
            Request::of(&json!({"metadata": {"annotations": annotations}}))
        };
        assert_eq!(request("1.5s").run_for, Some(SignedDuration::from_millis(1_500)));
        assert_eq!((request("soon").run_for, request("soon").message.as_deref()), (None, Some("no")));
    }
}
