//! The changes of each difference to the recorded and to our result, and the cases that are not run.

use serde_json::{Value, json};

use crate::vectors::case::Case;
use crate::vectors::upstream_bugs::drop_zero_quantities;
use crate::vectors::{steps, walk};

fn events(side: &mut Value) -> impl Iterator<Item = &mut Vec<Value>> {
    steps::of_mut(side).iter_mut().filter_map(|step| step.get_mut("actionEvents").and_then(Value::as_array_mut))
}

pub(super) fn ignore_error_codes_of_events(_: &Case, expected: &mut Value, got: &mut Value) {
    for side in [expected, got] {
        for error in events(side).flatten().filter_map(|event| event.get_mut("error_info")?.as_object_mut()) {
            error.remove("code");
        }
    }
}

pub(super) fn ignore_failed_attempt_before_next(_: &Case, _: &mut Value, got: &mut Value) {
    for events in events(got) {
        let attempt = |event: &Value| event.get("attempt").and_then(Value::as_u64).unwrap_or_default();
        let is = |event: &Value, phase: &str| event.get("phase").is_some_and(|value| value == phase);
        let mut index = 0;
        while index + 1 < events.len() {
            let (failed, next) = (&events[index], &events[index + 1]);
            let followed = is(failed, "ACTION_PHASE_FAILED")
                && is(next, "ACTION_PHASE_QUEUED")
                && attempt(next) == attempt(failed) + 1;
            if followed {
                events.remove(index);
            } else {
                index += 1;
            }
        }
    }
}

/// Our status has this condition in addition to those of upstream.
pub(super) fn ignore_pending_condition(_: &Case, _: &mut Value, got: &mut Value) {
    ignore_condition("Pending", got);
}

/// As [`ignore_pending_condition`].
pub(super) fn ignore_plugin_condition(_: &Case, _: &mut Value, got: &mut Value) {
    ignore_condition("PluginChosen", got);
}

fn ignore_condition(kind: &str, got: &mut Value) {
    for step in steps::of_mut(got) {
        let Some(status) = step.pointer_mut("/taskAction/status").and_then(Value::as_object_mut) else { continue };
        if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
            conditions.retain(|condition| condition["type"] != kind);
        }
    }
}

/// For differences that no recorded case shows.
pub(super) fn no_recorded_case(_: &Case, _: &mut Value, _: &mut Value) {}

/// Where upstream polls, we may set a timer or run the next step at once. All other requeue times are compared.
pub(super) fn ignore_polls(_: &Case, expected: &mut Value, got: &mut Value) {
    for (expected, got) in steps::of(expected).iter().zip(steps::of_mut(got)) {
        let Some(members) = got.as_object_mut() else { continue };
        let wake = members.remove("wake");
        if wake.is_some_and(|wake| wake == "at" || wake == "now") {
            members.insert("requeueAfterSeconds".into(), expected["requeueAfterSeconds"].clone());
        }
    }
}

pub(super) fn has_file_output_base(case: &Case) -> bool {
    let base = match case.function() {
        "names.actionOutputPath" => case.arg("runOutputBase"),
        _ => case.input("taskAction").pointer("/spec/runOutputBase").unwrap_or(&Value::Null),
    };
    base.as_str().is_some_and(|base| base.starts_with("file://"))
}

pub(super) fn merges_nothing(case: &Case) -> bool {
    let parts: &[&str] = match case.function() {
        "pod.mergeBaseOntoTemplate" => &["base", "template"],
        "pod.mergeOverlayOntoBase" => &["base", "overlay"],
        _ => return false,
    };
    parts.iter().any(|part| case.arg(part).is_null())
}

/// Upstream uses updates only for the finalizers of an object.
pub(super) fn patch_instead_of_update(_: &Case, expected: &mut Value, _: &mut Value) {
    for call in calls(expected).flatten().filter(|call| call["verb"] == "update") {
        if let Some(members) = call.as_object_mut() {
            members.remove("object");
            members.insert("verb".into(), "patch".into());
        }
    }
}

/// A create with result AlreadyExists may be missing from our calls. If we send a create, it is compared.
pub(super) fn ignore_creates_of_existing(_: &Case, expected: &mut Value, got: &mut Value) {
    let is_create = |call: &Value| call["verb"] == "create";
    for (expected, got) in calls(expected).zip(calls(got)) {
        if !got.iter().any(is_create) {
            expected.retain(|call| !is_create(call) || call["result"] != "AlreadyExists");
        }
    }
}

pub(super) fn cut_at_foreign_object(_: &Case, expected: &mut Value, got: &mut Value) {
    steps::cut_where(expected, got, |got, _| {
        let warned = got["kubernetesEvents"].to_string().contains("[ForeignObject]");
        got.pointer("/error/code") == Some(&"ForeignObject".into()) || warned
    });
}

pub(super) fn cut_at_terminating_object(_: &Case, expected: &mut Value, got: &mut Value) {
    const WAITING: &str = "waiting for the terminating ";
    steps::cut_where(expected, got, |got, _| {
        ["/transition/phaseInfo/reason", "/taskAction/status/pluginStateDecoded/k8sPluginState/reason"]
            .iter()
            .filter_map(|path| got.pointer(path)?.as_str())
            .any(|reason| reason.starts_with(WAITING))
    });
}

/// The results of creates that are refused only for a time, as recorded calls have them.
const TRANSIENT_REFUSALS: [&str; 7] =
    ["Forbidden", "TooManyRequests", "ServiceUnavailable", "ServerTimeout", "Timeout", "Conflict", "InternalError"];

pub(super) fn cut_at_waiting_for_quota(_: &Case, expected: &mut Value, got: &mut Value) {
    const WAITING: [&str; 2] = ["waiting for quota ", "waiting for the API server: "];
    steps::cut_where(expected, got, |got, _| {
        let calls = got["calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        let refused = |call: &Value| {
            call["verb"] == "create" && TRANSIENT_REFUSALS.iter().any(|reason| call["result"] == *reason)
        };
        calls.iter().any(refused)
            && ["/transition/phaseInfo/reason", "/taskAction/status/pluginStateDecoded/k8sPluginState/reason"]
                .iter()
                .filter_map(|path| got.pointer(path)?.as_str())
                .any(|reason| WAITING.iter().any(|words| reason.starts_with(words)))
    });
}

/// We remove the finalizer right after the delete. Steps are not compared from where upstream's next create fails with
/// AlreadyExists and ours succeeds.
pub(super) fn cut_at_released_object(_: &Case, expected: &mut Value, got: &mut Value) {
    let created = |step: &Value, result: &str| {
        let calls = step["calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        calls.iter().any(|call| call["verb"] == "create" && call["result"] == result)
    };
    steps::cut_where(expected, got, |got, expected| created(expected, "AlreadyExists") && created(got, "ok"));
    for (expected, got) in calls(expected).zip(calls(got)) {
        let mut index = 1;
        while index < got.len() {
            let (deleted, released) = (&got[index - 1], &got[index]);
            let same_object = ["kind", "namespace", "name"].iter().all(|key| deleted[key] == released[key]);
            let discarded = deleted["verb"] == "delete" && released["verb"] == "patch" && same_object;
            if discarded && expected.get(index).is_none_or(|call| call["verb"] != "patch") {
                got.remove(index);
            } else {
                index += 1;
            }
        }
    }
}

/// The suffixes of the error codes of pods that never started, and the code for an unreadable plugin state.
const STUCK_ERROR_CODES: [&str; 5] = [
    "|CreateContainerError",
    "|CreateContainerConfigError",
    "|ImagePullBackOff",
    "|InvalidImageName",
    "CorruptedPluginState",
];

/// We delete the object in the step that ends the action. Later calls of upstream for the same object are not compared.
pub(super) fn ignore_delete_of_stuck_object(_: &Case, expected: &mut Value, got: &mut Value) {
    let object = |call: &Value| ["kind", "namespace", "name"].map(|key| call[key].clone());
    let mut deleted = None;
    for (expected, got) in steps::of_mut(expected).iter_mut().zip(steps::of_mut(got)) {
        let status = &got["taskAction"]["status"];
        let code = status.pointer("/errorState/code").and_then(Value::as_str).unwrap_or_default();
        let is_stuck =
            status["pluginPhase"] == "PhasePermanentFailure" && STUCK_ERROR_CODES.iter().any(|end| code.ends_with(end));
        let (Some(expected), Some(got)) = (expected["calls"].as_array_mut(), got["calls"].as_array_mut()) else {
            continue;
        };
        if let Some(gone) = &deleted {
            expected.retain(|call| object(call) != *gone);
            got.retain(|call| object(call) != *gone);
        } else if is_stuck && expected.is_empty() {
            let delete = got.iter().position(|call| call["verb"] == "delete");
            deleted = delete.map(|index| object(&got.remove(index)));
        }
    }
}

/// Where upstream's counter of system failures is reset, ours may keep its value.
pub(super) fn ignore_failures_kept_over_relaunch(_: &Case, expected: &mut Value, got: &mut Value) {
    let count = |step: &Value| step.pointer("/taskAction/status/systemFailures").and_then(Value::as_u64);
    let mut before = None;
    for (expected, got) in steps::of(expected).iter().zip(steps::of_mut(got)) {
        let now = count(got);
        if count(expected).is_none()
            && now == before
            && let Some(Value::Object(status)) = got.pointer_mut("/taskAction/status")
        {
            status.remove("systemFailures");
        }
        before = now;
    }
}

/// Removes pods of other namespaces from the recorded log context. A log context without pods is removed too.
pub(super) fn ignore_foreign_pods(case: &Case, expected: &mut Value, _: &mut Value) {
    let Some(namespace) = case.input("context").get("namespace") else { return };
    let Some(context) = expected.pointer_mut("/info/logContext") else { return };
    let Some(pods) = context.get_mut("pods").and_then(Value::as_array_mut) else { return };
    let recorded = pods.len();
    pods.retain(|pod| pod.get("namespace") == Some(namespace));
    if pods.is_empty() && recorded > 0 {
        *context = Value::Null;
    }
}

/// Where upstream reports host maintenance and we report a user error, ours must be the failure that the JobSet reports.
pub(super) fn crash_is_no_maintenance(case: &Case, expected: &mut Value, got: &mut Value) {
    const MAINTENANCE: &str = "pod evicted due to host maintenance";
    let message = expected.pointer("/error/message").and_then(Value::as_str).unwrap_or_default();
    let is_crash = case.has_bug("failed-exit-classified-system") && got.pointer("/error/kind") == Some(&"USER".into());
    if !is_crash || !message.starts_with(MAINTENANCE) {
        return;
    }
    let conditions = case.input("resource").pointer("/status/conditions").and_then(Value::as_array);
    let failed = conditions.into_iter().flatten().find(|condition| condition["type"] == "Failed");
    if let Some(failed) = failed {
        expected["error"] = json!({"kind": "USER", "code": failed["reason"], "message": failed["message"]});
        expected["cleanupOnFailure"] = false.into();
    }
}

/// Applies only where upstream waits for a pod with several containers and without a primary container annotation, in which
/// a container has ended.
pub(super) fn own_container_ends_task(case: &Case, expected: &mut Value, got: &mut Value) {
    let pod = case.input("resource");
    let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is_marked = pod.pointer("/metadata/annotations/primary_container_name").is_some();
    let has_ended = statuses.iter().any(|status| status.pointer("/state/terminated").is_some());
    let ends = ["PhaseSuccess", "PhaseRetryableFailure"].iter().any(|phase| got["phase"] == *phase);
    if expected["phase"] == "PhaseRunning" && ends && !is_marked && statuses.len() > 1 && has_ended {
        for member in ["phase", "version", "reason", "error"] {
            expected[member] = got[member].clone();
        }
    }
}

/// Upstream's message for every stored state that it cannot decode.
const UPSTREAM_CORRUPT_STATE: &str = "plugin state version mismatch expected [1] got [0]";

/// Our message must begin with "plugin state ".
pub(super) fn own_message_for_corrupt_state(_: &Case, expected: &mut Value, got: &mut Value) {
    walk::text_pairs(expected, got, &mut |expected, got| {
        let Some((before, after)) = expected.split_once(UPSTREAM_CORRUPT_STATE) else { return };
        let own = got.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        if own.is_some_and(|own| own.starts_with("plugin state ")) {
            got.clone_from(expected);
        }
    });
}

/// Where upstream writes zeros into a container, the amounts of the pod template apply.
pub(super) fn template_resources_apply(case: &Case, expected: &mut Value, got: &mut Value) {
    let has_templates = case.input("context").get("podTemplates").is_some_and(|templates| !is_empty(templates));
    if has_templates {
        drop_zero_quantities(case, expected, got);
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

pub(super) fn accelerator_classes_in_upper_case(case: &Case, expected: &mut Value, _: &mut Value) {
    if case.function() != "config.dump" {
        return;
    }
    walk::objects(expected, &mut |members| {
        if let Some(Value::Object(classes)) = members.get_mut("accelerator-device-classes") {
            *classes = std::mem::take(classes).into_iter().map(|(name, class)| (name.to_uppercase(), class)).collect();
        }
    });
}

fn calls(side: &mut Value) -> impl Iterator<Item = &mut Vec<Value>> {
    steps::of_mut(side).iter_mut().filter_map(|step| step.get_mut("calls").and_then(Value::as_array_mut))
}
