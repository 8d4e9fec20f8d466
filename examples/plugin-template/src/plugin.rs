//! The plugin: a task becomes a `BatchJob`, and the status of the `BatchJob` becomes a phase.

use aileron_machinery::k8s_openapi::api::core::v1::PodTemplateSpec;
use aileron_machinery::log_links::LogLinks;
use aileron_machinery::pod::{PodOptions, build_pod, pod_template};
use aileron_machinery::serde_json::json;
use aileron_machinery::{
    AbortBehavior, CustomMessage, ExecutionError, K8sPlugin, Needs, ObjectRef, PhaseContext, PhaseInfo, PluginEntry,
    PluginError, PluginProperties, TaskContext, TaskInfo,
};

use crate::resource::{BatchJob, BatchJobSpec};
use crate::section::BatchConfig;
use crate::settings::{BatchSettings, DESCRIPTOR_SET};

/// Runs tasks of type `batch`.
pub struct BatchPlugin {
    config: BatchConfig,
    settings: CustomMessage<BatchSettings>,
}

impl BatchPlugin {
    /// The plugin under the configuration of the installation.
    pub fn new(config: BatchConfig) -> Self {
        Self { config, settings: CustomMessage::new(DESCRIPTOR_SET) }
    }
}

impl K8sPlugin for BatchPlugin {
    type Resource = BatchJob;

    fn entry(&self) -> PluginEntry {
        // The name of the plugin, and the types of its tasks: `task_type` in `python/`.
        PluginEntry::new("batch", &["batch"])
    }

    // TODO(plugin): 3a. The object of an attempt. The executor adds name, namespace, labels and owner.
    fn build(&self, task: &TaskContext) -> Result<BatchJob, PluginError> {
        let settings = self.settings.read(task)?;
        // The pod of the task with everything that the platform adds: tolerations, environment, PodTemplates, secrets.
        let pod = build_pod(task, PodOptions::default())?;
        let queue = if settings.queue.is_empty() { self.config.default_queue.clone() } else { settings.queue };
        let template = PodTemplateSpec {
            // The labels of the attempt: with them, the executor finds the pods that the operator creates.
            metadata: Some(pod_template::metadata(task, pod.metadata)),
            spec: Some(pod.spec),
        };
        let (parallelism, most) = (settings.parallelism.max(1), self.config.max_parallelism);
        if parallelism > most {
            let message = format!("custom: parallelism is {parallelism}, and this installation allows at most {most}");
            return Err(PluginError::bad_task_specification(message));
        }
        Ok(BatchJob::new("", BatchJobSpec { queue, parallelism, suspend: false, template }))
    }

    // TODO(plugin): 3b. The longest name of an object. Delete this method if your operator appends nothing to the name of a job.
    fn properties(&self) -> PluginProperties {
        // The operator appends the number of the pod, up to `-4294967294`; the name of a pod has at most 253 characters.
        PluginProperties::default().with_name_max_length(242)
    }

    fn needs(&self, task: &TaskContext) -> Needs {
        // The pods of the job: for the links to their logs, and for reasons such as an image that cannot be pulled.
        Needs::of_pod(task).with_pods()
    }

    // TODO(plugin): 3c. The phase of an attempt. Return `undefined` for a state that you do not know.
    fn phase(&self, cx: &PhaseContext<'_>, job: &BatchJob) -> Result<PhaseInfo, PluginError> {
        let links = LogLinks::new(&cx.task.platform.logs, Some(&cx.task.template));
        let logs = cx.pods.iter().flat_map(|pod| links.of_pod(cx.task, pod)).collect();
        let info = TaskInfo { logs, ..TaskInfo::at(cx.task.now) };
        let has_links = !info.logs.is_empty();
        let status = job.status.clone().unwrap_or_default();
        Ok(match status.phase.as_str() {
            "" => PhaseInfo::queued(format!("the job waits in queue {}", job.spec.queue), info),
            // The links may be known later than the phase. As news they are reported at once.
            "Running" if has_links => PhaseInfo::running(info).with_reason(&status.message).with_news(),
            "Running" => PhaseInfo::running(info).with_reason(&status.message),
            "Succeeded" => PhaseInfo::success(info),
            "Failed" => PhaseInfo::retryable_failure(ExecutionError::user("BatchJobFailed", status.message), info),
            _ => PhaseInfo::undefined(),
        })
    }

    // TODO(plugin): 3d. How a job is stopped. Delete this method if the job is to be deleted, as is usual.
    fn on_abort(&self, _task: &TaskContext, _job: &ObjectRef) -> Result<AbortBehavior, PluginError> {
        // The operator stops the pods of a suspended job. After a timeout the job stays, so that one sees how far it was; the
        // job of a deleted action is deleted by Kubernetes.
        Ok(AbortBehavior::Patch { patch: json!({"spec": {"suspend": true}}), target: None, delete_on_error: true })
    }

    // `ended` has the default: `status.phase` says `Succeeded` or `Failed`, as is usual.
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use aileron_machinery::Phase;
    use aileron_machinery::serde_json::Value;
    use aileron_testkit::{PhaseTable, task};

    use super::*;

    // TODO(plugin): 5a. A row for each state of your operator, with a part of what the user reads.
    #[test]
    fn the_phase_is_that_of_the_status() {
        let plugin = BatchPlugin::new(BatchConfig::default());
        let task = task("batch", &json!({"parallelism": 4, "queue": "urgent"}));
        let status = |phase: &str| json!({"phase": phase, "message": "4 of 4 pods"});
        PhaseTable::of(&plugin, &task)
            .row(Value::Null, Phase::Queued, "queue urgent")
            .row(status("Running"), Phase::Running, "4 of 4 pods")
            .row(status("Succeeded"), Phase::Success, "")
            .row(status("Failed"), Phase::RetryableFailure, "[BatchJobFailed] 4 of 4 pods")
            .row(status("Confused"), Phase::Undefined, "")
            .assert();
    }

    #[test]
    fn the_settings_reach_the_job() {
        let plugin = BatchPlugin::new(BatchConfig::default());
        let job = plugin.build(&task("batch", &json!({"parallelism": 4, "queue": "urgent"}))).unwrap();
        assert_eq!((job.spec.parallelism, job.spec.queue.as_str()), (4, "urgent"));
    }

    #[test]
    fn more_pods_than_the_installation_allows_are_refused() {
        let plugin = BatchPlugin::new(BatchConfig { max_parallelism: 8, ..BatchConfig::default() });
        assert!(plugin.build(&task("batch", &json!({"parallelism": 8}))).is_ok());
        let error = plugin.build(&task("batch", &json!({"parallelism": 9}))).unwrap_err();
        assert_eq!(error.non_retryable_code(), Some("BadTaskSpecification"));
    }

    #[test]
    fn a_setting_that_does_not_fit_fails_the_task_with_the_name_of_the_field() {
        let plugin = BatchPlugin::new(BatchConfig::default());
        let error = plugin.build(&task("batch", &json!({"parallelism": "many"}))).unwrap_err();
        assert_eq!(error.non_retryable_code(), Some("BadTaskSpecification"));
        assert!(error.to_string().contains("BatchSettings.parallelism"), "{error}");
    }
}
