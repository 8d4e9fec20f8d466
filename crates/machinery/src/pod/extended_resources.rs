//! Extended resources of a task: accelerators and shared memory.

use aileron_idl::flyteidl2::core::ExtendedResources;

/// The extended resources of the template, each replaced as a whole by the override for it, if there is one. Mirrors
/// `flytek8s.ApplyExtendedResourcesOverrides`.
pub fn apply_overrides(base: Option<&ExtendedResources>, overrides: Option<&ExtendedResources>) -> ExtendedResources {
    let mut result = base.cloned().unwrap_or_default();
    let Some(ExtendedResources { gpu_accelerator, shared_memory }) = overrides else { return result };
    if gpu_accelerator.is_some() {
        result.gpu_accelerator.clone_from(gpu_accelerator);
    }
    if shared_memory.is_some() {
        result.shared_memory.clone_from(shared_memory);
    }
    result
}
