//! The plugin: a task becomes a `BatchJob`, and the status of the `BatchJob` becomes a phase.

use aileron_machinery::k8s_openapi::api::core::v1::PodTemplateSpec;
use aileron_machinery::pod::{PodOptions, build_pod, pod_template};
use aileron_machinery::{
    CustomMessage, ExecutionError, K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext, TaskInfo,
};

use crate::resource::{BatchJob, BatchJobSpec};
use crate::section::BatchJobConfig;
use crate::settings::{BatchJobSettings, DESCRIPTOR_SET};

/// Runs tasks of type `batch-job`.
pub struct BatchJobPlugin {
    config: BatchJobConfig,
    settings: CustomMessage<BatchJobSettings>,
}

impl BatchJobPlugin {
    /// The plugin under the configuration of the installation.
    pub fn new(config: BatchJobConfig) -> Self {
        Self { config, settings: CustomMessage::new(DESCRIPTOR_SET) }
    }
}

impl K8sPlugin for BatchJobPlugin {
    type Resource = BatchJob;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new("batch-job", &["batch-job"])
    }

    fn build(&self, task: &TaskContext) -> Result<BatchJob, PluginError> {
        let settings = self.settings.read(task)?;
        let pod = build_pod(task, PodOptions::default())?;
        let queue = if settings.queue.is_empty() { self.config.default_queue.clone() } else { settings.queue };
        let template = PodTemplateSpec {
            // The labels of the attempt: with them, the executor finds the pods that the operator creates.
            metadata: Some(pod_template::metadata(task, pod.metadata)),
            spec: Some(pod.spec),
        };
        // The executor sets the name.
        Ok(BatchJob::new("", BatchJobSpec { queue, parallelism: settings.parallelism.max(1), template }))
    }

    fn phase(&self, cx: &PhaseContext<'_>, job: &BatchJob) -> Result<PhaseInfo, PluginError> {
        let info = TaskInfo::at(cx.task.now);
        let status = job.status.clone().unwrap_or_default();
        Ok(match status.phase.as_str() {
            "" => PhaseInfo::queued(format!("the job waits in queue {}", job.spec.queue), info),
            "Running" => PhaseInfo::running(info),
            "Succeeded" => PhaseInfo::success(info),
            "Failed" => PhaseInfo::retryable_failure(ExecutionError::user("BatchJobFailed", status.message), info),
            // A phase of a newer operator: keep the phase of the last round.
            _ => PhaseInfo::undefined(),
        })
    }

    // `ended` has the default: `status.phase` says `Succeeded` or `Failed`, as is usual.
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use aileron_machinery::Phase;
    use aileron_machinery::serde_json::json;
    use aileron_machinery::testing::{phase, task};

    use super::*;
    use crate::resource::BatchJobStatus;

    #[test]
    fn the_phase_is_that_of_the_status() {
        let plugin = BatchJobPlugin::new(BatchJobConfig::default());
        let task = task("batch-job", &json!({"parallelism": 4, "queue": "urgent"}));
        let mut job = plugin.build(&task).unwrap();
        assert_eq!((job.spec.parallelism, job.spec.queue.as_str()), (4, "urgent"));
        assert_eq!(phase(&plugin, &task, &job).phase(), Phase::Queued);
        job.status = Some(BatchJobStatus { phase: "Failed".into(), message: "no node".into() });
        assert_eq!(phase(&plugin, &task, &job).phase(), Phase::RetryableFailure);
        assert!(plugin.ended(&job).unwrap().failed);
    }

    #[test]
    fn a_setting_that_does_not_fit_fails_the_task_with_the_name_of_the_field() {
        let plugin = BatchJobPlugin::new(BatchJobConfig::default());
        let error = plugin.build(&task("batch-job", &json!({"parallelism": "many"}))).unwrap_err();
        assert_eq!(error.non_retryable_code(), Some("BadTaskSpecification"));
        assert!(error.to_string().contains("BatchJobSettings.parallelism"), "{error}");
    }
}
