//! The `JobSet` of a task: one indexed job with a pod per rank.

use aileron_idl::flyteidl2::plugins::ClusteredTaskSpec;
use aileron_idl::message_from_struct;
use aileron_machinery::pod::container::find_container_mut;
use aileron_machinery::pod::{PodOptions, build_pod};
use aileron_machinery::{PluginError, TaskContext};
use k8s_openapi::api::batch::v1::{JobSpec, JobTemplateSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::environment::set_launcher_variables;
use super::resource::{FailurePolicy, JobSet, JobSetSpec, Network, ReplicatedJob, SuccessPolicy};
use super::{CLUSTERED_TASK, MAX_REPLICAS, NAME_MAX_LENGTH, PRIMARY_CONTAINER_ANNOTATION, WORKERS};
use crate::pod_template;
use crate::resource::OtherFields;

/// Kubernetes' bound on the values of labels.
const LABEL_VALUE_MAX_LENGTH: usize = 63;

/// The `JobSet` for an attempt.
///
/// The interconnect that the task names is not acted on, as upstream: all traffic goes over the pods' network.
///
/// Mirrors `BuildResource` of upstream's clustered plugin.
pub(super) fn build(task: &TaskContext) -> Result<JobSet, PluginError> {
    let spec = settings(task)?;
    let pod = build_pod(task, PodOptions::default())
        .map_err(|error| PluginError::bad_task_specification(format!("failed to build pod spec: {error}")))?;
    let name = task
        .metadata
        .id
        .generated_name_within(NAME_MAX_LENGTH)
        .map_err(|error| PluginError::bad_task_specification(format!("failed to derive JobSet name: {error}")))?;

    let mut pod_spec = pod.spec;
    set_launcher_variables(find_container_mut(&mut pod_spec, &pod.primary_container)?, &spec);
    pod_spec.restart_policy = Some("Never".to_owned());
    if pod_spec.subdomain.as_ref().is_none_or(String::is_empty) {
        // The service of a set bears its name, and pods are found under their service.
        pod_spec.subdomain = Some(name.clone());
    }
    let job = JobSpec {
        parallelism: Some(spec.replicas),
        completions: Some(spec.replicas),
        completion_mode: Some("Indexed".to_owned()),
        // Ranks cannot be replaced one by one: the set starts again as a whole, or not at all.
        backoff_limit: Some(0),
        template: PodTemplateSpec { metadata: Some(pod_template::metadata(task, pod.metadata)), spec: Some(pod_spec) },
        ..JobSpec::default()
    };
    let annotations =
        [(CLUSTERED_TASK_ANNOTATION, CLUSTERED_TASK), (PRIMARY_CONTAINER_ANNOTATION, &pod.primary_container)];
    Ok(JobSet {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(task.metadata.namespace.clone()),
            labels: Some([(EXECUTION_LABEL.to_owned(), label_value(&task.metadata.id.run))].into()),
            annotations: Some(annotations.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        spec: JobSetSpec {
            replicated_jobs: vec![ReplicatedJob {
                name: WORKERS.to_owned(),
                replicas: 1,
                template: JobTemplateSpec { metadata: None, spec: Some(job) },
                other: OtherFields::new(),
            }],
            network: Some(Network { enable_dns_hostnames: Some(true), ..Network::default() }),
            success_policy: Some(SuccessPolicy { operator: "All".to_owned(), ..SuccessPolicy::default() }),
            failure_policy: failure_policy(&spec)?,
            ttl_seconds_after_finished: ttl(&spec)?,
            other: OtherFields::new(),
        },
        status: None,
    })
}

/// Tells people what made the set.
const CLUSTERED_TASK_ANNOTATION: &str = "flyte.org/task-type";
/// Tells people which run the set belongs to.
const EXECUTION_LABEL: &str = "flyte.org/execution";

fn settings(task: &TaskContext) -> Result<ClusteredTaskSpec, PluginError> {
    let refuse = |message: String| Err(PluginError::bad_task_specification(message));
    let Some(custom) = &task.template.custom else {
        return refuse("invalid ClusteredTaskSpec: nil Struct Object passed".to_owned());
    };
    let spec: ClusteredTaskSpec = match message_from_struct(custom) {
        Ok(spec) => spec,
        Err(error) => return refuse(format!("invalid ClusteredTaskSpec: {error}")),
    };
    if spec.replicas < 1 {
        return refuse(format!("replicas must be >= 1, got {}", spec.replicas));
    }
    if spec.replicas > MAX_REPLICAS {
        return refuse(format!("replicas must be <= {MAX_REPLICAS}, got {}", spec.replicas));
    }
    if spec.nproc_per_node < 1 {
        return refuse(format!("nproc_per_node must be >= 1, got {}", spec.nproc_per_node));
    }
    Ok(spec)
}

fn failure_policy(spec: &ClusteredTaskSpec) -> Result<Option<FailurePolicy>, PluginError> {
    match spec.failure_policy.as_ref().map_or(0, |policy| policy.max_restarts) {
        0 => Ok(None),
        max_restarts if max_restarts < 0 => Err(PluginError::bad_task_specification(format!(
            "failure_policy.max_restarts must be >= 0, got {max_restarts}"
        ))),
        max_restarts => Ok(Some(FailurePolicy { max_restarts, ..FailurePolicy::default() })),
    }
}

fn ttl(spec: &ClusteredTaskSpec) -> Result<Option<i32>, PluginError> {
    let Some(seconds) = spec.ttl_seconds_after_finished else { return Ok(None) };
    i32::try_from(seconds).map(Some).map_err(|_| {
        PluginError::bad_task_specification(format!(
            "ttl_seconds_after_finished {seconds} exceeds maximum allowed value"
        ))
    })
}

/// A valid value for a label that still looks like the text; where a letter is needed and missing, it is an `x`.
///
/// Mirrors `clustered.sanitizeLabelValue`.
fn label_value(text: &str) -> String {
    if text.is_empty() {
        return "none".to_owned();
    }
    let legal = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let mut value: String = text.chars().map(legal).collect();
    let put_letter_at = |value: &mut String, at: usize| {
        if !value[at..=at].starts_with(|c: char| c.is_ascii_alphanumeric()) {
            value.replace_range(at..=at, "x");
        }
    };
    put_letter_at(&mut value, 0);
    value.truncate(LABEL_VALUE_MAX_LENGTH);
    let last = value.len() - 1;
    put_letter_at(&mut value, last);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_becomes_a_label_value() {
        assert_eq!(label_value(""), "none");
        assert_eq!(label_value("my run/with:odd chars"), "my-run-with-odd-chars");
        assert_eq!(label_value("-"), "x");
        assert_eq!(label_value("_aé"), "xax");
        assert_eq!(label_value(&format!("{}-b", "a".repeat(62))), format!("{}x", "a".repeat(62)));
    }
}
