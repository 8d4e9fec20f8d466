//! The description of an action as text.

use std::fmt::Write as _;
use std::time::Duration;

use aileron_executor::reconcile::PLUGIN_CHOSEN;
use jiff::Timestamp;
use serde_json::Value;

use crate::action::{one_line, plain_message};
use crate::display::{duration, table};

/// The column in which values begin.
const VALUE_COLUMN: usize = 12;

/// The command of a task is truncated to this length: it may contain a whole script.
const MAX_COMMAND_LENGTH: usize = 200;

/// The text for the facts that `describe` prints as JSON.
pub fn render(facts: &Value, now: Timestamp) -> String {
    let mut out = String::new();
    let summary = &facts["summary"];
    let task = &facts["task"];
    field(&mut out, "Name", word(&summary["name"]));
    field(&mut out, "Namespace", word(&summary["namespace"]));
    let run = word(&summary["run"]);
    field(&mut out, "Run", &format!("{run} ({}, {})", word(&facts["project"]), word(&facts["domain"])));
    field(&mut out, "Action", word(&summary["action"]));
    let named = [&task["name"], &task["version"]].map(word).join(" ");
    field(&mut out, "Task", named.trim());
    field(&mut out, "Type", word(&summary["type"]));
    // This condition exists only if the task type alone did not decide the plugin.
    let chosen = facts["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == PLUGIN_CHOSEN);
    field(&mut out, "Plugin", &chosen.map(|one| one_line(word(&one["message"]))).unwrap_or_default());
    field(&mut out, "Image", word(&task["image"]));
    let command: Vec<_> = task["command"].as_array().into_iter().flatten().map(word).collect();
    field(&mut out, "Command", &table::truncate(&one_line(&command.join(" ")), MAX_COMMAND_LENGTH));
    for (label, key) in [("Requests", "requests"), ("Limits", "limits")] {
        let amounts = task[key].as_object().into_iter().flatten();
        let amounts: Vec<_> = amounts.map(|(name, amount)| format!("{name} {}", word(amount))).collect();
        field(&mut out, label, &amounts.join(", "));
    }
    let phase = word(&summary["phase"]);
    let (attempt, max) = (&summary["attempt"], &summary["maxAttempts"]);
    let phase_text = match attempt.as_u64() {
        Some(0) | None => phase.to_owned(),
        Some(attempt) => format!("{phase}, attempt {attempt} of {max}"),
    };
    field(&mut out, "Phase", &phase_text);
    let pending = &summary["pending"];
    if !pending.is_null() {
        let since = word(&pending["since"]).parse::<Timestamp>().ok();
        let since =
            since.map(|since| format!(" for {}", duration::age(duration::between(since, now)))).unwrap_or_default();
        let why = one_line(word(&pending["message"]));
        field(&mut out, "Waits for", &format!("{}{since}: {why}", word(&pending["reason"])));
    } else if facts["error"].is_null() {
        // If there is an error, it is shown in full below.
        field(&mut out, "Because", &one_line(word(&summary["message"])));
    }
    field(&mut out, "Created", &moment(&summary["created"], now));
    field(&mut out, "Ended", &moment(&summary["ended"], now));
    let took =
        summary["seconds"].as_u64().map(|seconds| duration::age(Duration::from_secs(seconds))).unwrap_or_default();
    field(&mut out, if summary["ended"].is_null() { "So far" } else { "Took" }, &took);
    field(&mut out, "Inputs", word(&facts["inputs"]));
    field(&mut out, "Outputs", word(&facts["outputs"]));
    if let Value::Object(error) = &facts["error"] {
        let part = |key: &str| error.get(key).map(word).unwrap_or_default();
        let title = format!("{} {}", part("kind"), part("code"));
        let title =
            if summary["outcome"].is_null() { format!("{} (of an earlier attempt)", title.trim()) } else { title };
        let _ = writeln!(out, "\nError: {}", title.trim());
        for line in part("message").lines() {
            let _ = writeln!(out, "  {line}");
        }
    }
    section(&mut out, "Phases", &["PHASE", "AT", "FOR", "MESSAGE"], &facts["history"], |line| {
        let lasted =
            line["seconds"].as_u64().map_or_else(String::new, |seconds| duration::age(Duration::from_secs(seconds)));
        vec![
            word(&line["phase"]).into(),
            word(&line["at"]).into(),
            lasted,
            one_line(&plain_message(word(&line["message"]))),
        ]
    });
    section(&mut out, "Conditions", &["TYPE", "STATUS", "REASON", "SINCE"], &facts["conditions"], |one| {
        ["type", "status", "reason", "since"].map(|key| word(&one[key]).to_owned()).into()
    });
    section(&mut out, "Objects", &["KIND", "NAME", "ATTEMPT", "STATE", "DETAIL"], &facts["objects"], |one| {
        let attempt = one["attempt"].as_u64().map_or_else(|| "-".into(), |attempt| attempt.to_string());
        let [kind, name, state, detail] = ["kind", "name", "state", "detail"].map(|key| word(&one[key]).to_owned());
        vec![kind, name, attempt, state, detail]
    });
    section(&mut out, "Log links", &["NAME", "ADDRESS"], &facts["logs"], |one| {
        ["name", "uri"].map(|key| word(&one[key]).to_owned()).into()
    });
    section(&mut out, "Events", &["AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"], &facts["events"], |one| {
        let age = one["at"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
        let age = age.map_or_else(|| "-".into(), |at| duration::age(duration::between(at, now)));
        let age = match one["count"].as_i64() {
            Some(count @ 2..) => format!("{age} (x{count})"),
            _ => age,
        };
        let [kind, reason, object] = ["type", "reason", "object"].map(|key| word(&one[key]).to_owned());
        vec![age, kind, reason, object, one_line(word(&one["message"]))]
    });
    out
}

/// Writes a line with label and value, unless the value is empty.
fn field(out: &mut String, label: &str, value: &str) {
    if !value.is_empty() {
        let _ = writeln!(out, "{:<VALUE_COLUMN$}{value}", format!("{label}:"));
    }
}

/// Writes a table with a title, unless it has no rows.
fn section(out: &mut String, title: &str, header: &[&str], list: &Value, row: impl Fn(&Value) -> Vec<String>) {
    let rows: Vec<_> = list.as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}:");
    for line in table::render(header, &rows).lines() {
        let _ = writeln!(out, "  {line}");
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A time, and how long ago it was.
fn moment(value: &Value, now: Timestamp) -> String {
    match word(value).parse::<Timestamp>() {
        Ok(at) => format!("{at} ({} ago)", duration::age(duration::between(at, now))),
        Err(_) => String::new(),
    }
}
