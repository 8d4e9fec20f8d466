//! Single functions for building and reading pods.

use aileron_idl::flyteidl2::core::{ExtendedResources, GpuAccelerator, SharedMemory};
use aileron_machinery::config::K8sConfig;
use aileron_machinery::pod::{
    accelerator, affinity, extended_resources, log_context, merge, phase, shared_memory, times, tolerations,
};
use aileron_machinery::{Phase, PluginError, TaskInfo};
use aileron_plugins::spark::crd::has_driver_template;
use k8s_openapi::api::core::v1::{
    Affinity, ContainerStatus, NodeSelectorRequirement, Pod, PodSpec, PodStatus, ResourceRequirements,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{Case, argument, plugin_failure, unknown_function, value};
use crate::vectors::installation::Installation;
use crate::vectors::messages::{message, message_json, optional_message};
use crate::vectors::phase_info::phase_info;

pub(super) fn produce(case: &Case) -> anyhow::Result<Value> {
    let config = Installation::of(case)?.config.plugins.k8s;
    match case.function() {
        "phases" => value(Phase::ALL.map(|phase| {
            json!({
                "name": phase.as_str(),
                "number": phase.number(),
                "terminal": phase.is_terminal(),
                "success": phase.is_success(),
                "failure": phase.is_failure(),
                "aborted": phase.is_aborted(),
            })
        })),
        "pod.tolerations" => {
            let requirements: Vec<ResourceRequirements> = argument(case, "resources")?;
            value(tolerations::pod_tolerations(argument(case, "interruptible")?, &requirements, &config))
        }
        "pod.addTolerationsForExtendedResources" => {
            on_spec(case, |spec| tolerations::add_tolerations_for_extended_resources(spec, &config))
        }
        "pod.applyInterruptibleNodeAffinity" => {
            let interruptible = argument(case, "interruptible")?;
            on_spec(case, |spec| affinity::apply_interruptible_node_affinity(spec, interruptible, &config))
        }
        "pod.applyPlatformSchedulingConstraints" => {
            let interruptible = argument(case, "interruptible")?;
            on_spec(case, |spec| affinity::apply_platform_scheduling_constraints(spec, interruptible, &config))
        }
        "pod.applyGPUNodeSelectors" => {
            let wanted: GpuAccelerator = message(case.arg("accelerator"))?;
            // A second application must change nothing.
            let rounds = if argument(case, "twice")? { 2 } else { 1 };
            on_spec(case, |spec| (0..rounds).for_each(|_| accelerator::apply_node_selectors(spec, &wanted, &config)))
        }
        "pod.addRequiredNodeSelectorRequirements" => {
            let mut given: Affinity = argument(case, "affinity")?;
            let requirements: Vec<NodeSelectorRequirement> = argument(case, "requirements")?;
            affinity::add_required_requirements(&mut given, &requirements);
            value(given)
        }
        "pod.addPreferredNodeSelectorRequirements" => {
            let mut given: Affinity = argument(case, "affinity")?;
            let requirements: Vec<NodeSelectorRequirement> = argument(case, "requirements")?;
            affinity::add_preferred_requirements(&mut given, argument(case, "weight")?, &requirements);
            value(given)
        }
        "pod.applySharedMemory" => {
            let mut spec: PodSpec = argument(case, "podSpec")?;
            let wanted: SharedMemory = message(case.arg("sharedMemory"))?;
            let primary: String = argument(case, "primaryContainer")?;
            match shared_memory::apply_shared_memory(&mut spec, &primary, &wanted) {
                Ok(()) => value(spec),
                Err(error) => Ok(plugin_failure(&error)),
            }
        }
        "pod.extendedResourcesOverride" => {
            let base: Option<ExtendedResources> = optional_message(case.arg("base"))?;
            let over: Option<ExtendedResources> = optional_message(case.arg("overrides"))?;
            value(message_json(&extended_resources::apply_overrides(base.as_ref(), over.as_ref()))?)
        }
        "pod.mergeBaseOntoTemplate" => merged(merge::merge_onto_template(
            &argument(case, "template")?,
            &argument(case, "base")?,
            &argument::<String>(case, "primaryContainer")?,
            &argument::<String>(case, "primaryInitContainer")?,
        )),
        "pod.mergeOverlayOntoBase" => {
            merged(merge::merge_overlay(&argument(case, "base")?, &argument(case, "overlay")?))
        }
        "spark.crdHasDriverTemplate" => {
            let crd: CustomResourceDefinition = argument(case, "crd")?;
            value(has_driver_template(&crd))
        }
        function if function.starts_with("pod.") => read(case, function, &config),
        _ => Err(unknown_function(case)),
    }
}

/// Functions that read pods.
fn read(case: &Case, function: &str, config: &K8sConfig) -> anyhow::Result<Value> {
    let info = TaskInfo::at(case.now);
    let primary: String = argument(case, "primaryContainer")?;
    let status: PodStatus = argument(case, "status")?;
    let pod: Pod = argument(case, "pod")?;
    let seen = match function {
        "pod.demystifyPodStatus" => phase::pod_phase(&pod, config, case.now, info),
        "pod.demystifyFailure" => phase::failed_phase(&status, &primary, info),
        "pod.demystifyPending" => phase::pending_phase(&status, config, case.now, info),
        "pod.demystifySuccess" => phase::succeeded_phase(&status, info),
        "pod.determinePrimaryContainerPhase" => {
            let statuses: Vec<ContainerStatus> = argument(case, "statuses")?;
            phase::primary_container_phase(&primary, &statuses, info)
        }
        "pod.times" => {
            return value(json!({
                "lastTransition": times::last_transition(&pod, case.now),
                "logContext": message_json(&log_context::pod_log_context(&pod))?,
                "primaryContainer": log_context::primary_container_name(&pod),
                "ready": phase::is_ready(&pod),
                "reportedAt": times::reported_at(&pod),
            }));
        }
        _ => return Err(unknown_function(case)),
    };
    value(phase_info(&seen)?)
}

fn merged(result: Result<PodSpec, PluginError>) -> anyhow::Result<Value> {
    match result {
        Ok(spec) => value(spec),
        Err(error) => Ok(plugin_failure(&error)),
    }
}

fn on_spec(case: &Case, change: impl FnOnce(&mut PodSpec)) -> anyhow::Result<Value> {
    let mut spec: PodSpec = argument(case, "podSpec")?;
    change(&mut spec);
    value(spec)
}
