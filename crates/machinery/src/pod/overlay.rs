//! Merging objects of the same type: fields of the later object win.

use aileron_kubekit::merge::{MergeError, MergeSchema, overlay as overlay_values, overlay_typed};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::PluginError;

/// `base` merged with `upper`, whose fields win.
pub(super) fn overlay<T: Serialize + DeserializeOwned>(base: &T, upper: &T) -> Result<T, PluginError> {
    overlay_typed(base, upper, &MergeSchema::POD).map_err(failed)
}

/// All objects merged in this order. Fields of later objects win.
pub(super) fn stack<'a, T>(first: &T, more: impl IntoIterator<Item = &'a T>) -> Result<T, PluginError>
where
    T: Serialize + DeserializeOwned + Clone + 'a,
{
    let mut more = more.into_iter().peekable();
    if more.peek().is_none() {
        return Ok(first.clone());
    }
    // Only the result is converted back from JSON.
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
