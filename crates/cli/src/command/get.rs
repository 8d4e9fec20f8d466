//! `aileron get`: lists actions, or watches them.

use aileron_action::TaskAction;
use jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::action::Summary;
use crate::arguments::{GetArguments, ListFormat};
use crate::connection::{self, Connection};
use crate::display::{duration, output, table};
use crate::failure::{EXIT_FAILED, Failure};
use crate::follow::{self, WatchOptions};
use crate::process::threads::start_runtime;
use crate::program::Program;

pub fn run(program: &Program, arguments: &GetArguments) -> Result<(), Failure> {
    start_runtime()?.block_on(get(program, arguments))
}

async fn get(program: &Program, arguments: &GetArguments) -> Result<(), Failure> {
    let connection = connection::open(program, &arguments.connection).await?;
    if arguments.watch {
        return watch(arguments, connection).await;
    }
    let (found, missing) = find(arguments, &connection).await?;
    let now = Timestamp::now();
    match arguments.output {
        ListFormat::Json => output::print_json(&as_json(&found, now))?,
        ListFormat::Yaml => output::print_yaml(&as_json(&found, now))?,
        ListFormat::Name => {
            output::print(&found.iter().map(|summary| format!("{}\n", summary.name)).collect::<String>())?;
        }
        ListFormat::Table | ListFormat::Wide if found.is_empty() && missing.is_empty() => {
            let place = if arguments.all_namespaces {
                "in any namespace".to_owned()
            } else {
                format!("in namespace {}", connection.namespace)
            };
            let name = program.name();
            let elsewhere = if arguments.all_namespaces {
                String::new()
            } else {
                format!(", `{name} get -A` lists all namespaces")
            };
            output::note(&format!("no actions {place}; `{name} submit FILE` creates one{elsewhere}"));
        }
        ListFormat::Table | ListFormat::Wide if found.is_empty() => {}
        ListFormat::Table => output::print_truncated(&as_table(&found, now, arguments.all_namespaces, false))?,
        ListFormat::Wide => output::print(&as_table(&found, now, arguments.all_namespaces, true))?,
    }
    for name in &missing {
        output::warn(&format!("namespace {} has no action {name}", connection.namespace));
    }
    if missing.is_empty() { Ok(()) } else { Err(Failure::AlreadyReported(EXIT_FAILED)) }
}

async fn watch(arguments: &GetArguments, connection: Connection) -> Result<(), Failure> {
    let json = match arguments.output {
        ListFormat::Json => true,
        ListFormat::Table | ListFormat::Wide => false,
        ListFormat::Yaml | ListFormat::Name => {
            return Err(Failure::Usage("--watch: use -o table, or -o json for one object per line".into()));
        }
    };
    let options = WatchOptions {
        namespace: (!arguments.all_namespaces).then(|| connection.namespace.clone()),
        selector: arguments.selector.clone(),
        names: arguments.names.clone(),
        json,
    };
    Ok(follow::watch(&connection.client, options).await?)
}

async fn find(arguments: &GetArguments, connection: &Connection) -> Result<(Vec<Summary>, Vec<String>), Failure> {
    let client = connection.client.clone();
    let actions: Api<TaskAction> = match arguments.all_namespaces {
        true => Api::all(client),
        false => Api::namespaced(client, &connection.namespace),
    };
    let failed = |error| connection.request_failed(&error, "cannot list actions");
    if !arguments.names.is_empty() {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for name in &arguments.names {
            match actions.get_opt(name).await.map_err(failed)? {
                Some(action) => found.push(Summary::new(&action)),
                None => missing.push(name.clone()),
            }
        }
        return Ok((found, missing));
    }
    let mut parameters = ListParams::default();
    if let Some(selector) = &arguments.selector {
        parameters = parameters.labels(selector);
    }
    let listed = actions.list(&parameters).await.map_err(failed)?;
    let mut found: Vec<_> = listed.items.iter().map(Summary::new).collect();
    found.sort_by_cached_key(|one| (one.namespace.clone(), one.created, natural_order(&one.name)));
    Ok((found, Vec::new()))
}

/// A sort key that orders numbers in names by value: `task-2` before `task-10`. Each part is a text and the number after it.
fn natural_order(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let (text, behind) = rest.split_at(rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len()));
        let (digits, next) = behind.split_at(behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len()));
        parts.push((text.to_owned(), digits.parse().unwrap_or_default()));
        rest = next;
    }
    parts
}

fn as_json(found: &[Summary], now: Timestamp) -> Value {
    json!({"actions": found.iter().map(|summary| summary.as_json(now)).collect::<Vec<_>>()})
}

fn as_table(found: &[Summary], now: Timestamp, namespaces: bool, wide: bool) -> String {
    let mut header = vec!["NAME", "TYPE", "PHASE", "ATTEMPT", "DURATION", "AGE", "REASON"];
    if wide {
        header.splice(1..1, ["RUN"]);
        header.splice(5..5, ["SYSTEM FAILURES"]);
    }
    if namespaces {
        header.insert(0, "NAMESPACE");
    }
    let row = |summary: &Summary| {
        let mut row = vec![
            summary.name.clone(),
            summary.task_type.clone(),
            summary.phase.as_str().to_owned(),
            summary.attempts(),
            duration::age(summary.duration(now)),
            summary.created.map_or_else(|| "-".into(), |created| duration::age(duration::between(created, now))),
            summary.explanation(),
        ];
        if wide {
            row.insert(1, summary.run.clone());
            row.insert(5, summary.system_failures.to_string());
        }
        if namespaces {
            row.insert(0, summary.namespace.clone());
        }
        row
    };
    table::render(&header, &found.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::DisplayPhase;

    #[test]
    fn a_row_has_what_its_header_says() {
        let created = Timestamp::UNIX_EPOCH;
        let summary = Summary {
            namespace: "n".into(),
            name: "a".into(),
            run: "r".into(),
            action: "a0".into(),
            task_type: "container".into(),
            phase: DisplayPhase::Failed,
            attempt: 2,
            max_attempts: 2,
            system_failures: 1,
            reason: "Error".into(),
            message: "x".repeat(100),
            pending: None,
            created: Some(created),
            ended: Some(created + jiff::SignedDuration::from_secs(5)),
        };
        let now = created + jiff::SignedDuration::from_secs(300);
        let narrow = as_table(std::slice::from_ref(&summary), now, false, false);
        let expected = format!("a      container   Failed   2/2       5s         5m    [Error] {}", "x".repeat(100));
        assert_eq!(narrow.lines().nth(1), Some(expected.as_str()));
        let wide = as_table(&[summary], now, true, true);
        let header: Vec<_> = wide.lines().next().unwrap_or_default().split("   ").map(str::trim).collect();
        let header: Vec<_> = header.into_iter().filter(|cell| !cell.is_empty()).collect();
        assert_eq!((header[0], header[2]), ("NAMESPACE", "RUN"));
        assert_eq!(header[6], "SYSTEM FAILURES");
        assert!(wide.contains(&"x".repeat(100)));
    }

    #[test]
    fn numbers_in_names_are_ordered_by_value() {
        let mut names = ["b-10", "b-2", "b", "a-11-a0", "a-9-a0"];
        names.sort_by_key(|name| natural_order(name));
        assert_eq!(names, ["a-9-a0", "a-11-a0", "b", "b-2", "b-10"]);
    }
}
