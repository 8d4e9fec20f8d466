//! Known defects of upstream in recorded results, and the correct results.
//!
//! A rule relaxes only what its defect affects; everything else of the case is still compared. A rule either removes the
//! defect from both results, or replaces the recorded result by the correct one, which is then required.

mod scenarios;

use aileron_kubekit::quantity::Quantity;
use serde_json::{Value, json};

pub(crate) use scenarios::success_stays_success;

use super::case::Case;
use super::{steps, walk};

/// A defect and its effect on the comparison.
pub struct Rule {
    /// The name of the defect in the cases.
    pub id: &'static str,
    /// Changes the recorded and our result before they are compared.
    relax: fn(&Case, &mut Value, &mut Value),
}

/// Every defect that cases may name.
pub const RULES: &[Rule] = &[
    Rule { id: "secondary-container-zero-limits", relax: drop_zero_quantities },
    Rule { id: "ray-memory-env", relax: memory_env_may_select_memory },
    Rule { id: "tf-pod-names", relax: ignore_log_links },
    Rule { id: "mpi-launcher-logs-missing", relax: ignore_log_links },
    Rule { id: "logcontext-unscoped-list", relax: foreign_pods_may_be_missing },
    Rule { id: "failed-exit-classified-system", relax: failed_exit_may_be_the_users },
    Rule { id: "template-dollar-expansion", relax: render_literally },
    Rule { id: "l40s-not-normalised", relax: expect_normalised_l40s },
    Rule { id: "mpi-slots-ignored", relax: expect_given_slots },
    Rule { id: "mpi-slots-zero", relax: expect_given_slots },
    Rule { id: "corrupt-state-message", relax: ignore_messages },
    Rule { id: "cleanup-flag-dropped", relax: cleanup_may_be_kept },
    Rule { id: "ray-nil-cluster-panic", relax: nothing_more },
    Rule { id: "system-failure-counter-reset", relax: scenarios::failures_may_keep_counting },
    Rule { id: "abort-event-after-terminal", relax: scenarios::abort_event_may_be_missing },
    Rule { id: "empty-outputs-writes-error", relax: scenarios::success_is_allowed },
    Rule { id: "missing-outputs-system-error", relax: scenarios::success_is_allowed },
    Rule { id: "undecodable-template-loops", relax: scenarios::may_fail_instead_of_looping },
];

/// Applies the rules of the defects that the case names. A defect without a rule relaxes nothing.
pub fn relax(case: &Case, expected: &mut Value, got: &mut Value) {
    for rule in RULES.iter().filter(|rule| case.has_bug(rule.id)) {
        (rule.relax)(case, expected, got);
    }
}

/// For defects that need no rule: in all cases, a recorded panic is already replaced by an error.
fn nothing_more(_: &Case, _: &mut Value, _: &mut Value) {}

/// Removes zero quantities. Where the recorded quantity is zero, ours is removed too: it may be the amount of a pod
/// template, which upstream's zero hides.
pub(crate) fn drop_zero_quantities(_: &Case, expected: &mut Value, got: &mut Value) {
    let is_zero = |value: &Value| {
        value.as_str().and_then(|text| text.parse::<Quantity>().ok()).is_some_and(|quantity| quantity.is_zero())
    };
    walk::object_pairs(expected, got, &mut |expected, got| {
        for map in ["limits", "requests"] {
            let Some(Value::Object(recorded)) = expected.get(map) else { continue };
            let Some(Value::Object(quantities)) = got.get_mut(map) else { continue };
            quantities.retain(|name, _| !recorded.get(name).is_some_and(is_zero));
        }
    });
    for side in [expected, got] {
        walk::objects(side, &mut |members| {
            for map in ["limits", "requests"] {
                if let Some(Value::Object(quantities)) = members.get_mut(map) {
                    quantities.retain(|_, quantity| !is_zero(quantity));
                }
            }
        });
    }
}

/// Upstream sets the two memory variables from the CPU fields.
pub(crate) fn memory_env_may_select_memory(_: &Case, _: &mut Value, got: &mut Value) {
    walk::objects(got, &mut |members| {
        let (correct, recorded) = match members.get("name").and_then(Value::as_str) {
            Some("MEMORY_REQUESTS") => ("requests.memory", "requests.cpu"),
            Some("MEMORY_LIMITS") => ("limits.memory", "limits.cpu"),
            _ => return,
        };
        let selected = members
            .get_mut("valueFrom")
            .and_then(|source| source.get_mut("resourceFieldRef"))
            .and_then(|reference| reference.get_mut("resource"));
        if let Some(resource) = selected.filter(|resource| **resource == correct) {
            *resource = recorded.into();
        }
    });
}

fn ignore_log_links(_: &Case, expected: &mut Value, got: &mut Value) {
    for side in [expected, got] {
        walk::objects(side, &mut |members| {
            members.remove("logs");
        });
    }
}

/// Upstream lists the pods of the whole cluster; only those of the task's namespace are required.
fn foreign_pods_may_be_missing(case: &Case, expected: &mut Value, got: &mut Value) {
    let own = case.input("context").get("namespace").cloned().unwrap_or_default();
    let pods = |side: &Value| side.pointer("/info/logContext/pods").cloned().unwrap_or_default();
    let kept = pods(got);
    let kept = kept.as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(Value::Array(recorded)) = expected.pointer_mut("/info/logContext/pods") {
        recorded.retain(|pod| pod.get("namespace") == Some(&own) || kept.contains(pod));
    }
}

/// A container that ended with an exit code failed by itself, whatever the pod's status is. In a scenario this uses the
/// user's retries, and the later steps are not compared.
fn failed_exit_may_be_the_users(_: &Case, expected: &mut Value, got: &mut Value) {
    scenarios::users_retries_may_be_used(expected, got);
    fn settle(expected: &mut Value, got: &mut Value) {
        let kind = |side: &Value| side.pointer("/error/kind").and_then(Value::as_str).map(str::to_owned);
        let is_user_error = kind(expected).as_deref() == Some("SYSTEM") && kind(got).as_deref() == Some("USER");
        if is_user_error && let (Some(recorded), Some(ours)) = (expected.get_mut("error"), got.get("error")) {
            recorded["kind"] = ours["kind"].clone();
            recorded["code"] = ours["code"].clone();
        }
        match (expected, got) {
            (Value::Object(expected), Value::Object(got)) => {
                for (key, value) in expected {
                    if let Some(other) = got.get_mut(key) {
                        settle(value, other);
                    }
                }
            }
            (Value::Array(expected), Value::Array(got)) => {
                expected.iter_mut().zip(got).for_each(|(value, other)| settle(value, other));
            }
            _ => {}
        }
    }
    settle(expected, got);
}

/// Upstream treats `$1` in a path as a reference to a regex group. The correct text is the template with its variables
/// replaced and nothing else. With other variables than the paths, only success is required.
fn render_literally(case: &Case, expected: &mut Value, got: &mut Value) {
    let context = case.arg("context");
    let path = |key: &str| context.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let variables = [
        ("{{.input}}", format!("{}/inputs.pb", path("inputPrefix"))),
        ("{{.inputPrefix}}", path("inputPrefix")),
        ("{{.outputPrefix}}", path("outputPrefix")),
        ("{{.rawOutputDataPrefix}}", path("rawOutputPrefix")),
    ];
    let render = |template: &Value| {
        let template = template.as_str().unwrap_or_default().to_owned();
        variables.iter().fold(template, |text, (variable, value)| text.replace(variable, value))
    };
    let templates = case.arg("templates").as_array().map(Vec::as_slice).unwrap_or_default();
    let rendered: Vec<String> = templates.iter().map(render).collect();
    if rendered.iter().any(|text| text.contains("{{")) && got.get("value").is_some() {
        expected["value"] = got["value"].clone();
    } else {
        *expected = json!({"value": rendered});
    }
}

fn expect_normalised_l40s(_: &Case, expected: &mut Value, _: &mut Value) {
    walk::texts(expected, &mut |text| {
        if text.eq_ignore_ascii_case("l40s") {
            *text = "nvidia-l40s".into();
        }
    });
}

fn expect_given_slots(case: &Case, expected: &mut Value, _: &mut Value) {
    let given = case.input("taskTemplateJson").pointer("/custom/slots").and_then(Value::as_f64).unwrap_or_default();
    if let Some(spec) = expected.pointer_mut("/resource/spec") {
        spec["slotsPerWorker"] = json!(given.max(1.0));
    }
}

fn ignore_messages(_: &Case, expected: &mut Value, got: &mut Value) {
    for side in [expected, got] {
        walk::objects(side, &mut |members| {
            if let Some(Value::Object(error)) = members.get_mut("error") {
                error.remove("message");
            }
        });
    }
}

fn cleanup_may_be_kept(_: &Case, expected: &mut Value, got: &mut Value) {
    fn settle(expected: &mut Value, got: &Value) {
        if got.get("cleanupOnFailure") == Some(&Value::Bool(true)) {
            expected["cleanupOnFailure"] = true.into();
        }
    }
    settle(expected, got);
    for (expected, got) in steps::of_mut(expected).iter_mut().zip(steps::of(got)) {
        if let (Some(expected), Some(got)) =
            (expected.pointer_mut("/transition/phaseInfo"), got.pointer("/transition/phaseInfo"))
        {
            settle(expected, got);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::vectors::judge::judge;

    fn case(family: &str, bug: &str, input: &Value, expected: &Value) -> Case {
        let mut document = json!({
            "family": family, "name": "x", "now": "2009-11-10T23:00:00Z", "expected": expected, "upstreamBugs": [bug],
        });
        document.as_object_mut().unwrap().extend(input.as_object().unwrap().clone());
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn memory_variables_may_select_memory_and_nothing_else() {
        let pod = |resource: &str| {
            json!({"resource": {"env": [
                {"name": "MEMORY_LIMITS", "valueFrom": {"resourceFieldRef": {"resource": resource}}}
            ]}})
        };
        let case = case("build", "ray-memory-env", &json!({}), &pod("limits.cpu"));
        assert!(judge(&case, &pod("limits.cpu")).is_empty());
        assert!(judge(&case, &pod("limits.memory")).is_empty());
        assert!(!judge(&case, &pod("requests.memory")).is_empty());
    }

    #[test]
    fn zero_limits_are_dropped_and_others_are_not() {
        let pod = |limits: Value| json!({"resource": {"resources": {"limits": limits}}});
        let case =
            case("build", "secondary-container-zero-limits", &json!({}), &pod(json!({"cpu": "0", "memory": "1"})));
        assert!(judge(&case, &pod(json!({"memory": "1"}))).is_empty());
        assert!(judge(&case, &pod(json!({"cpu": "2", "memory": "1"}))).is_empty(), "the limit of a pod template");
        assert!(!judge(&case, &pod(json!({}))).is_empty());
        assert!(!judge(&case, &pod(json!({"memory": "2"}))).is_empty());
    }

    #[test]
    fn dollars_stay_in_rendered_text() {
        let input = json!({"fn": "template.render", "args": {
            "context": {"outputPrefix": "s3://$1/x"}, "templates": ["{{.outputPrefix}}"],
        }});
        let case = case("template", "template-dollar-expansion", &input, &json!({"value": ["s3:///x"]}));
        assert!(judge(&case, &json!({"value": ["s3://$1/x"]})).is_empty());
        assert!(!judge(&case, &json!({"value": ["s3:///x"]})).is_empty());
    }

    #[test]
    fn a_failed_exit_may_be_a_user_error_and_keeps_its_message() {
        let phase = |kind: &str, code: &str, message: &str| json!({"phase": "PhaseRetryableFailure", "error": {"kind": kind, "code": code, "message": message}});
        let case = case("phase", "failed-exit-classified-system", &json!({}), &phase("SYSTEM", "Interrupted", "m"));
        assert!(judge(&case, &phase("SYSTEM", "Interrupted", "m")).is_empty());
        assert!(judge(&case, &phase("USER", "Error", "m")).is_empty());
        assert!(!judge(&case, &phase("SYSTEM", "Other", "m")).is_empty());
        assert!(!judge(&case, &phase("USER", "Error", "n")).is_empty());
    }

    #[test]
    fn cleanup_may_be_added_but_not_dropped() {
        let phase = |cleanup: bool| json!({"phase": "PhaseRetryableFailure", "cleanupOnFailure": cleanup});
        let dropped = case("phase", "cleanup-flag-dropped", &json!({}), &phase(false));
        assert!(judge(&dropped, &phase(true)).is_empty());
        let step = |cleanup: bool| json!({"steps": [{"transition": {"phaseInfo": phase(cleanup)}}]});
        assert!(judge(&case("manager", "cleanup-flag-dropped", &json!({}), &step(false)), &step(true)).is_empty());
        let kept = case("phase", "cleanup-flag-dropped", &json!({}), &phase(true));
        assert!(!judge(&kept, &phase(false)).is_empty());
    }

    #[test]
    fn an_unknown_defect_relaxes_nothing() {
        let case = case("names", "no-such-defect", &json!({}), &json!({"value": "a"}));
        assert!(!judge(&case, &json!({"value": "b"})).is_empty());
    }
}
