//! `aileron describe`.

mod text;

use aileron_executor::action::metadata::output_prefix;
use aileron_executor::action::{Action, TaskAction};
use aileron_executor::config::Config;
use aileron_idl::flyteidl2::core::TaskTemplate;
use aileron_idl::flyteidl2::core::task_template::Target;
use anyhow::anyhow;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::arguments::{DescribeArguments, Description};
use crate::failure::Failure;
use crate::summary::Summary;
use crate::{connection, objects, output, runtime, span};

/// What is shown of events: the last ones tell where something stands.
const EVENTS: usize = 20;

pub fn run(arguments: &DescribeArguments) -> Result<(), Failure> {
    runtime::start()?.block_on(describe(arguments))
}

async fn describe(arguments: &DescribeArguments) -> Result<(), Failure> {
    let connection = connection::open(&arguments.connection).await?;
    let client = &connection.client;
    let actions: Api<TaskAction> = Api::namespaced(client.clone(), &connection.namespace);
    let found = actions.get_opt(&arguments.name).await;
    let found = found.map_err(|error| connection::explain(&error, "cannot look for the action"))?;
    let Some(object) = found else {
        return Err(Failure::Failed(anyhow!(
            "there is no action {} in namespace {}; `aileron get -A` lists all",
            arguments.name,
            connection.namespace
        )));
    };
    let cannot = |error| connection::explain(&error, "cannot look for its objects");
    let pods = objects::pods(client, &object).await.map_err(cannot)?;
    let plugins = aileron_plugins::builtin().build(&Config::default().plugins.section_values());
    let plugins = plugins.map_err(|error| Failure::Failed(error.into()))?;
    let kinds: Vec<_> = plugins.k8s().iter().map(|plugin| plugin.kind()).collect();
    let others = objects::others(client, &object, &kinds).await;
    let mut names = vec![object.name_any()];
    names.extend(pods.iter().map(ResourceExt::name_any));
    names.extend(others.iter().map(|(_, object)| object.name_any()));
    let events = objects::events(client, &connection.namespace, &names).await.map_err(cannot)?;

    let now = Timestamp::now();
    let mut made: Vec<Value> = others
        .iter()
        .map(|(kind, object)| thing(kind, &object.name_any(), object.labels(), state(&object.data)))
        .collect();
    made.extend(pods.iter().map(|pod| thing("Pod", &pod.name_any(), pod.labels(), pod_state(pod))));
    let first = events.len().saturating_sub(EVENTS);
    let events: Vec<Value> = events[first..].iter().map(event).collect();
    let mut described = facts(&Action::new(object, None), &made, &events, now);
    // Links are told to the control plane only; the one of a sandbox can be asked.
    let told = connection.events().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    described["logs"] = links(&told, &described["summary"]);
    match arguments.output {
        Description::Json => output::print_json(&described),
        Description::Yaml => output::print_yaml(&described),
        Description::Text => output::print(&text::render(&described, now)),
    }
}

/// Everything worth knowing, for other programs. Names and meanings of fields stay as they are.
fn facts(action: &Action, made: &[Value], events: &[Value], now: Timestamp) -> Value {
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
            // A phase lasts until the next begins; the last one until now, unless it is the end.
            let until = times.get(index + 1).copied().or_else(|| (!status.is_terminal()).then_some(now));
            json!({
                "phase": line.phase,
                "at": line.occurred_at.0.to_string(),
                "seconds": until.map(|until| span::between(line.occurred_at.0, until).as_secs()),
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
        "task": template.map(task),
        "inputs": spec.input_uri,
        "outputs": outputs.map(|prefix| format!("{}/outputs.pb", prefix.trim_end_matches('/'))),
        "error": status.error_state,
        "history": history,
        "conditions": conditions,
        "objects": made,
        "events": events,
    })
}

/// The links to logs in the newest event of an action that has some.
fn links(told: &str, summary: &Value) -> Value {
    let events = told.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_it =
        |event: &Value| event["id"]["run"]["name"] == summary["run"] && event["id"]["name"] == summary["action"];
    let link = |log: &Value| json!({"name": log["name"], "uri": log["uri"]});
    let logs = events.filter(of_it).find_map(|event| {
        let logs = event["log_info"].as_array().filter(|logs| !logs.is_empty())?;
        Some(logs.iter().map(link).collect::<Vec<_>>())
    });
    logs.unwrap_or_default().into()
}

/// The task in short.
fn task(template: &TaskTemplate) -> Value {
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

fn thing(
    kind: &str,
    name: &str,
    labels: &std::collections::BTreeMap<String, String>,
    (state, detail): (String, String),
) -> Value {
    json!({"kind": kind, "name": name, "attempt": objects::attempt(labels), "state": state, "detail": detail})
}

/// What a pod is doing, and where.
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

/// What an operator says about its object, in the places where operators say it.
fn state(data: &Value) -> (String, String) {
    let places = [
        "/status/applicationState/state",
        "/status/jobDeploymentStatus",
        "/status/jobStatus",
        "/status/terminalState",
        "/status/phase",
    ];
    let text = |path: &str| data.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
    let named = places.iter().find_map(|place| text(place)).map(str::to_owned);
    let condition = || {
        let conditions = data.pointer("/status/conditions").and_then(Value::as_array)?;
        let last = conditions.iter().rev().find(|one| one["status"] == "True")?;
        last["type"].as_str().map(str::to_owned)
    };
    let detail = ["/status/applicationState/errorMessage", "/status/message"].iter().find_map(|place| text(place));
    (named.or_else(condition).unwrap_or_else(|| "Created".into()), detail.unwrap_or_default().to_owned())
}

fn event(event: &Event) -> Value {
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
    fn phases_last_until_the_next_and_the_end_does_not_last() {
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
    fn the_end_is_told_as_it_was() {
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
        let told =
            [event("r", "http://1"), event("r", "http://2"), event("r", ""), event("other", "http://3")].join("\n");
        let summary = json!({"run": "r", "action": "a0"});
        assert_eq!(links(&told, &summary), json!([{"name": "Logs", "uri": "http://2"}]));
        assert_eq!(links("", &summary), json!([]));
    }

    #[test]
    fn operators_are_understood_wherever_they_say_it() {
        let spark = json!({"status": {"applicationState": {"state": "RUNNING", "errorMessage": ""}}});
        assert_eq!(state(&spark), ("RUNNING".into(), String::new()));
        let job = json!({"status": {"conditions": [{"type": "Created", "status": "True"},
            {"type": "Running", "status": "True"}, {"type": "Failed", "status": "False"}]}});
        assert_eq!(state(&job).0, "Running");
        assert_eq!(state(&json!({})).0, "Created");
    }
}
