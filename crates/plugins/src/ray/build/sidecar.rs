//! A container beside the head node that reads the logs Ray writes.

use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, Volume, VolumeMount};

/// Where Ray keeps its state, logs among it.
const STATE_PATH: &str = "/tmp/ray";
const STATE_VOLUME: &str = "system-ray-state";

/// What the pod gets.
pub(super) struct Added {
    /// The sidecar, with Ray's state mounted.
    pub(super) container: Container,
    /// The volume with Ray's state, unless the head node had one already.
    pub(super) volume: Option<Volume>,
}

/// The configured sidecar, which sees Ray's state but cannot change it. The head node gets the volume it is shared by.
pub(super) fn add_logs_sidecar(head: &mut Container, sidecar: &Container) -> Added {
    let mounts = head.volume_mounts.get_or_insert_default();
    let existing = mounts.iter().find(|mount| mount.mount_path == STATE_PATH).cloned();
    let volume = existing.is_none().then(|| Volume {
        name: STATE_VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    });
    let state = existing.unwrap_or_else(|| {
        let mount =
            VolumeMount { name: STATE_VOLUME.to_owned(), mount_path: STATE_PATH.to_owned(), ..VolumeMount::default() };
        mounts.push(mount.clone());
        mount
    });

    let mut container = sidecar.clone();
    let mounts = container.volume_mounts.get_or_insert_default();
    let read_only = VolumeMount { read_only: Some(true), ..state };
    let mut replaced = false;
    for mount in mounts.iter_mut().filter(|mount| mount.mount_path == STATE_PATH) {
        mount.clone_from(&read_only);
        replaced = true;
    }
    if !replaced {
        mounts.push(read_only);
    }
    Added { container, volume }
}
