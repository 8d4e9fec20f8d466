//! `aileron get`.

use aileron_action::TaskAction;
use jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::arguments::{ActionListing, GetArguments};
use crate::connection::{self, Connection};
use crate::failure::{FAILED, Failure};
use crate::follow::{self, Watched};
use crate::summary::Summary;
use crate::{output, runtime, span, table};

pub fn run(arguments: &GetArguments) -> Result<(), Failure> {
    runtime::start()?.block_on(get(arguments))
}

async fn get(arguments: &GetArguments) -> Result<(), Failure> {
    let connection = connection::open(&arguments.connection).await?;
    if arguments.watch {
        return watch(arguments, connection).await;
    }
    let (found, missing) = find(arguments, &connection).await?;
    let now = Timestamp::now();
    match arguments.output {
        ActionListing::Json => output::print_json(&as_json(&found, now))?,
        ActionListing::Yaml => output::print_yaml(&as_json(&found, now))?,
        ActionListing::Name => {
            output::print(&found.iter().map(|summary| format!("{}\n", summary.name)).collect::<String>())?;
        }
        ActionListing::Table | ActionListing::Wide if found.is_empty() && missing.is_empty() => {
            let place = if arguments.all_namespaces {
                "in any namespace".to_owned()
            } else {
                format!("in namespace {}", connection.namespace)
            };
            let elsewhere = if arguments.all_namespaces { "" } else { ", `aileron get -A` looks everywhere" };
            output::note(&format!("no actions {place}; `aileron submit FILE` makes one{elsewhere}"));
        }
        ActionListing::Table | ActionListing::Wide if found.is_empty() => {}
        ActionListing::Table => output::print_lines(&as_table(&found, now, arguments.all_namespaces, false))?,
        ActionListing::Wide => output::print(&as_table(&found, now, arguments.all_namespaces, true))?,
    }
    for name in &missing {
        output::warn(&format!("there is no action {name} in namespace {}", connection.namespace));
    }
    if missing.is_empty() { Ok(()) } else { Err(Failure::Told(FAILED)) }
}

async fn watch(arguments: &GetArguments, connection: Connection) -> Result<(), Failure> {
    let json = match arguments.output {
        ActionListing::Json => true,
        ActionListing::Table | ActionListing::Wide => false,
        ActionListing::Yaml | ActionListing::Name => {
            return Err(Failure::Usage("--watch shows a table, or with -o json an object on each line".into()));
        }
    };
    let watched = Watched {
        namespace: (!arguments.all_namespaces).then(|| connection.namespace.clone()),
        selector: arguments.selector.clone(),
        names: arguments.names.clone(),
        json,
    };
    Ok(follow::watch(&connection.client, watched).await?)
}

async fn find(arguments: &GetArguments, connection: &Connection) -> Result<(Vec<Summary>, Vec<String>), Failure> {
    let client = connection.client.clone();
    let actions: Api<TaskAction> = match arguments.all_namespaces {
        true => Api::all(client),
        false => Api::namespaced(client, &connection.namespace),
    };
    let refused = |error| connection::explain(&error, "cannot list actions");
    if !arguments.names.is_empty() {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for name in &arguments.names {
            match actions.get_opt(name).await.map_err(refused)? {
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
    let listed = actions.list(&parameters).await.map_err(refused)?;
    let mut found: Vec<_> = listed.items.iter().map(Summary::new).collect();
    found.sort_by_cached_key(|one| (one.namespace.clone(), one.created, by_number(&one.name)));
    Ok((found, Vec::new()))
}

/// A name as parts, so that `task-2` comes before `task-10`: texts, each with the number behind it.
fn by_number(name: &str) -> Vec<(String, u64)> {
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
            span::age(summary.duration(now)),
            summary.created.map_or_else(|| "-".into(), |created| span::age(span::between(created, now))),
            summary.why(),
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
    use crate::summary::Phase;

    #[test]
    fn a_row_has_what_its_header_says() {
        let created = Timestamp::UNIX_EPOCH;
        let summary = Summary {
            namespace: "n".into(),
            name: "a".into(),
            run: "r".into(),
            action: "a0".into(),
            task_type: "container".into(),
            phase: Phase::Failed,
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
    fn numbers_in_names_count_as_numbers() {
        let mut names = ["b-10", "b-2", "b", "a-11-a0", "a-9-a0"];
        names.sort_by_key(|name| by_number(name));
        assert_eq!(names, ["a-9-a0", "a-11-a0", "b", "b-2", "b-10"]);
    }
}
