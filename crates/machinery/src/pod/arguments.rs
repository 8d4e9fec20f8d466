//! Placeholders in commands and arguments of containers.

use aileron_idl::flyteidl2::core::task_template::Target;
use k8s_openapi::api::core::v1::Container;
use prost_types::Struct;
use prost_types::value::Kind;

use crate::arguments::{ArgumentContext, ArgumentError, needs_inputs as any_needs_inputs, render_in_place};
use crate::{PluginError, TaskContext};

/// Fills the placeholders of a container's command and arguments.
pub(super) fn render(container: &mut Container, task: &TaskContext) -> Result<(), PluginError> {
    let cx = ArgumentContext::of(task);
    for templates in [&mut container.command, &mut container.args].into_iter().flatten() {
        render_in_place(templates, &cx).map_err(|error| refusal(&error, &cx.input_path))?;
    }
    Ok(())
}

/// The error for arguments that cannot be rendered. The inputs were read before the pod is built. If they are missing
/// here, the file does not exist.
fn refusal(error: &ArgumentError, input_path: &str) -> PluginError {
    match error {
        ArgumentError::InputsNeeded { .. } => PluginError::uncoded(format!(
            "unable to read inputs: [READ_FAILED] failed to read data from dataDir [{input_path}]., \
             caused by: path:{input_path}: file does not exist"
        )),
        ArgumentError::Inputs(_) => PluginError::uncoded(error.to_string()),
    }
}

/// Whether the inputs of the task are needed to build its pod.
pub(crate) fn needs_inputs(task: &TaskContext) -> bool {
    let template = &task.template;
    let in_target = match &template.target {
        Some(Target::Container(container)) => any_needs_inputs(&container.command) || any_needs_inputs(&container.args),
        Some(Target::K8sPod(pod)) => pod.pod_spec.as_ref().is_some_and(mentions_inputs),
        Some(Target::Sql(_)) | None => false,
    };
    let override_spec = task.metadata.overrides.pod_template.as_ref().and_then(|pod| pod.pod_spec.as_ref());
    in_target || template.custom.as_ref().is_some_and(mentions_inputs) || override_spec.is_some_and(mentions_inputs)
}

/// Whether any text in these fields has a placeholder for inputs. Texts that are not arguments are searched too:
/// reading the inputs without need costs one request, but without inputs that it needs the task fails.
fn mentions_inputs(fields: &Struct) -> bool {
    fields.fields.values().any(value_mentions_inputs)
}

fn value_mentions_inputs(value: &prost_types::Value) -> bool {
    match &value.kind {
        Some(Kind::StringValue(text)) => any_needs_inputs(std::slice::from_ref(text)),
        Some(Kind::ListValue(list)) => list.values.iter().any(value_mentions_inputs),
        Some(Kind::StructValue(fields)) => mentions_inputs(fields),
        _ => false,
    }
}
