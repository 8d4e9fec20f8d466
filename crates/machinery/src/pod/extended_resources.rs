//! Extended resources of a task: accelerators and shared memory.

use aileron_idl::flyteidl2::core::ExtendedResources;

/// The extended resources of the template, each replaced as a whole by the override for it, if there is one. Mirrors
/// `flytek8s.ApplyExtendedResourcesOverrides`.
///
/// ```
/// use aileron_machinery::idl::flyteidl2::core::{ExtendedResources, GpuAccelerator, SharedMemory};
/// use aileron_machinery::pod::extended_resources::apply_overrides;
///
/// let of_task = ExtendedResources { shared_memory: Some(SharedMemory::default()), ..Default::default() };
/// let of_group = ExtendedResources { gpu_accelerator: Some(GpuAccelerator::default()), ..Default::default() };
/// let both = apply_overrides(Some(&of_task), Some(&of_group));
/// assert!(both.shared_memory.is_some() && both.gpu_accelerator.is_some());
/// ```
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
