//! The pods of a Spark application: one driver, some executors.

use aileron_idl::flyteidl2::core::K8sPod;
use aileron_machinery::pod::affinity::apply_platform_scheduling_constraints;
use aileron_machinery::pod::container::find_container;
use aileron_machinery::pod::{PodOptions, build_pod, decode, env_var, pod_template, service_account};
use aileron_machinery::{PluginError, TaskContext};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::conf::{self, PodSettings, SparkConf};
use super::resource::SparkPodSpec;
use super::{DRIVER_CONTAINER, EXECUTOR_CONTAINER, SPARK};

/// What a pod is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Role {
    name: &'static str,
    container: &'static str,
    settings: PodSettings,
    /// Whether the pod may be taken away; `None` leaves it to the task.
    interruptible: Option<bool>,
}

/// The application ends with its driver, so that is never taken away.
pub(super) const DRIVER: Role =
    Role { name: "driver", container: DRIVER_CONTAINER, settings: conf::DRIVER, interruptible: Some(false) };

/// Spark replaces executors that are gone.
pub(super) const EXECUTOR: Role =
    Role { name: "executor", container: EXECUTOR_CONTAINER, settings: conf::EXECUTOR, interruptible: None };

/// A pod, and the container it was made from.
#[derive(Clone, Debug)]
pub(super) struct SparkPod {
    pub(super) spec: SparkPodSpec,
    pub(super) container: Container,
}

/// The pod for a role. `custom` is the pod that the task brings for it; only a template can express that.
///
/// Every field that has a place of its own is set there also when there is a template: the operator lays the fields over
/// the template, and one that does not know templates finds everything it can use.
pub(super) fn pod(
    task: &TaskContext,
    role: Role,
    custom: Option<&K8sPod>,
    with_template: bool,
    conf: &mut SparkConf,
) -> Result<SparkPod, PluginError> {
    let config = &task.platform.k8s;
    let draft = build_pod(task, PodOptions { interruptible: role.interruptible, ..PodOptions::default() })?;
    let custom = custom_spec(role, custom)?;
    let mut spec = draft.spec;
    let interruptible = role.interruptible.unwrap_or(task.metadata.interruptible);
    apply_platform_scheduling_constraints(&mut spec, interruptible, config);
    let container = find_container(&spec, &draft.primary_container)?.clone();

    let template = with_template.then(|| template(role, &spec, custom, &container.name));
    if template.is_some() {
        conf.insert(role.settings.template_container.to_owned(), role.container.to_owned());
    }
    let mut env = container.env.clone().unwrap_or_default();
    env.push(env_var::text("FLYTE_MAX_ATTEMPTS", task.metadata.max_attempts.to_string()));
    let metadata = pod_template::metadata(task, ObjectMeta::default());
    let spec = SparkPodSpec {
        cores: conf::number(conf, role.settings.cores),
        memory: conf::given(conf, role.settings.memory).cloned(),
        image: container.image.clone(),
        env,
        labels: metadata.labels.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
        affinity: spec.affinity,
        tolerations: spec.tolerations,
        node_selector: spec.node_selector,
        // As upstream: an executor without a template names none, and Spark gives it the driver's.
        service_account: template.is_some().then(|| account(task)),
        host_network: spec.host_network,
        scheduler_name: spec.scheduler_name,
        pod_security_context: spec.security_context,
        dns_config: spec.dns_config,
        template,
        ..SparkPodSpec::default()
    };
    Ok(SparkPod { spec, container })
}

/// As whom the pods of a task talk to the cluster. Drivers start executors, so the namespace's default is not enough.
pub(super) fn account(task: &TaskContext) -> String {
    let account = service_account(&task.metadata);
    if account.is_empty() { SPARK } else { account }.to_owned()
}

fn custom_spec(role: Role, custom: Option<&K8sPod>) -> Result<Option<PodSpec>, PluginError> {
    let Some(source) = custom.and_then(|pod| pod.pod_spec.as_ref()) else { return Ok(None) };
    let spec = decode::pod_spec(Some(source)).map_err(|error| {
        let name = role.name;
        PluginError::bad_task_specification(format!("Unable to unmarshal {name} pod spec, Err: [{error}]"))
    })?;
    Ok(Some(spec))
}

/// The whole pod: what the task brings for this role, else what the platform has built.
fn template(role: Role, built: &PodSpec, custom: Option<PodSpec>, primary: &str) -> PodTemplateSpec {
    let spec = match custom {
        Some(custom) => {
            PodSpec { enable_service_links: custom.enable_service_links.or(built.enable_service_links), ..custom }
        }
        None => {
            let mut spec = built.clone();
            // The operator knows Spark's container by its name, and what runs in it from the application.
            if let Some(container) = spec.containers.iter_mut().find(|container| container.name == primary) {
                role.container.clone_into(&mut container.name);
                container.command = None;
                container.args = None;
            }
            spec
        }
    };
    PodTemplateSpec { metadata: None, spec: Some(spec) }
}
