//! The Dask job of a task: the task's pod three times, as job runner, scheduler and worker.

use aileron_idl::flyteidl2::core::Resources;
use aileron_idl::flyteidl2::plugins::{DaskJob as Settings, DaskScheduler, DaskWorkerGroup};
use aileron_kubekit::quantity::Quantity;
use aileron_machinery::pod::resources::{self, CPU, MEMORY};
use aileron_machinery::pod::{PodDraft, PodOptions, build_pod, container::find_container_mut};
use aileron_machinery::settings;
use aileron_machinery::{PluginError, TaskContext};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, HTTPGetAction, PodSpec, Probe, ResourceRequirements, ServicePort, ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::config::DaskConfig;
use super::resource::{ClusterSpec, ClusterTemplate, DaskJob, DaskJobSpec, JobSpec, SchedulerSpec, WorkerSpec};
use super::{JOB_RUNNER, SCHEDULER, dashboard};

/// The container name that the operator expects in workers.
const WORKER: &str = "dask-worker";

/// Where workers and clients talk to the scheduler, as Dask has it.
const COMM: Port = Port { name: "tcp-comm", number: 8786 };

/// Where the scheduler shows its dashboard, as Dask has it.
const DASHBOARD: Port = Port { name: "dashboard", number: 8787 };

/// A port of the scheduler.
#[derive(Clone, Copy)]
struct Port {
    name: &'static str,
    number: i32,
}

/// The job for an attempt. Workers may be taken away if the task may; the scheduler and the job runner may not, because
/// the job ends with them.
///
/// Mirrors `BuildResource` of upstream's Dask plugin.
pub(super) fn build(task: &TaskContext, config: &DaskConfig) -> Result<DaskJob, PluginError> {
    let settings: Settings = settings(&task.template)?;
    let pod = build_pod(task, PodOptions::default())?;
    let steady = build_pod(task, PodOptions { interruptible: Some(false), ..PodOptions::default() })?;

    let mut metadata = pod.metadata.clone();
    metadata.annotations.get_or_insert_default().extend(task.metadata.annotations.clone());
    metadata.labels.get_or_insert_default().extend(task.metadata.labels.clone());

    let worker = worker(task, &settings.workers.unwrap_or_default(), pod)?;
    let prefix = dashboard::prefix(task, config)?;
    let scheduler = scheduler(task, &settings.scheduler.unwrap_or_default(), steady.clone(), prefix)?;
    let spec = DaskJobSpec {
        job: JobSpec { spec: job_runner(steady)?, ..JobSpec::default() },
        cluster: ClusterTemplate {
            metadata: metadata.clone(),
            spec: ClusterSpec { worker, scheduler, ..ClusterSpec::default() },
            ..ClusterTemplate::default()
        },
        ..DaskJobSpec::default()
    };
    Ok(DaskJob { metadata, spec, status: None })
}

fn worker(task: &TaskContext, group: &DaskWorkerGroup, pod: PodDraft) -> Result<WorkerSpec, PluginError> {
    let mut spec = pod.spec;
    let container = rename(&mut spec, &pod.primary_container, WORKER)?;
    customise(task, container, &group.image, group.resources.as_ref())?;
    let mut arguments: Vec<String> = ["dask", "worker", "--name", "$(DASK_WORKER_NAME)"].map(str::to_owned).into();
    arguments.extend(worker_limits(container.resources.as_ref())?);
    container.args = Some(arguments);
    // The operator makes deployments of workers, which have no other policy.
    spec.restart_policy = Some("Always".to_owned());
    Ok(WorkerSpec { replicas: group.number_of_workers.into(), spec, ..WorkerSpec::default() })
}

fn scheduler(
    task: &TaskContext,
    settings: &DaskScheduler,
    pod: PodDraft,
    dashboard_prefix: Option<String>,
) -> Result<SchedulerSpec, PluginError> {
    let mut spec = pod.spec;
    let container = rename(&mut spec, &pod.primary_container, SCHEDULER)?;
    customise(task, container, &settings.image, settings.resources.as_ref())?;
    let mut arguments = vec!["dask".to_owned(), "scheduler".to_owned()];
    arguments.extend(dashboard_prefix.into_iter().flat_map(|prefix| ["--dashboard-prefix".to_owned(), prefix]));
    container.args = Some(arguments);
    container.ports = Some([COMM, DASHBOARD].map(Port::of_container).into());
    container.readiness_probe.get_or_insert_with(dashboard_answers);
    spec.restart_policy = Some("Always".to_owned());

    let selector =
        [("dask.org/cluster-name", task.metadata.id.generated_name.as_str()), ("dask.org/component", SCHEDULER)];
    let service = ServiceSpec {
        type_: Some("NodePort".to_owned()),
        selector: Some(selector.map(|(label, value)| (label.to_owned(), value.to_owned())).into()),
        ports: Some([COMM, DASHBOARD].map(Port::of_service).into()),
        ..ServiceSpec::default()
    };
    Ok(SchedulerSpec { spec, service, ..SchedulerSpec::default() })
}

fn job_runner(pod: PodDraft) -> Result<PodSpec, PluginError> {
    let mut spec = pod.spec;
    spec.restart_policy = Some("Never".to_owned());
    rename(&mut spec, &pod.primary_container, JOB_RUNNER)?;
    Ok(spec)
}

/// The operator, and our own reading of pods, know the containers by these names.
fn rename<'a>(spec: &'a mut PodSpec, primary: &str, name: &str) -> Result<&'a mut Container, PluginError> {
    let container = find_container_mut(spec, primary)?;
    name.clone_into(&mut container.name);
    Ok(container)
}

/// Image and resources that the task has set for this part of the cluster; resources replace the task's as a whole.
fn customise(
    task: &TaskContext,
    container: &mut Container,
    image: &str,
    resources: Option<&Resources>,
) -> Result<(), PluginError> {
    if !image.is_empty() {
        container.image = Some(image.to_owned());
    }
    if resources.is_some_and(|resources| !resources.requests.is_empty() || !resources.limits.is_empty()) {
        let own = resources::from_proto(resources)?;
        let platform = &task.metadata.platform_resources;
        container.resources = Some(resources::apply_platform_resources(&own, platform, &task.platform.k8s)?);
    }
    Ok(())
}

/// Tells a worker its limits, since Dask would otherwise take those of the node. Dask counts whole threads.
fn worker_limits(resources: Option<&ResourceRequirements>) -> Result<Vec<String>, PluginError> {
    let Some(limits) = resources.and_then(|resources| resources.limits.as_ref()) else { return Ok(Vec::new()) };
    let limit = |name: &str| match limits.get(name) {
        None => Ok(Quantity::default()),
        Some(text) => text.0.parse::<Quantity>().map_err(|error| {
            PluginError::bad_task_specification(format!("the worker's limit of {name} is [{}]: {error}", text.0))
        }),
    };
    let threads = limit(CPU)?.value().to_string();
    let memory = limit(MEMORY)?.to_string();
    Ok(vec!["--nthreads".to_owned(), threads, "--memory-limit".to_owned(), memory])
}

/// The scheduler is ready when its dashboard answers. It gets two and a half minutes to come up.
fn dashboard_answers() -> Probe {
    Probe {
        http_get: Some(HTTPGetAction { port: DASHBOARD.by_name(), ..HTTPGetAction::default() }),
        initial_delay_seconds: Some(5),
        period_seconds: Some(5),
        failure_threshold: Some(30),
        ..Probe::default()
    }
}

impl Port {
    fn by_name(self) -> IntOrString {
        IntOrString::String(self.name.to_owned())
    }

    fn of_container(self) -> ContainerPort {
        ContainerPort {
            name: Some(self.name.to_owned()),
            container_port: self.number,
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }
    }

    fn of_service(self) -> ServicePort {
        ServicePort {
            name: Some(self.name.to_owned()),
            port: self.number,
            target_port: Some(self.by_name()),
            protocol: Some("TCP".to_owned()),
            ..ServicePort::default()
        }
    }
}
