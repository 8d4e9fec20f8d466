//! Links to the logs of a job's pods. The operator names pods after their job, so the links do not wait for the pods.

use aileron_idl::flyteidl2::core::TaskLog;
use aileron_machinery::TaskContext;
use aileron_machinery::log_links::{LinkInput, LogLinks};

use super::job::Job;

/// How many pods of a role get links. Nobody reads more, and the report about a job of any size must fit a message.
const MAX_LINKED_PODS: i32 = 1000;

/// A group of replicas whose logs are linked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Role {
    /// What the job calls it.
    pub(crate) replica_type: &'static str,
    /// Ends the names of its links, to tell them from those of others.
    pub(crate) log_name: &'static str,
    /// What its pods are called.
    pub(crate) pods: PodNames,
}

/// How the operator names the pods of a role, after the name of the job.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PodNames {
    /// Numbered from zero: `-worker-0`.
    Numbered(&'static str),
    /// There is only ever one, and it still has a number: `-chief-0`.
    First(&'static str),
    /// There is only ever one, without a number: `-launcher`.
    Single(&'static str),
}

impl PodNames {
    /// The names, for so many replicas.
    fn of(self, job: &str, count: i32) -> Vec<String> {
        let count = count.clamp(0, MAX_LINKED_PODS);
        match self {
            Self::Numbered(role) => (0..count).map(|index| format!("{job}-{role}-{index}")).collect(),
            Self::First(role) => (0..count.min(1)).map(|_| format!("{job}-{role}-0")).collect(),
            Self::Single(role) => (0..count.min(1)).map(|_| format!("{job}-{role}")).collect(),
        }
    }
}

/// The links of all pods of the given roles, role by role.
///
/// The start of the job stands for the start of its pods, the present for their end.
///
/// Mirrors `common.GetLogs`.
///
/// # Differs from upstream
/// Pods have the names that the operator gives them, also launchers and the special replicas of TensorFlow, and all of
/// them have a container and times. Only the first thousand pods of a role have links.
pub(super) fn links(job: &Job<'_>, task: &TaskContext, roles: &[Role]) -> Vec<TaskLog> {
    let links = LogLinks::new(&task.platform.logs, Some(&task.template));
    let mut found = Vec::new();
    for role in roles {
        for pod_name in role.pods.of(job.name(), job.count(role.replica_type)) {
            found.extend(links.links(&LinkInput {
                pod_name: &pod_name,
                namespace: job.metadata.namespace.as_deref().unwrap_or_default(),
                log_name: role.log_name,
                container_name: job.framework,
                pod_start: job.created().map(Into::into),
                pod_finish: Some(task.now.into()),
                id: Some(&task.metadata.id),
                template: Some(&task.template),
                ..LinkInput::default()
            }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_named_as_the_operator_names_them() {
        assert_eq!(PodNames::Numbered("worker").of("j", 2), ["j-worker-0", "j-worker-1"]);
        assert_eq!(PodNames::First("chief").of("j", 2), ["j-chief-0"]);
        assert_eq!(PodNames::Single("launcher").of("j", 1), ["j-launcher"]);
        for names in [PodNames::Numbered("w"), PodNames::First("w"), PodNames::Single("w")] {
            assert!(names.of("j", 0).is_empty());
            assert!(names.of("j", -1).is_empty());
        }
        assert_eq!(PodNames::Numbered("w").of("j", i32::MAX).len(), 1000);
    }
}
