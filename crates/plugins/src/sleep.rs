//! Tasks that only let time pass. They need no pod: a timer does it.

use aileron_idl::flyteidl2::core::{
    Literal, LiteralMap, SimpleType, TaskTemplate, TypedInterface, Variable, VariableMap, literal, literal_type,
    primitive, scalar,
};
use aileron_idl::signed_duration;
use aileron_machinery::{
    CorePlugin, CoreRequest, CoreStep, ExecutionError, PhaseInfo, PluginEntry, PluginError, TaskInfo, code,
};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

const TASK_TYPE: &str = "core-sleep";

/// Sleeps as long as its only input says.
///
/// The plugin stores nothing: the status of the action says since when the attempt runs, and that survives a restart.
///
/// # Differs from upstream
/// Upstream keeps the start in memory, so that a restart begins the sleep again, and looks every ten seconds whether it
/// is over. Here the end is computed, and nothing happens until then.
#[derive(Clone, Copy, Debug, Default)]
pub struct SleepPlugin;

/// The task cannot be a sleep.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum SleepError {
    #[error("task type [{TASK_TYPE}] requires exactly one duration input")]
    NotOneInput,
    #[error("task type [{TASK_TYPE}] does not support outputs")]
    HasOutputs,
    #[error("input [{0}] must be typed as duration")]
    WrongType(String),
    #[error("duration input [{0}] is missing")]
    Missing(String),
    #[error("duration input [{0}] must be a duration literal")]
    NotADuration(String),
    #[error("duration input [{0}] must be non-negative")]
    Negative(String),
}

#[async_trait]
impl CorePlugin for SleepPlugin {
    fn entry(&self) -> PluginEntry {
        PluginEntry::new(TASK_TYPE, &[TASK_TYPE])
    }

    async fn handle(&self, request: &CoreRequest<'_>) -> Result<CoreStep, PluginError> {
        let now = request.task.now;
        let input = match duration_input(&request.task.template) {
            Ok(input) => input,
            Err(error) => return Ok(refused(&error, now)),
        };
        let inputs = request.services.inputs().await;
        let inputs = inputs.map_err(|error| {
            let message = format!("failed to read task inputs: {error}");
            error.into_plugin_error(message)
        })?;
        Ok(match duration_of(input, &inputs) {
            Ok(duration) => sleep(duration, request.running_since, now),
            Err(error) => refused(&error, now),
        })
    }

    async fn abort(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> {
        Ok(())
    }

    async fn finalize(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> {
        Ok(())
    }
}

/// Over, or to be looked at again when it is.
fn sleep(duration: SignedDuration, running_since: Option<Timestamp>, now: Timestamp) -> CoreStep {
    // A sleep beyond the end of the calendar never ends.
    let end = running_since.unwrap_or(now).checked_add(duration).unwrap_or(Timestamp::MAX);
    let info = TaskInfo::at(now);
    if end <= now {
        return CoreStep::of(PhaseInfo::success(info));
    }
    CoreStep { wake_at: Some(end), ..CoreStep::of(PhaseInfo::running(info)) }
}

/// The same definition fails the same way every time, so there is no other attempt.
fn refused(error: &SleepError, now: Timestamp) -> CoreStep {
    let error = ExecutionError::user(code::BAD_TASK_SPECIFICATION, error.to_string());
    CoreStep::of(PhaseInfo::permanent_failure(error, TaskInfo::at(now)))
}

/// The name of the input that says how long.
fn duration_input(template: &TaskTemplate) -> Result<&str, SleepError> {
    let interface = template.interface.as_ref();
    let variables = |map: fn(&TypedInterface) -> Option<&VariableMap>| {
        interface.and_then(map).map_or(&[][..], |map| &map.variables)
    };
    let [input] = variables(|interface| interface.inputs.as_ref()) else { return Err(SleepError::NotOneInput) };
    if !variables(|interface| interface.outputs.as_ref()).is_empty() {
        return Err(SleepError::HasOutputs);
    }
    if !input.value.as_ref().is_some_and(is_duration) {
        return Err(SleepError::WrongType(input.key.clone()));
    }
    Ok(&input.key)
}

fn is_duration(variable: &Variable) -> bool {
    let simple = variable.r#type.as_ref().and_then(|literal_type| literal_type.r#type.as_ref());
    matches!(simple, Some(literal_type::Type::Simple(simple)) if *simple == i32::from(SimpleType::Duration))
}

fn duration_of(input: &str, inputs: &LiteralMap) -> Result<SignedDuration, SleepError> {
    let literal = inputs.literals.get(input).ok_or_else(|| SleepError::Missing(input.to_owned()))?;
    let value = duration_value(literal).ok_or_else(|| SleepError::NotADuration(input.to_owned()))?;
    let duration = signed_duration(value);
    if duration.is_negative() { Err(SleepError::Negative(input.to_owned())) } else { Ok(duration) }
}

fn duration_value(literal: &Literal) -> Option<&prost_types::Duration> {
    let Some(literal::Value::Scalar(scalar)) = &literal.value else { return None };
    let Some(scalar::Value::Primitive(primitive)) = &scalar.value else { return None };
    match &primitive.value {
        Some(primitive::Value::Duration(duration)) => Some(duration),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
