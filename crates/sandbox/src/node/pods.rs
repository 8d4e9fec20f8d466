//! Pods of this node: which containers to start next, and the status of the pod.

pub(crate) mod container_record;
pub(crate) mod lifecycle;
pub(crate) mod lost;
pub(crate) mod pod_watch;
pub(crate) mod status;
pub(crate) mod worker;
