//! Co-pilot: containers that download inputs and upload outputs for tasks whose image has no SDK.

mod command;

use std::collections::BTreeMap;

use aileron_idl::flyteidl2::core::task_template::Target;
use aileron_idl::flyteidl2::core::{DataLoadingConfig, TaskTemplate, TypedInterface};
use aileron_kubekit::quantity::Quantity;
use k8s_openapi::api::core::v1::{
    Capabilities, Container, EmptyDirVolumeSource, PodSpec, ProjectedVolumeSource, ResourceRequirements,
    SecretProjection, SecurityContext, Volume, VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;

use super::container::FALLBACK_TO_LOGS;
use super::fields::extend;
use super::layers::LayerContext;
use super::resources;
use crate::PluginError;
use crate::config::CoPilotConfig;

const UPLOADER: &str = "uploader";
const DOWNLOADER: &str = "downloader";
const STORAGE_CONFIG_VOLUME: &str = "flyte-copilot-storage-config";
const STORAGE_CONFIG_PATH: &str = "/etc/flyte/copilot";
/// The mode of the files with storage settings, whose owner is root. All users may read them, because co-pilot may run
/// as another user. No other container mounts the volume.
const STORAGE_CONFIG_MODE: i32 = 0o444;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The settings of co-pilot for this task, if the task uses co-pilot.
pub(super) fn data_loading(template: &TaskTemplate) -> Option<&DataLoadingConfig> {
    let data_config = match template.target.as_ref()? {
        Target::Container(container) => container.data_config.as_ref(),
        Target::K8sPod(pod) => pod.data_config.as_ref(),
        Target::Sql(_) => None,
    };
    data_config.filter(|data_config| data_config.enabled)
}

/// The inputs and outputs that co-pilot moves, and their paths in the primary container.
struct Plan<'a> {
    interface: Option<&'a TypedInterface>,
    data: &'a DataLoadingConfig,
    config: &'a CoPilotConfig,
}

impl<'a> Plan<'a> {
    fn new(cx: &LayerContext<'a>, data: &'a DataLoadingConfig) -> Self {
        Self { interface: cx.task.template.interface.as_ref(), data, config: &cx.task.platform.k8s.co_pilot }
    }

    fn has_inputs(&self) -> bool {
        let inputs = self.interface.and_then(|interface| interface.inputs.as_ref());
        inputs.is_some_and(|inputs| !inputs.variables.is_empty())
    }

    fn has_outputs(&self) -> bool {
        let outputs = self.interface.and_then(|interface| interface.outputs.as_ref());
        outputs.is_some_and(|outputs| !outputs.variables.is_empty())
    }

    fn input_path(&self) -> &str {
        if self.data.input_path.is_empty() { &self.config.default_input_path } else { &self.data.input_path }
    }

    fn output_path(&self) -> &str {
        if self.data.output_path.is_empty() { &self.config.default_output_path } else { &self.data.output_path }
    }

    fn input_mount(&self) -> VolumeMount {
        mount(&self.config.input_vol_name, self.input_path())
    }

    fn output_mount(&self) -> VolumeMount {
        mount(&self.config.output_vol_name, self.output_path())
    }
}

/// Mounts the data in the primary container. Mirrors `flytek8s.AddCoPilotToContainer`.
pub(super) fn add_to_container(container: &mut Container, cx: &LayerContext<'_>, data: &DataLoadingConfig) {
    let plan = Plan::new(cx, data);
    let security: &mut SecurityContext = container.security_context.get_or_insert_default();
    security.capabilities.get_or_insert_with(Capabilities::default);
    extend(&mut container.volume_mounts, plan.has_inputs().then(|| plan.input_mount()));
    extend(&mut container.volume_mounts, plan.has_outputs().then(|| plan.output_mount()));
}

/// Adds the co-pilot containers and their volumes to a pod. Mirrors `flytek8s.AddCoPilotToPod`.
pub(super) fn add_to_pod(
    spec: &mut PodSpec,
    cx: &LayerContext<'_>,
    data: &DataLoadingConfig,
) -> Result<(), PluginError> {
    let plan = Plan::new(cx, data);
    let Some(interface) = plan.interface else { return Ok(()) };
    let config = plan.config;
    let size = volume_size(cx.resources());
    let paths = &cx.task.paths;

    // The storage credentials reach the co-pilot containers only, never the container with user code.
    let mut credentials = Vec::new();
    if (plan.has_inputs() || plan.has_outputs()) && !config.storage_config_secret_name.is_empty() {
        spec.volumes.get_or_insert_default().push(storage_config_volume(&config.storage_config_secret_name));
        credentials.push(VolumeMount { read_only: Some(true), ..mount(STORAGE_CONFIG_VOLUME, STORAGE_CONFIG_PATH) });
    }
    let mounts = |data: VolumeMount| std::iter::once(data).chain(credentials.iter().cloned()).collect::<Vec<_>>();

    if plan.has_inputs() {
        spec.volumes.get_or_insert_default().push(data_volume(&config.input_vol_name, size.clone()));
        let args = command::download(paths, plan.input_path(), data, interface);
        let downloader = copilot_container(DOWNLOADER, cx, args, mounts(plan.input_mount()))?;
        spec.init_containers.get_or_insert_default().push(downloader);
    }
    if plan.has_outputs() {
        spec.volumes.get_or_insert_default().push(data_volume(&config.output_vol_name, size));
        let args = command::upload(paths, plan.output_path(), config.timeout, interface);
        let mut uploader = copilot_container(UPLOADER, cx, args, mounts(plan.output_mount()))?;
        // An init container with restart policy `Always` runs beside the other containers. As the first one it runs
        // before any of them can end.
        uploader.restart_policy = Some("Always".to_owned());
        spec.init_containers.get_or_insert_default().insert(0, uploader);
        spec.termination_grace_period_seconds = Some(config.timeout.as_nanos() / NANOS_PER_SECOND);
    }
    Ok(())
}

/// Mirrors `flytek8s.FlyteCoPilotContainer`.
fn copilot_container(
    name: &str,
    cx: &LayerContext<'_>,
    args: Vec<String>,
    mounts: Vec<VolumeMount>,
) -> Result<Container, PluginError> {
    let config = &cx.config().co_pilot;
    let parsed = |amount: &str| -> Result<QuantityText, PluginError> {
        let amount: Quantity = amount.parse().map_err(|error| PluginError::uncoded(format!("{error}")))?;
        Ok(resources::text(&amount))
    };
    let amounts = BTreeMap::from([
        (resources::CPU.to_owned(), parsed(&config.cpu)?),
        (resources::MEMORY.to_owned(), parsed(&config.memory)?),
    ]);
    Ok(Container {
        name: format!("{}{name}", config.name_prefix),
        image: Some(config.image.clone()),
        command: Some(command::entrypoint(config, &cx.task.platform.copilot_storage)?),
        args: Some(args),
        working_dir: Some("/".to_owned()),
        resources: Some(ResourceRequirements {
            limits: Some(amounts.clone()),
            requests: Some(amounts),
            ..Default::default()
        }),
        volume_mounts: Some(mounts),
        termination_message_policy: Some(FALLBACK_TO_LOGS.to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        ..Default::default()
    })
}

fn storage_config_volume(secret: &str) -> Volume {
    let projection = VolumeProjection {
        secret: Some(SecretProjection { name: secret.to_owned(), ..Default::default() }),
        ..Default::default()
    };
    Volume {
        name: STORAGE_CONFIG_VOLUME.to_owned(),
        projected: Some(ProjectedVolumeSource {
            sources: Some(vec![projection]),
            default_mode: Some(STORAGE_CONFIG_MODE),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn data_volume(name: &str, size_limit: Option<QuantityText>) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource { size_limit, ..Default::default() }),
        ..Default::default()
    }
}

/// Mirrors `flytek8s.CalculateStorageSize`.
fn volume_size(resources: Option<&ResourceRequirements>) -> Option<QuantityText> {
    const STORAGE: &str = "storage";
    let resources = resources?;
    [&resources.limits, &resources.requests].into_iter().flatten().find_map(|list| list.get(STORAGE)).cloned()
}

fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount { name: name.to_owned(), mount_path: path.to_owned(), ..Default::default() }
}
