//! Names that a plugin's object has, for names of attempts of every length.

use aileron_kubekit::names;
use aileron_machinery::{ObjectPlugin, TaskContext};
use serde_json::Value;

use super::functions::built;
use crate::report::Check;

/// The longest name that an object may have.
const LONGEST: usize = names::SUBDOMAIN_MAX_LENGTH;

pub(super) fn check(plugin: &dyn ObjectPlugin, tasks: &[TaskContext]) -> Check {
    let Some(task) = tasks.first() else { return Check::new("names are valid at every length", 0, Vec::new()) };
    let mut problems = Vec::new();
    for length in 1..=LONGEST {
        let (one, other) = (object_with_name(plugin, task, length, '0'), object_with_name(plugin, task, length, '1'));
        match (one, other) {
            (Ok(one), Ok(other)) => {
                problems.extend(
                    invalid(&one).into_iter().map(|problem| format!("a name of {length} characters: {problem}")),
                );
                if one["metadata"]["name"] == other["metadata"]["name"] {
                    problems.push(format!(
                        "a name of {length} characters: two attempts have objects of the same name {}",
                        one["metadata"]["name"]
                    ));
                }
            }
            (Err(error), _) | (_, Err(error)) => problems.push(format!("a name of {length} characters: {error}")),
        }
    }
    Check::new("names are valid at every length", LONGEST, problems)
}

/// The object of an attempt whose name has this length and ends with this character.
fn object_with_name(plugin: &dyn ObjectPlugin, task: &TaskContext, length: usize, last: char) -> Result<Value, String> {
    // As real names: a run, an action and an attempt, with hyphens between them.
    let mut name: String = "run-a0-".chars().cycle().take(length.saturating_sub(1)).collect();
    if name.ends_with('-') {
        name.pop();
        name.push('x');
    }
    name.push(last);
    let mut task = task.clone();
    let mut metadata = (*task.metadata).clone();
    metadata.id.generated_name = name;
    task.metadata = metadata.into();
    let object = built(plugin, &task).map_err(|error| format!("build: {error}"))?;
    if let (Some(bound), Some(name)) = (plugin.properties().generated_name_max_length, object.metadata().name.as_ref())
        && name.len() > bound
    {
        return Err(format!(
            "the object is called {name}, which is longer than the {bound} characters of its properties"
        ));
    }
    object.to_json().map_err(|error| error.to_string())
}

/// What is wrong with the names and labels of an object.
fn invalid(object: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if !names::is_subdomain(name) {
        problems.push(format!("metadata.name {name:?} is not a DNS subdomain"));
    }
    walk(object, "", &mut problems);
    problems
}

fn walk(value: &Value, path: &str, problems: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match (key.as_str(), member) {
                    ("labels" | "matchLabels", Value::Object(labels)) => {
                        let values = labels.iter().filter_map(|(key, value)| Some((key, value.as_str()?)));
                        for (key, value) in values.filter(|(_, value)| !names::label_value_problems(value).is_empty()) {
                            problems.push(format!("{path}[{key}] {value:?} is not the value of a label"));
                        }
                    }
                    ("containers" | "initContainers", Value::Array(containers)) => {
                        let names_of = containers.iter().filter_map(|container| container["name"].as_str());
                        for name in names_of.filter(|name| !names::is_label(name)) {
                            problems.push(format!("{path}: the container name {name:?} is not a DNS label"));
                        }
                        walk(member, &path, problems);
                    }
                    _ => walk(member, &path, problems),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, path, problems)),
        _ => {}
    }
}
