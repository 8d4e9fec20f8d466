//! Garbage collection: which ended actions are kept.

use aileron_action::TaskAction;
use aileron_executor::cleanup::actions::expired;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{Case, argument, unknown_function, value};

pub(super) fn produce(case: &Case) -> anyhow::Result<Value> {
    if case.function() != "gc.collect" {
        return Err(unknown_function(case));
    }
    let max_ttl = SignedDuration::from_secs(argument(case, "maxTTLSeconds")?);
    let actions: Vec<TaskAction> = argument(case, "taskActions")?;
    let mut kept: Vec<String> = actions
        .into_iter()
        .map(|action| action.metadata)
        .filter(|metadata| !expired(&metadata.labels.clone().unwrap_or_default(), max_ttl, case.now))
        .map(|metadata| format!("{}/{}", metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default()))
        .collect();
    kept.sort();
    value(json!({"kept": kept}))
}
