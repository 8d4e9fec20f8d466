//! Links of a pod.

use aileron_idl::flyteidl2::core::TaskLog;
use k8s_openapi::api::core::v1::Pod;

use super::{LinkInput, LogLinks};
use crate::TaskContext;
use crate::pod::vscode::is_vscode_enabled;

impl LogLinks<'_> {
    /// The links for a pod's first container; none until the cluster has said something about that container.
    ///
    /// Mirrors `logs.GetLogsForContainerInPod`.
    pub fn of_pod(&self, task: &TaskContext, pod: &Pod) -> Vec<TaskLog> {
        let Some(spec) = &pod.spec else { return Vec::new() };
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref());
        let (Some(container), Some(status)) = (spec.containers.first(), statuses.and_then(<[_]>::first)) else {
            return Vec::new();
        };
        let metadata = &pod.metadata;
        self.links(&LinkInput {
            hostname: spec.hostname.as_deref().unwrap_or_default(),
            pod_name: metadata.name.as_deref().unwrap_or_default(),
            pod_uid: metadata.uid.as_deref().unwrap_or_default(),
            namespace: metadata.namespace.as_deref().unwrap_or_default(),
            container_name: &container.name,
            container_id: status.container_id.as_deref().unwrap_or_default(),
            pod_start: metadata.creation_timestamp.as_ref().map(|time| time.0.into()),
            pod_finish: Some(task.now.into()),
            id: Some(&task.metadata.id),
            template: Some(&task.template),
            vscode: is_vscode_enabled(container.env.as_deref().unwrap_or_default()),
            ..LinkInput::default()
        })
    }
}
