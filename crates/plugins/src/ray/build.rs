//! The `RayJob` of a task: one head node, groups of workers, and the command that runs on them.

mod node;
mod settings;
mod sidecar;

use std::collections::BTreeMap;

use aileron_idl::flyteidl2::plugins::autoscaler_options::UpscalingMode;
use aileron_idl::flyteidl2::plugins::{self as pb, RayCluster};
use aileron_machinery::pod::container::find_container;
use aileron_machinery::pod::resources::{self, CPU, MEMORY, ResourceList};
use aileron_machinery::pod::{environment, service_account};
use aileron_machinery::{PluginError, TaskContext};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use self::node::{head_template, task_pod, worker_template};
use self::settings::Settings;
use super::config::{RayConfig, RayNodeConfig};
use super::resource::{
    AutoscalerOptions, HeadGroupSpec, RayClusterSpec, RayJob, RayJobSpec, SubmissionMode, WorkerGroupSpec,
};
use super::runtime_env;
use crate::pod_template;
use crate::resource::OtherFields;

/// The `RayJob` for an attempt.
///
/// Mirrors `BuildResource` of upstream's Ray plugin.
pub(super) fn build(config: &RayConfig, task: &TaskContext) -> Result<RayJob, PluginError> {
    let settings = Settings::read(task)?;
    let pod = task_pod(task, None)?;
    let primary = find_container(&pod.spec, &pod.primary_container)?;
    let entrypoint = primary.args.as_deref().unwrap_or_default().join(" ");
    let cluster = settings.cluster()?;

    let mut head = HeadGroupSpec {
        service_type: config.service_type.clone(),
        enable_ingress: Some(true),
        ray_start_params: head_start_params(config, settings.head_start_params()),
        template: head_template(config, task, &pod, cluster.head_group_spec.as_ref())?,
        other: OtherFields::new(),
    };
    let mut workers = Vec::with_capacity(cluster.worker_group_spec.len());
    for (index, group) in cluster.worker_group_spec.iter().enumerate() {
        workers.push(WorkerGroupSpec {
            group_name: group.group_name.clone(),
            replicas: Some(group.replicas),
            min_replicas: Some(group.min_replicas.min(group.replicas)),
            max_replicas: Some(group.max_replicas.max(group.replicas)),
            ray_start_params: worker_start_params(config, settings.worker_start_params(index)),
            scale_strategy: BTreeMap::new(),
            template: worker_template(task, &pod, group)?,
            other: OtherFields::new(),
        });
    }
    let account = Some(service_account(&task.metadata)).filter(|account| !account.is_empty());
    let account = account.unwrap_or(&config.service_account);
    let templates = workers.iter_mut().map(|worker| &mut worker.template).chain([&mut head.template]);
    for spec in templates.filter_map(|template| template.spec.as_mut()) {
        spec.service_account_name = Some(account.to_owned()).filter(|account| !account.is_empty());
    }

    let submission_mode = submission_mode(&config.submission_mode)?;
    let submitter = (submission_mode == SubmissionMode::K8sJob).then(|| submitter_template(task, &head.template));
    let job = &settings.job;
    let (shutdown, ttl) = if job.shutdown_after_job_finishes {
        (true, job.ttl_seconds_after_finished)
    } else {
        (config.shutdown_after_job_finishes, config.ttl_seconds_after_finished)
    };
    Ok(RayJob {
        metadata: pod.metadata.clone(),
        spec: RayJobSpec {
            entrypoint,
            ray_cluster_spec: Some(RayClusterSpec {
                head_group_spec: head,
                worker_group_specs: workers,
                enable_in_tree_autoscaling: Some(cluster.enable_autoscaling),
                autoscaler_options: autoscaler_options(cluster),
                other: OtherFields::new(),
            }),
            runtime_env_yaml: runtime_env::of_job(job)?,
            shutdown_after_job_finishes: shutdown,
            ttl_seconds_after_finished: ttl,
            submission_mode: Some(submission_mode),
            submitter_pod_template: submitter,
            other: OtherFields::new(),
        },
        status: None,
    })
}

fn head_start_params(config: &RayConfig, given: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let mut params = start_params(&config.defaults.head_node, config.enable_usage_stats, given);
    let mut default = |name: &str, value: &str| {
        params.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    };
    default("include-dashboard", if config.include_dashboard { "true" } else { "false" });
    default("dashboard-host", &config.dashboard_host);
    params
}

fn worker_start_params(config: &RayConfig, given: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    start_params(&config.defaults.worker_node, config.enable_usage_stats, given)
}

/// The parameters of `ray start`: those of the task, else the configured ones, and whatever a node cannot do without.
fn start_params(
    node: &RayNodeConfig,
    usage_stats: bool,
    given: Option<&BTreeMap<String, String>>,
) -> BTreeMap<String, String> {
    let mut params = given.unwrap_or(&node.start_parameters).clone();
    params.entry("node-ip-address".to_owned()).or_insert_with(|| node.ip_address.clone());
    if !usage_stats {
        params.entry("disable-usage-stats".to_owned()).or_insert_with(|| "true".to_owned());
    }
    params
}

fn submission_mode(name: &str) -> Result<SubmissionMode, PluginError> {
    match name {
        "" | "K8sJobMode" => Ok(SubmissionMode::K8sJob),
        "HTTPMode" => Ok(SubmissionMode::Http),
        "SidecarMode" => Ok(SubmissionMode::Sidecar),
        other => Err(PluginError::bad_task_specification(format!(
            "invalid ray submission mode {other:?}: must be K8sJobMode, HTTPMode or SidecarMode"
        ))),
    }
}

/// What the operator itself would give a pod that only submits a job.
fn submitter_resources() -> ResourceRequirements {
    let list = |cpu: &str, memory: &str| -> Option<ResourceList> {
        let amount = |name: &str, text: &str| (name.to_owned(), Quantity(text.to_owned()));
        Some([amount(CPU, cpu), amount(MEMORY, memory)].into())
    };
    ResourceRequirements { limits: list("1", "1Gi"), requests: list("500m", "200Mi"), ..Default::default() }
}

/// The pod that submits the job. It needs none of what the nodes need, so it goes where any pod may go; only Ray's
/// version must be the same, hence the image.
fn submitter_template(task: &TaskContext, head: &PodTemplateSpec) -> PodTemplateSpec {
    let config = &task.platform.k8s;
    let image = head.spec.as_ref().and_then(|spec| spec.containers.first()).and_then(|first| first.image.clone());
    PodTemplateSpec {
        metadata: Some(pod_template::metadata(task, ObjectMeta::default())),
        spec: Some(PodSpec {
            containers: vec![Container {
                name: "ray-job-submitter".to_owned(),
                image,
                resources: Some(submitter_resources()),
                ..Container::default()
            }],
            restart_policy: Some("Never".to_owned()),
            enable_service_links: Some(false),
            tolerations: Some(config.default_tolerations.clone()).filter(|tolerations| !tolerations.is_empty()),
            affinity: config.default_affinity.clone(),
            ..PodSpec::default()
        }),
    }
}

fn autoscaler_options(cluster: &RayCluster) -> Option<AutoscalerOptions> {
    let pb::AutoscalerOptions { idle_timeout_seconds, env, image, resources: wanted, .. } =
        cluster.autoscaler_options.as_ref()?;
    let mode = match cluster.autoscaler_options.as_ref()?.upscaling_mode() {
        UpscalingMode::Unspecified => None,
        UpscalingMode::Default => Some("Default"),
        UpscalingMode::Conservative => Some("Conservative"),
        UpscalingMode::Aggressive => Some("Aggressive"),
    };
    Some(AutoscalerOptions {
        // As upstream, amounts that cannot be read leave the operator's own.
        resources: resources::from_proto(wanted.as_ref()).ok().filter(|settled| *settled != Default::default()),
        image: Some(image.clone()).filter(|image| !image.is_empty()),
        idle_timeout_seconds: Some(*idle_timeout_seconds).filter(|seconds| *seconds > 0),
        upscaling_mode: mode.map(str::to_owned),
        env: environment::from_proto(env),
        other: OtherFields::new(),
    })
}
