//! What a recording of steps leaves open: reads from a watch cache, and how the action itself is written.

use serde_json::{Value, json};

/// Brings the calls of both sides to what must agree: everything but reads, and writes of the TaskAction itself, whose
/// effect is compared instead.
pub fn settle(expected: &mut Value, got: &mut Value) {
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
            // The encoded state is compared decoded.
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

/// Leaves out the steps from the first one of ours for which the condition holds: from there on the two take different
/// ways. The condition gets our step and the recorded one.
pub fn cut_where(expected: &mut Value, got: &mut Value, condition: impl Fn(&Value, &Value) -> bool) {
    let parting = of(got).iter().zip(of(expected)).position(|(got, expected)| condition(got, expected));
    if let Some(index) = parting {
        for side in [expected, got] {
            if let Some(Value::Array(steps)) = side.get_mut("steps") {
                steps.truncate(index);
            }
        }
    }
}

/// Upstream crashes in this step; an executor must say that the task cannot work, as an error or in the status.
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

    fn settled(calls: &Value) -> Value {
        let mut document = json!({"steps": [{"calls": calls}]});
        settle(&mut document, &mut Value::Null);
        document["steps"][0]["calls"].take()
    }

    #[test]
    fn reads_and_writes_of_the_action_are_left_out_and_the_rest_keeps_its_order() {
        let call = |verb: &str, kind: &str| json!({"verb": verb, "kind": kind});
        let calls =
            json!([call("get", "Pod"), call("create", "Pod"), call("patch", "TaskAction"), call("delete", "Pod")]);
        assert_eq!(settled(&calls), json!([call("create", "Pod"), call("delete", "Pod")]));
    }

    #[test]
    fn a_crash_must_become_an_error_or_a_failed_action() {
        let settled = |step: Value| {
            let (mut expected, mut got) = (json!({"steps": [{"panic": true, "calls": []}]}), json!({"steps": [step]}));
            settle(&mut expected, &mut got);
            expected == got
        };
        assert!(settled(json!({"error": {"code": "BadTaskSpecification"}, "calls": []})));
        assert!(settled(json!({"taskAction": {"status": {"errorState": {"code": "BadTaskSpecification"}}}})));
        assert!(!settled(json!({"error": {"code": ""}})));
        assert!(!settled(json!({"panic": true})));
    }
}
