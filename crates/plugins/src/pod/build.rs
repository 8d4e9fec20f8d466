//! The pod of a task.

use std::iter;

use aileron_machinery::pod::layers::{self, PLATFORM_LAYERS, PodLayer, TASK_TARGET_OR_SIDECAR};
use aileron_machinery::pod::vscode::{add_readiness_probe, is_vscode_enabled};
use aileron_machinery::pod::{
    LayerContext, PRIMARY_CONTAINER_KEY, PodDraft, PodOptions, SIDECAR_TASK_TYPE, service_account,
};
use aileron_machinery::{PluginError, TaskContext};
use k8s_openapi::api::core::v1::Pod;

use super::RAW_CONTAINER;

/// What this plugin does after the platform's layers.
const OWN_LAYERS: [PodLayer; 3] = [
    PodLayer { name: "editor readiness", apply: editor_readiness },
    PodLayer { name: "primary container", apply: primary_container },
    PodLayer { name: "security context service account", apply: fallback_service_account },
];

/// Everything that makes the pod of a task, in order.
pub fn layers() -> impl Iterator<Item = PodLayer> {
    iter::once(TASK_TARGET_OR_SIDECAR).chain(PLATFORM_LAYERS.iter().copied()).chain(OWN_LAYERS)
}

/// The pod for an attempt.
pub(super) fn build(task: &TaskContext) -> Result<Pod, PluginError> {
    layers::apply(layers(), &LayerContext::new(task, PodOptions::default())).map(pod)
}

/// The pod for an attempt, shown after each layer.
pub(super) fn build_observed(task: &TaskContext, observe: &mut dyn FnMut(&str, &Pod)) -> Result<Pod, PluginError> {
    let cx = LayerContext::new(task, PodOptions::default());
    layers::apply_observed(layers(), &cx, |layer, draft| observe(layer, &pod(draft.clone()))).map(pod)
}

fn pod(draft: PodDraft) -> Pod {
    Pod { metadata: draft.metadata, spec: Some(draft.spec), status: None }
}

/// A pod that starts an editor is ready when the editor is.
fn editor_readiness(draft: &mut PodDraft, _: &LayerContext<'_>) -> Result<(), PluginError> {
    let several = draft.spec.containers.len() > 1;
    let primary = &draft.primary_container;
    let candidates = draft.spec.containers.iter_mut().filter(|container| !several || container.name == *primary);
    for container in candidates.take_while(|container| is_vscode_enabled(container.env.as_deref().unwrap_or_default()))
    {
        add_readiness_probe(container);
    }
    Ok(())
}

/// Marks the container whose end ends the task. Pods of one container get the mark too, since a container is seen to
/// end before its pod is; raw containers do not, because their outputs are stored after the container has ended.
fn primary_container(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    let task_type = cx.task.template.r#type.as_str();
    let is_alone = draft.spec.containers.len() == 1 && task_type != RAW_CONTAINER;
    if task_type == SIDECAR_TASK_TYPE || is_alone {
        draft.annotate(PRIMARY_CONTAINER_KEY, draft.primary_container.clone());
    }
    Ok(())
}

fn fallback_service_account(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    let account = service_account(&cx.task.metadata);
    let field = &mut draft.spec.service_account_name;
    if field.as_ref().is_none_or(String::is_empty) && !account.is_empty() {
        *field = Some(account.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
