//! A volume in memory for the primary container.

use aileron_idl::flyteidl2::core::SharedMemory;
use aileron_kubekit::quantity::Quantity;
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, PodSpec, Volume, VolumeMount};

use super::resources;
use crate::PluginError;

/// Adds the volume to the pod and mounts it in the primary container. Mirrors `flytek8s.ApplySharedMemory`.
///
/// ```
/// use aileron_machinery::idl::flyteidl2::core::SharedMemory;
/// use aileron_machinery::pod::{build_pod, shared_memory::apply_shared_memory};
/// # use aileron_machinery::{testing::task, serde_json::Value};
///
/// let mut draft = build_pod(&task("batch", &Value::Null), Default::default())?;
/// let memory = SharedMemory { mount_name: "shm".into(), mount_path: "/dev/shm".into(), size_limit: "1Gi".into() };
/// apply_shared_memory(&mut draft.spec, &draft.primary_container, &memory)?;
/// assert_eq!(draft.spec.volumes.unwrap()[0].name, "shm");
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub fn apply_shared_memory(
    spec: &mut PodSpec,
    primary_container: &str,
    shared_memory: &SharedMemory,
) -> Result<(), PluginError> {
    let refuse = |message: String| Err(PluginError::bad_task_specification(message));
    let SharedMemory { mount_name, mount_path, size_limit } = shared_memory;
    if mount_name.is_empty() {
        return refuse("mount name is not set".into());
    }
    if mount_path.is_empty() {
        return refuse("mount path is not set".into());
    }
    let Some(primary) = spec.containers.iter_mut().rfind(|container| container.name == primary_container) else {
        return refuse("Unable to find primary container".into());
    };
    if spec.volumes.iter().flatten().any(|volume| volume.name == *mount_name) {
        return refuse(format!("A volume is already named {mount_name} in pod spec"));
    }
    for mount in primary.volume_mounts.iter().flatten() {
        if mount.name == *mount_name {
            return refuse(format!("A volume is already named {mount_name} in container"));
        }
        if mount.mount_path == *mount_path {
            return refuse(format!("{mount_path} is already mounted in container"));
        }
    }
    // Without a size the limit is zero, which means no limit for the volume.
    let size = if size_limit.is_empty() {
        Quantity::default()
    } else {
        size_limit
            .parse()
            .map_err(|error| PluginError::bad_task_specification(format!("Unable to parse size limit: {error}")))?
    };

    primary.volume_mounts.get_or_insert_default().push(VolumeMount {
        name: mount_name.clone(),
        mount_path: mount_path.clone(),
        ..Default::default()
    });
    spec.volumes.get_or_insert_default().push(Volume {
        name: mount_name.clone(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            size_limit: Some(resources::text(&size)),
            ..Default::default()
        }),
        ..Default::default()
    });
    Ok(())
}
