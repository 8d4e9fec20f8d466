//! One object laid over another of the same type.

use aileron_kubekit::merge::{MergeSchema, overlay_typed};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::PluginError;

/// `base` with `upper` laid over it; neither is changed.
pub(super) fn overlay<T: Serialize + DeserializeOwned>(base: &T, upper: &T) -> Result<T, PluginError> {
    overlay_typed(base, upper, &MergeSchema::POD)
        .map_err(|error| PluginError::caused_by("", "failed to merge with a pod template", error))
}
