//! `aileron describe`: shows everything that is known about an action.

mod text;

use aileron_action::metadata::output_prefix;
use aileron_action::{Action, TaskAction};
use aileron_config::Config;
use aileron_idl::flyteidl2::core::TaskTemplate;
use aileron_idl::flyteidl2::core::task_template::Target;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::no_such_action;
use crate::action::{Summary, objects};
use crate::arguments::{DescribeArguments, DescriptionFormat};
use crate::connection;
use crate::display::{duration, output};
use crate::failure::Failure;
use crate::process::threads::start_runtime;
use crate::program::Program;

/// At most this many Kubernetes events are shown, the newest ones: they describe the current state.
const MAX_EVENTS: usize = 20;

pub fn run(program: &Program, arguments: &DescribeArguments) -> Result<(), Failure> {
    start_runtime()?.block_on(describe(program, arguments))
}

async fn describe(program: &Program, arguments: &DescribeArguments) -> Result<(), Failure> {
    let connection = connection::open(program, &arguments.connection).await?;
    let client = &connection.client;
    let actions: Api<TaskAction> = Api::namespaced(client.clone(), &connection.namespace);
    let found = actions.get_opt(&arguments.name).await;
    let found = found.map_err(|error| connection.request_failed(&error, "cannot read the action"))?;
    let Some(object) = found else {
        return Err(no_such_action(program, &connection, &arguments.name));
    };
    let failed = |error| connection.request_failed(&error, "cannot list the objects of the action");
    let pods = objects::pods(client, &object).await.map_err(failed)?;
    let plugins = program.plugins(&Config::default());
    let kinds: Vec<_> = plugins.set.k8s().iter().map(|plugin| plugin.kind()).collect();
    let others = objects::of_kinds(client, &object, &kinds).await;
    let mut names = vec![object.name_any()];
    names.extend(pods.iter().map(ResourceExt::name_any));
    names.extend(others.iter().map(|(_, object)| object.name_any()));
    let events = objects::events(client, &connection.namespace, &names).await.map_err(failed)?;

    let now = Timestamp::now();
    let mut created: Vec<Value> = others
        .iter()
        .map(|(kind, object)| object_facts(kind, &object.name_any(), object.labels(), operator_state(&object.data)))
        .collect();
    created.extend(pods.iter().map(|pod| object_facts("Pod", &pod.name_any(), pod.labels(), pod_state(pod))));
    let first = events.len().saturating_sub(MAX_EVENTS);
    let events: Vec<Value> = events[first..].iter().map(event_facts).collect();
    let mut described = facts(&Action::new(object, None), &created, &events, now);
    // Log links are only in the events for the control plane. The sandbox keeps these events in a file.
    let events = connection.events_file().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    described["logs"] = log_links(&events, &described["summary"]);
    match arguments.output {
        DescriptionFormat::Json => output::print_json(&described),
        DescriptionFormat::Yaml => output::print_yaml(&described),
        DescriptionFormat::Text => output::print(&text::render(&described, now)),
    }
}

/// The description for other programs. The names and meanings of its fields never change.
fn facts(action: &Action, created: &[Value], events: &[Value], now: Timestamp) -> Value {
    let spec = &action.object.spec;
    let status = action.status();
    let summary = Summary::new(&action.to_object());
    let template = action.template.get().map(AsRef::as_ref);
    let attempt = status.observed_attempt();
    let outputs = output_prefix(action, attempt).ok().filter(|_| !spec.run_output_base.is_empty());
    let times: Vec<_> = status.phase_history.iter().map(|line| line.occurred_at.0).collect();
    let history: Vec<_> = status
        .phase_history
        .iter()
        .enumerate()
        .map(|(index, line)| {
            // A phase lasts until the next one begins. The last one lasts until now, unless it is final.
            let until = times.get(index + 1).copied().or_else(|| (!status.is_terminal()).then_some(now));
            json!({
                "phase": line.phase,
                "at": line.occurred_at.0.to_string(),
                "seconds": until.map(|until| duration::between(line.occurred_at.0, until).as_secs()),
                "message": line.message,
            })
        })
        .collect();
    let conditions: Vec<_> = status
        .conditions
        .iter()
        .map(|one| {
            json!({
                "type": one.type_, "status": one.status, "reason": one.reason, "message": one.message,
                "since": one.last_transition_time.0.to_string(),
            })
        })
        .collect();
    json!({
        "summary": summary.as_json(now),
        "project": spec.project,
        "domain": spec.domain,
        "task": template.map(task_facts),
        "inputs": spec.input_uri,
        "outputs": outputs.map(|prefix| format!("{}/outputs.pb", prefix.trim_end_matches('/'))),
        "error": status.error_state,
        "history": history,
        "conditions": conditions,
        "objects": created,
        "events": events,
    })
}

/// The log links in the newest event of the action that has any. `events` has one JSON object per line.
fn log_links(events: &str, summary: &Value) -> Value {
    let events = events.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_of_action =
        |event: &Value| event["id"]["run"]["name"] == summary["run"] && event["id"]["name"] == summary["action"];
    let link = |log: &Value| json!({"name": log["name"], "uri": log["uri"]});
    let logs = events.filter(is_of_action).find_map(|event| {
        let logs = event["log_info"].as_array().filter(|logs| !logs.is_empty())?;
        Some(logs.iter().map(link).collect::<Vec<_>>())
    });
    logs.unwrap_or_default().into()
}

/// The most important fields of the task template.
fn task_facts(template: &TaskTemplate) -> Value {
    let id = template.id.clone().unwrap_or_default();
    let container = match &template.target {
        Some(Target::Container(container)) => Some(container),
        _ => None,
    };
    let amounts = |list: &[aileron_idl::flyteidl2::core::resources::ResourceEntry]| {
        list.iter()
            .map(|entry| (entry.name().as_str_name().to_lowercase(), Value::from(entry.value.clone())))
            .collect::<serde_json::Map<_, _>>()
    };
    let resources = container.and_then(|container| container.resources.as_ref());
    json!({
        "name": id.name,
        "version": id.version,
        "type": template.r#type,
        "image": container.map(|container| container.image.clone()),
        "command": container.map(|container| [container.command.clone(), container.args.clone()].concat()),
        "requests": resources.map(|resources| amounts(&resources.requests)),
        "limits": resources.map(|resources| amounts(&resources.limits)),
        "target": match &template.target {
            Some(Target::Container(_)) => Some("container"),
            Some(Target::K8sPod(_)) => Some("pod"),
            Some(Target::Sql(_)) => Some("sql"),
            None => None,
        },
    })
}

fn object_facts(
    kind: &str,
    name: &str,
    labels: &std::collections::BTreeMap<String, String>,
    (state, detail): (String, String),
) -> Value {
    json!({"kind": kind, "name": name, "attempt": objects::attempt_of(labels), "state": state, "detail": detail})
}

/// The state of a pod, and the states of its containers.
fn pod_state(pod: &Pod) -> (String, String) {
    let Some(status) = &pod.status else { return ("Unknown".into(), String::new()) };
    let state = if pod.metadata.deletion_timestamp.is_some() {
        "Terminating".to_owned()
    } else {
        status.phase.clone().unwrap_or_else(|| "Unknown".into())
    };
    let unscheduled =
        status.conditions.iter().flatten().find(|one| one.type_ == "PodScheduled" && one.status == "False");
    if let Some(condition) = unscheduled {
        return (state, condition.message.clone().unwrap_or_default());
    }
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let containers: Vec<_> = containers
        .filter_map(|one| {
            let now = one.state.as_ref()?;
            let text = if let Some(ended) = &now.terminated {
                let reason = ended.reason.clone().unwrap_or_default();
                format!("{} exited with {} {reason}", one.name, ended.exit_code)
            } else if let Some(waiting) = &now.waiting {
                format!("{} waits: {}", one.name, waiting.reason.clone().unwrap_or_default())
            } else {
                format!("{} runs", one.name)
            };
            Some(text.trim_end().to_owned())
        })
        .collect();
    (state, containers.join(", "))
}

/// The state that an operator reports in the status of its object, and its message. Each operator uses its own field.
fn operator_state(data: &Value) -> (String, String) {
    let fields = [
        "/status/applicationState/state",
        "/status/jobDeploymentStatus",
        "/status/jobStatus",
        "/status/terminalState",
        "/status/phase",
    ];
    let text = |path: &str| data.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
    let named = fields.iter().find_map(|field| text(field)).map(str::to_owned);
    let condition = || {
        let conditions = data.pointer("/status/conditions").and_then(Value::as_array)?;
        let last = conditions.iter().rev().find(|one| one["status"] == "True")?;
        last["type"].as_str().map(str::to_owned)
    };
    let detail = ["/status/applicationState/errorMessage", "/status/message"].iter().find_map(|field| text(field));
    (named.or_else(condition).unwrap_or_else(|| "Created".into()), detail.unwrap_or_default().to_owned())
}

fn event_facts(event: &Event) -> Value {
    let count = event.series.as_ref().and_then(|series| series.count).or(event.count).unwrap_or(1);
    json!({
        "at": objects::event_time(event).map(|time| time.to_string()),
        "type": event.type_,
        "reason": event.reason,
        "object": format!(
            "{}/{}",
            event.involved_object.kind.clone().unwrap_or_default(),
            event.involved_object.name.clone().unwrap_or_default()
        ),
        "count": count,
        "message": event.message,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn action() -> Action {
        let object: TaskAction = serde_json::from_value(json!({
            "apiVersion": "flyte.org/v1",
            "kind": "TaskAction",
            "metadata": {"name": "a", "namespace": "n", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"runName": "r", "actionName": "a0", "project": "p", "domain": "d", "taskType": "container",
                "inputUri": "file:///in", "runOutputBase": "file:///out"},
            "status": {
                "attempts": 2,
                "phaseHistory": [
                    {"phase": "Queued", "occurredAt": "2026-01-01T00:00:01Z"},
                    {"phase": "Executing", "occurredAt": "2026-01-01T00:00:04Z"},
                    {"phase": "PermanentFailure", "occurredAt": "2026-01-01T00:01:04Z", "message": "no luck"},
                ],
                "errorState": {"code": "Error", "kind": "USER", "message": "no luck\nat all"},
                "conditions": [{"type": "Failed", "status": "True", "reason": "PermanentFailure",
                    "message": "no luck", "lastTransitionTime": "2026-01-01T00:01:04Z"}],
            },
        }))
        .unwrap();
        Action::new(object, None)
    }

    #[test]
    fn a_phase_lasts_until_the_next_one_and_a_final_phase_has_no_duration() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let facts = facts(&action(), &[], &[], now);
        let seconds: Vec<_> = facts["history"].as_array().unwrap().iter().map(|line| line["seconds"].clone()).collect();
        assert_eq!(seconds, [json!(3), json!(60), Value::Null]);
        assert!(facts["outputs"].as_str().unwrap().ends_with("/a0/2/outputs.pb"), "{}", facts["outputs"]);
        let text = text::render(&facts, now);
        for part in [
            "Phase:      Failed, attempt 2 of 1",
            "USER Error\n  no luck\n  at all",
            "Executing          2026-01-01T00:00:04Z   60s",
            "file:///in",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }

    #[test]
    fn the_description_shows_how_the_action_ended() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let described = |kind: &str, reason: &str, message: &str| {
            let mut action = action();
            let mut status = action.status();
            status.phase_history.truncate(2);
            status.conditions.clear();
            status.error_state = None;
            status.set_condition(kind, true, reason, message, now);
            status.append_history(reason, message, now);
            action.object.status = Some(status);
            let facts = facts(&action, &[], &[], now);
            (facts["summary"]["outcome"].clone(), text::render(&facts, now))
        };
        let (outcome, text) = described("Failed", "TimedOut", "attempt 2 ran for 2s");
        assert_eq!(outcome, "TimedOut");
        assert!(text.contains("Phase:      TimedOut, attempt 2 of 1"), "{text}");
        let (_, text) = described("Succeeded", "Signaled", "condition signalled by \"\"");
        assert!(text.contains("   condition signalled\n"), "{text}");
        let (_, text) = described("Succeeded", "Signaled", "condition signalled by \"ada\"");
        assert!(text.contains("   condition signalled by \"ada\"\n"), "{text}");
    }

    #[test]
    fn links_are_those_of_the_newest_event_of_the_action() {
        let event = |run: &str, link: &str| {
            let logs = if link.is_empty() { json!([]) } else { json!([{"name": "Logs", "uri": link, "ready": true}]) };
            json!({"id": {"run": {"name": run}, "name": "a0"}, "log_info": logs}).to_string()
        };
        let events =
            [event("r", "http://1"), event("r", "http://2"), event("r", ""), event("other", "http://3")].join("\n");
        let summary = json!({"run": "r", "action": "a0"});
        assert_eq!(log_links(&events, &summary), json!([{"name": "Logs", "uri": "http://2"}]));
        assert_eq!(log_links("", &summary), json!([]));
    }

    #[test]
    fn the_state_is_read_from_the_field_of_each_operator() {
        let spark = json!({"status": {"applicationState": {"state": "RUNNING", "errorMessage": ""}}});
        assert_eq!(operator_state(&spark), ("RUNNING".into(), String::new()));
        let job = json!({"status": {"conditions": [{"type": "Created", "status": "True"},
            {"type": "Running", "status": "True"}, {"type": "Failed", "status": "False"}]}});
        assert_eq!(operator_state(&job).0, "Running");
        assert_eq!(operator_state(&json!({})).0, "Created");
    }
}
