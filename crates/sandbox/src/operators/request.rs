//! How an object says it should end.

use jiff::SignedDuration;
use serde_json::Value;

use crate::object::meta;

/// The outcome of objects that say nothing.
pub(super) const SUCCEED: &str = "succeed";
/// The outcome of failures without particulars.
pub(super) const FAIL: &str = "fail";
/// Never ends.
pub(super) const HANG: &str = "hang";

/// Ends an outcome that is for the first attempt only.
const ONCE: &str = "-once";
/// Where the executor writes the attempt, from 1.
const ATTEMPT_LABEL: &str = "attempt";

/// Something an object can ask for, on itself or anywhere inside: an annotation or label, or a variable of a container.
struct Wish {
    annotation: &'static str,
    variable: &'static str,
}

const OUTCOME: Wish = Wish { annotation: "simulate.aileron.dev/outcome", variable: "AILERON_SIMULATE" };
const MESSAGE: Wish = Wish { annotation: "simulate.aileron.dev/message", variable: "AILERON_SIMULATE_MESSAGE" };
const RUN_FOR: Wish = Wish { annotation: "simulate.aileron.dev/run-for", variable: "AILERON_SIMULATE_RUN_FOR" };

/// What an object asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// How it ends.
    pub outcome: String,
    /// What a failure says.
    pub message: Option<String>,
    /// How long it runs before it ends.
    pub run_for: Option<SignedDuration>,
    /// Which attempt it is, from 1.
    pub attempt: u32,
}

impl Request {
    pub(super) fn of(object: &Value) -> Self {
        let attempt = attempt(object);
        Self {
            outcome: outcome(OUTCOME.find(object).unwrap_or_default(), attempt),
            message: MESSAGE.find(object).map(str::to_owned),
            // What cannot be read is as good as not said; the status tells what happened in any case.
            run_for: RUN_FOR.find(object).and_then(|text| text.trim().parse().ok()),
            attempt,
        }
    }
}

impl Wish {
    /// The object's own word counts more than that of its parts.
    fn find<'a>(&self, object: &'a Value) -> Option<&'a str> {
        self.in_maps(&object["metadata"]).or_else(|| self.inside(&object["spec"])).filter(|text| !text.is_empty())
    }

    fn in_maps<'a>(&self, metadata: &'a Value) -> Option<&'a str> {
        ["annotations", "labels"].iter().find_map(|map| metadata.get(map)?.get(self.annotation)?.as_str())
    }

    fn inside<'a>(&self, part: &'a Value) -> Option<&'a str> {
        match part {
            Value::Array(items) => items.iter().find_map(|item| self.inside(item)),
            Value::Object(fields) => {
                let variables = fields.get("env").and_then(Value::as_array).into_iter().flatten();
                let variable = variables.into_iter().find(|one| one["name"] == self.variable);
                let said = variable.and_then(|one| one["value"].as_str()).or_else(|| self.in_maps(part));
                said.or_else(|| fields.values().find_map(|field| self.inside(field)))
            }
            _ => None,
        }
    }
}

/// By the label, else by the end of the name, which counts from 0.
fn attempt(object: &Value) -> u32 {
    let label = object["metadata"]["labels"][ATTEMPT_LABEL].as_str().and_then(|text| text.parse().ok());
    let by_name = || meta(object, "name").rsplit_once('-')?.1.parse::<u32>().ok()?.checked_add(1);
    label.or_else(by_name).unwrap_or(1).max(1)
}

/// The word for an attempt; the last one is for all that follow.
fn outcome(words: &str, attempt: u32) -> String {
    let mut all: Vec<&str> = words.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    if let [only] = all[..]
        && let Some(first) = only.strip_suffix(ONCE)
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
    fn an_attempt_gets_its_word() {
        let words = |words: &str| [1, 2, 3].map(|attempt| outcome(words, attempt)).join(" ");
        assert_eq!(words(""), "succeed succeed succeed");
        assert_eq!(words("fail"), "fail fail fail");
        assert_eq!(words("fail-once"), "fail succeed succeed");
        assert_eq!(words("restart, fail , succeed"), "restart fail succeed");
        assert_eq!(words("fail,hang"), "fail hang hang");
    }

    #[test]
    fn the_attempt_is_known_by_label_or_name() {
        assert_eq!(attempt(&json!({"metadata": {"name": "a-0", "labels": {"attempt": "3"}}})), 3);
        assert_eq!(attempt(&json!({"metadata": {"name": "run-a0-1"}})), 2);
        assert_eq!(attempt(&json!({"metadata": {"name": "mine"}})), 1);
        assert_eq!(attempt(&json!({})), 1);
    }

    #[test]
    fn wishes_are_found_wherever_a_task_can_put_them() {
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
    fn particulars_are_taken_and_nonsense_is_not() {
        let request = |run_for: &str| {
            let annotations = json!({"simulate.aileron.dev/message": "no", "simulate.aileron.dev/run-for": run_for});
            Request::of(&json!({"metadata": {"annotations": annotations}}))
        };
        assert_eq!(request("1.5s").run_for, Some(SignedDuration::from_millis(1_500)));
        assert_eq!((request("soon").run_for, request("soon").message.as_deref()), (None, Some("no")));
    }
}
