//! Labels of the pods that an operator makes from the templates in a plugin's object.

use std::sync::Arc;

use aileron_machinery::{ObjectPlugin, TaskContext};
use futures::executor::block_on;
use serde_json::Value;

use super::functions::built;
use crate::report::Check;

/// A label of the attempt. No plugin sets it by itself, so it is on a pod template only if the plugin copies the labels.
const LABEL: (&str, &str) = ("testkit.aileron.dev/attempt", "this-one");

/// The executor finds pods by the labels of the attempt. Without them, `phase` of a plugin that needs pods never gets one.
pub(super) fn check(plugin: &dyn ObjectPlugin, tasks: &[TaskContext]) -> Check {
    let problems = tasks.iter().flat_map(|task| problems(plugin, task)).collect();
    Check::new("pod templates have the labels of the attempt", tasks.len(), problems)
}

fn problems(plugin: &dyn ObjectPlugin, task: &TaskContext) -> Vec<String> {
    let mut task = task.clone();
    Arc::make_mut(&mut task.metadata).labels.insert(LABEL.0.to_owned(), LABEL.1.to_owned());
    match block_on(plugin.needs(&task)) {
        Ok(needs) if !needs.pods => return Vec::new(),
        Ok(_) => {}
        Err(error) => return vec![format!("needs: {error}")],
    }
    let object = built(plugin, &task).map_err(|error| format!("build: {error}"));
    match object.and_then(|object| object.to_json().map_err(|error| error.to_string())) {
        Ok(object) => {
            let mut problems = Vec::new();
            walk(&object, "", &mut problems);
            problems
        }
        Err(error) => vec![error],
    }
}

fn walk(value: &Value, path: &str, problems: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let is_pod_template = key == "template" && member["spec"]["containers"].is_array();
                if is_pod_template && member["metadata"]["labels"][LABEL.0] != LABEL.1 {
                    problems.push(format!(
                        "{path}.metadata has no labels of the attempt, so `phase` gets no pods: use \
                         `pod_template::metadata(task, pod.metadata)`"
                    ));
                }
                walk(member, &path, problems);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, path, problems)),
        _ => {}
    }
}
