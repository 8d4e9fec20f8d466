//! Directories and volumes of pods.

pub(crate) mod mounts;
pub(crate) mod pod_dir;
pub(crate) mod volumes;
