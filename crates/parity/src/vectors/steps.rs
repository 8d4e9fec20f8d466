//! Normalises the steps of scenarios: reads, and writes of the action itself, are not compared.

use serde_json::{Value, json};

/// Removes calls that need not be equal: reads, which may come from a watch cache, and writes of the TaskAction, whose
/// resulting state is compared instead.
pub fn normalise(expected: &mut Value, got: &mut Value) {
    of_mut(expected)
        .iter_mut()
        .zip(of_mut(got))
        .for_each(|(expected, got)| expect_error_instead_of_crash(expected, got));
    for side in [expected, got] {
        for step in of_mut(side) {
            let Some(members) = step.as_object_mut() else { continue };
            if let Some(Value::Array(calls)) = members.get_mut("calls") {
                calls.retain(|call| call["verb"] != "get" && call["kind"] != "TaskAction");
            }
            // The decoded state is compared instead.
            members.remove("stateGob");
            if let Some(Value::Object(status)) =
                members.get_mut("taskAction").and_then(|action| action.get_mut("status"))
            {
                status.remove("pluginState");
            }
        }
    }
}

/// The steps of a result.
pub fn of(side: &Value) -> &[Value] {
    side.get("steps").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The steps of a result, to be changed.
pub fn of_mut(side: &mut Value) -> &mut [Value] {
    side.get_mut("steps").and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}

/// Removes the first step for which the condition holds and all later steps: from there on the two results differ. The
/// condition gets our step and the recorded one.
pub fn cut_where(expected: &mut Value, got: &mut Value, condition: impl Fn(&Value, &Value) -> bool) {
    let first = of(got).iter().zip(of(expected)).position(|(got, expected)| condition(got, expected));
    if let Some(index) = first {
        for side in [expected, got] {
            if let Some(Value::Array(steps)) = side.get_mut("steps") {
                steps.truncate(index);
            }
        }
    }
}

/// Where upstream panics in a step, we must report an invalid task, as an error or in the status.
fn expect_error_instead_of_crash(expected: &mut Value, got: &mut Value) {
    if expected.get("panic") != Some(&Value::Bool(true)) {
        return;
    }
    let code = ["/error/code", "/taskAction/status/errorState/code"].iter().find_map(|path| got.pointer(path)).cloned();
    *expected = json!({"errorCode": "BadTaskSpecification"});
    *got = json!({"errorCode": code});
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalised(calls: &Value) -> Value {
        let mut document = json!({"steps": [{"calls": calls}]});
        normalise(&mut document, &mut Value::Null);
        document["steps"][0]["calls"].take()
    }

    #[test]
    fn reads_and_writes_of_the_action_are_left_out_and_the_rest_keeps_its_order() {
        let call = |verb: &str, kind: &str| json!({"verb": verb, "kind": kind});
        let calls =
            json!([call("get", "Pod"), call("create", "Pod"), call("patch", "TaskAction"), call("delete", "Pod")]);
        assert_eq!(normalised(&calls), json!([call("create", "Pod"), call("delete", "Pod")]));
    }

    #[test]
    fn a_crash_must_become_an_error_or_a_failed_action() {
        let normalised = |step: Value| {
            let (mut expected, mut got) = (json!({"steps": [{"panic": true, "calls": []}]}), json!({"steps": [step]}));
            normalise(&mut expected, &mut got);
            expected == got
        };
        assert!(normalised(json!({"error": {"code": "BadTaskSpecification"}, "calls": []})));
        assert!(normalised(json!({"taskAction": {"status": {"errorState": {"code": "BadTaskSpecification"}}}})));
        assert!(!normalised(json!({"error": {"code": ""}})));
        assert!(!normalised(json!({"panic": true})));
    }
}
