//! The columns of pods, computed as kube-apiserver computes them.

use serde_json::Value;

use super::{Cell, Column};

pub(super) fn columns() -> Vec<Column> {
    vec![
        Column::new("Ready", "string", 0, Cell::Computed(ready)),
        Column::new("Status", "string", 0, Cell::Computed(status)),
        Column::new("Restarts", "string", 0, Cell::Computed(restarts)),
        Column::new("Age", "string", 0, Cell::Age),
        Column::new("IP", "string", 1, Cell::Computed(|pod| or_none(&pod["status"]["podIP"]))),
        Column::new("Node", "string", 1, Cell::Computed(|pod| or_none(&pod["spec"]["nodeName"]))),
        Column::new("Nominated Node", "string", 1, Cell::Computed(|pod| or_none(&pod["status"]["nominatedNodeName"]))),
        Column::new("Readiness Gates", "string", 1, Cell::Computed(|_| "<none>".into())),
    ]
}

fn or_none(value: &Value) -> Value {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or("<none>").into()
}

fn statuses<'a>(pod: &'a Value, list: &str) -> impl DoubleEndedIterator<Item = &'a Value> {
    pod["status"][list].as_array().map_or(&[][..], Vec::as_slice).iter()
}

fn ready(pod: &Value) -> Value {
    let all = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    let ready = statuses(pod, "containerStatuses").filter(|one| one["ready"] == true).count();
    format!("{ready}/{all}").into()
}

fn restarts(pod: &Value) -> Value {
    let count: i64 = statuses(pod, "containerStatuses").filter_map(|one| one["restartCount"].as_i64()).sum();
    count.to_string().into()
}

fn status(pod: &Value) -> Value {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let own = &pod["status"];
    let mut reason = text(&own["reason"]).or_else(|| text(&own["phase"])).unwrap_or_default();
    let mut initializing = false;
    let inits = pod["spec"]["initContainers"].as_array().map_or(0, Vec::len);
    for (index, init) in statuses(pod, "initContainerStatuses").enumerate() {
        let state = &init["state"];
        if state["terminated"]["exitCode"] == 0 {
            continue;
        }
        reason = if state["terminated"].is_object() {
            let code = state["terminated"]["exitCode"].as_i64().unwrap_or_default();
            format!("Init:{}", text(&state["terminated"]["reason"]).unwrap_or_else(|| format!("ExitCode:{code}")))
        } else {
            match text(&state["waiting"]["reason"]) {
                Some(waits) if waits != "PodInitializing" => format!("Init:{waits}"),
                _ => format!("Init:{index}/{inits}"),
            }
        };
        initializing = true;
        break;
    }
    if !initializing {
        let mut runs = false;
        for container in statuses(pod, "containerStatuses").rev() {
            let state = &container["state"];
            if let Some(waits) = text(&state["waiting"]["reason"]) {
                reason = waits;
            } else if state["terminated"].is_object() {
                let code = state["terminated"]["exitCode"].as_i64().unwrap_or_default();
                reason = text(&state["terminated"]["reason"]).unwrap_or_else(|| format!("ExitCode:{code}"));
            } else if container["ready"] == true && state["running"].is_object() {
                runs = true;
            }
        }
        if reason == "Completed" && runs {
            reason = "Running".to_owned();
        }
    }
    if crate::object::is_terminating(pod) {
        reason = "Terminating".to_owned();
    }
    reason.into()
}
