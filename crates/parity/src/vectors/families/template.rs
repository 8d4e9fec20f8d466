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
    let cx = ArgumentContext::of(&task);
    match render(&templates, &cx) {
        Ok(rendered) => value(rendered),
        // The case has no inputs file. In production, reading that file fails with this error.
        Err(ArgumentError::InputsNeeded { .. }) => {
            let missing = OutputsError::MissingInputs { uri: cx.input_path.to_string() };
            Ok(failure(format!("unable to read inputs: {missing}")))
        }
        Err(error) => Ok(failure(error)),
    }
}
