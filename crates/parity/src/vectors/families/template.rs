//! Placeholders in commands and arguments.

use aileron_executor::storage::outputs::OutputsError;
use aileron_machinery::arguments::{ArgumentContext, ArgumentError, render};
use serde_json::Value;

use super::{Case, argument, failure, unknown_function, value};
use crate::vectors::context::of_arguments;
use crate::vectors::installation::Installation;

pub(super) fn produce(case: &Case) -> anyhow::Result<Value> {
    if case.function() != "template.render" {
        return Err(unknown_function(case));
    }
    let task = of_arguments(case, &Installation::of(case)?)?.with_inputs();
    let templates: Vec<String> = argument(case, "templates")?;
    let (input_path, checkpoint_prefix) = (task.paths.input_path(), task.paths.checkpoint_prefix());
    let cx = ArgumentContext {
        input_path: &input_path,
        input_prefix: &task.paths.input_prefix,
        output_prefix: &task.paths.output_prefix,
        raw_output_prefix: &task.paths.raw_output_prefix,
        checkpoint_prefix: &checkpoint_prefix,
        prev_checkpoint_prefix: &task.paths.prev_checkpoint_prefix,
        generated_name: &task.metadata.id.generated_name,
        task_template_path: &task.paths.task_template_path,
        namespace: &task.metadata.namespace,
        inputs: task.inputs.as_deref(),
    };
    match render(&templates, &cx) {
        Ok(rendered) => value(rendered),
        // The inputs were not given because the file does not exist; reading it is what fails in production.
        Err(ArgumentError::InputsNeeded { .. }) => {
            let missing = OutputsError::MissingInputs { uri: input_path.clone() };
            Ok(failure(format!("unable to read inputs: {missing}")))
        }
        Err(error) => Ok(failure(error)),
    }
}
