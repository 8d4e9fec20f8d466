//! The object that a plugin builds for a task.

use futures::executor::block_on;
use serde_json::{Value, json};

use super::{Case, plugin_failure};
use crate::vectors::context::of_case;
use crate::vectors::installation::Installation;

pub(super) fn produce(case: &Case) -> anyhow::Result<Value> {
    let installation = Installation::of(case)?;
    let plugin = installation.k8s_plugin(case)?;
    let mut described = of_case(case, &installation)?;
    // As in production, the plugin gets only the inputs that it declares to need.
    if block_on(plugin.needs(&described.task))?.inputs {
        described.task.inputs = described.inputs.clone();
    }
    let built = block_on(plugin.build(&described.task)).and_then(|object| object.to_json());
    Ok(match built {
        Ok(object) => json!({"resource": object}),
        Err(error) => plugin_failure(&error),
    })
}
