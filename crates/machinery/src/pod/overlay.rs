//! One object laid over another of the same type.

use aileron_kubekit::merge::{MergeError, MergeSchema, overlay as overlay_values, overlay_typed};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::PluginError;

/// `base` with `upper` laid over it; neither is changed.
pub(super) fn overlay<T: Serialize + DeserializeOwned>(base: &T, upper: &T) -> Result<T, PluginError> {
    overlay_typed(base, upper, &MergeSchema::POD).map_err(failed)
}

/// Each of the objects laid over those before it, on the first; none is changed.
pub(super) fn stack<'a, T>(first: &T, more: impl IntoIterator<Item = &'a T>) -> Result<T, PluginError>
where
    T: Serialize + DeserializeOwned + Clone + 'a,
{
    let mut more = more.into_iter().peekable();
    if more.peek().is_none() {
        return Ok(first.clone());
    }
    // One way to JSON and one back, however many there are.
    let value =
        |object: &T, side| serde_json::to_value(object).map_err(|source| failed(MergeError::Encode { side, source }));
    let merged = more.try_fold(value(first, "base")?, |merged, object| {
        Ok::<_, PluginError>(overlay_values(merged, &value(object, "overlay")?, &MergeSchema::POD))
    })?;
    serde_json::from_value(merged).map_err(|source| failed(MergeError::Decode(source)))
}

fn failed(error: MergeError) -> PluginError {
    PluginError::caused_by("", "failed to merge with a pod template", error)
}
