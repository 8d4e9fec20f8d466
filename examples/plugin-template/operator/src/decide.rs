//! What a job needs now. No I/O.

use aileron_plugin_batch::{BatchJob, BatchJobStatus};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};

/// What is to be done for a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Pods to create.
    pub create: Vec<Pod>,
    /// Names of pods to delete.
    pub delete: Vec<String>,
    /// The status to write; nothing if it is right.
    pub status: Option<BatchJobStatus>,
}

/// Decides what a job needs, from the job and its pods.
#[must_use]
pub fn decide(job: &BatchJob, pods: &[Pod]) -> Decision {
    let before = job.status.clone().unwrap_or_default();
    let has_ended = ["Succeeded", "Failed"].contains(&before.phase.as_str());
    if job.metadata.deletion_timestamp.is_some() {
        return Decision::nothing();
    }
    if job.spec.suspend || has_ended {
        // The pods of a failed job that still run. Pods that have ended stay, with their logs.
        let running = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none() && !is_finished(pod));
        return Decision { delete: running.map(ResourceExt::name_any).collect(), ..Decision::nothing() };
    }
    let names = (0..job.spec.parallelism).map(|number| format!("{}-{number}", job.name_any()));
    let missing = names.filter(|name| !pods.iter().any(|pod| pod.name_any() == *name));
    let create = missing.map(|name| pod(job, name)).collect();
    let status = status(job, pods);
    Decision { create, delete: Vec::new(), status: Some(status).filter(|status| *status != before) }
}

impl Decision {
    fn nothing() -> Self {
        Self { create: Vec::new(), delete: Vec::new(), status: None }
    }
}

fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn status(job: &BatchJob, pods: &[Pod]) -> BatchJobStatus {
    let of_phase = |phase: &'static str| {
        pods.iter().filter(move |pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase))
    };
    let succeeded = of_phase("Succeeded").count();
    let (phase, message) = if let Some(failed) = of_phase("Failed").next() {
        ("Failed", format!("pod {} failed", failed.name_any()))
    } else if succeeded as u64 == u64::from(job.spec.parallelism) {
        ("Succeeded", String::new())
    } else if succeeded > 0 || of_phase("Running").next().is_some() {
        ("Running", format!("{succeeded} of {} pods have ended", job.spec.parallelism))
    } else {
        ("", String::new())
    };
    BatchJobStatus { phase: phase.to_owned(), message }
}

fn pod(job: &BatchJob, name: String) -> Pod {
    let template = &job.spec.template;
    let given = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: job.namespace(),
            labels: given.labels,
            annotations: given.annotations,
            // Kubernetes deletes the pods with their job.
            owner_references: job.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            // The operator replaces no container: the executor starts another attempt.
            restart_policy: Some("Never".to_owned()),
            ..template.spec.clone().unwrap_or_default()
        }),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use aileron_plugin_batch::BatchJobSpec;
    use k8s_openapi::api::core::v1::{PodStatus, PodTemplateSpec};

    use super::*;

    fn job(parallelism: u32) -> BatchJob {
        let template = PodTemplateSpec::default();
        let mut job = BatchJob::new("j", BatchJobSpec { queue: "q".to_owned(), parallelism, suspend: false, template });
        job.metadata.uid = Some("uid".to_owned());
        job
    }

    fn pods(phases: &[&str]) -> Vec<Pod> {
        let pod = |(number, phase): (usize, &&str)| Pod {
            metadata: ObjectMeta { name: Some(format!("j-{number}")), ..ObjectMeta::default() },
            status: Some(PodStatus { phase: Some((*phase).to_owned()), ..PodStatus::default() }),
            ..Pod::default()
        };
        phases.iter().enumerate().map(pod).collect()
    }

    fn phase(parallelism: u32, phases: &[&str]) -> Option<String> {
        decide(&job(parallelism), &pods(phases)).status.map(|status| status.phase)
    }

    #[test]
    fn every_copy_has_one_pod_that_belongs_to_the_job() {
        let created = decide(&job(3), &pods(&["Running"])).create;
        assert_eq!(created.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["j-1", "j-2"]);
        assert_eq!(created[0].owner_references()[0].uid, "uid");
    }

    #[test]
    fn the_phase_follows_the_pods() {
        assert_eq!(phase(2, &[]), None, "the job waits, as before");
        assert_eq!(phase(2, &["Pending", "Pending"]), None);
        assert_eq!(phase(2, &["Running", "Pending"]).as_deref(), Some("Running"));
        assert_eq!(phase(2, &["Succeeded", "Pending"]).as_deref(), Some("Running"));
        assert_eq!(phase(2, &["Succeeded", "Succeeded"]).as_deref(), Some("Succeeded"));
        assert_eq!(phase(2, &["Running", "Failed"]).as_deref(), Some("Failed"));
    }

    #[test]
    fn the_pods_of_a_failed_job_are_stopped_and_those_that_have_ended_stay() {
        let mut job = job(3);
        job.status = Some(BatchJobStatus { phase: "Failed".to_owned(), message: "m".to_owned() });
        let expected = Decision { delete: vec!["j-1".to_owned()], ..Decision::nothing() };
        assert_eq!(decide(&job, &pods(&["Failed", "Running", "Succeeded"])), expected);
        assert_eq!(decide(&job, &[]), Decision::nothing());
    }

    #[test]
    fn the_pods_of_a_suspended_job_are_stopped() {
        let mut job = job(2);
        job.spec.suspend = true;
        let expected = Decision { delete: vec!["j-0".to_owned()], ..Decision::nothing() };
        assert_eq!(decide(&job, &pods(&["Running", "Succeeded"])), expected);
    }
}
