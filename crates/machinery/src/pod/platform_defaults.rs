//! Settings of the platform for fields that the task does not set. Together they mirror `flytek8s.UpdatePod`.

use super::PodDraft;
use super::affinity::{apply_interruptible_node_affinity, apply_interruptible_node_selector};
use super::fields::{collect, set_if_empty};
use super::layers::LayerContext;
use super::tolerations::pod_tolerations;
use crate::PluginError;

/// The containers of a task are not restarted: the executor decides about another attempt.
pub(super) fn restart_policy(draft: &mut PodDraft, _: &LayerContext<'_>) -> Result<(), PluginError> {
    set_if_empty(&mut draft.spec.restart_policy, "Never");
    Ok(())
}

/// Adds the platform's tolerations before those of the pod.
pub(super) fn tolerations(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    let resources = draft.spec.containers.iter().filter_map(|container| container.resources.as_ref());
    let mut tolerations = pod_tolerations(cx.interruptible, resources, cx.config());
    tolerations.extend(draft.spec.tolerations.take().unwrap_or_default());
    draft.spec.tolerations = collect(tolerations);
    Ok(())
}

pub(super) fn service_account(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    set_if_empty(&mut draft.spec.service_account_name, &cx.task.metadata.service_account);
    Ok(())
}

pub(super) fn scheduler(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    set_if_empty(&mut draft.spec.scheduler_name, &cx.config().scheduler_name);
    Ok(())
}

/// Merges node selectors: entries of the pod win over the defaults, and those for interruptible pods win over both.
pub(super) fn node_selector(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    let mut selector = cx.config().default_node_selector.clone();
    selector.extend(draft.spec.node_selector.take().unwrap_or_default());
    draft.spec.node_selector = collect(selector);
    if cx.interruptible {
        apply_interruptible_node_selector(&mut draft.spec, cx.config());
    }
    Ok(())
}

pub(super) fn default_affinity(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    if draft.spec.affinity.is_none() {
        draft.spec.affinity.clone_from(&cx.config().default_affinity);
    }
    Ok(())
}

pub(super) fn pod_security_context(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    if draft.spec.security_context.is_none() {
        draft.spec.security_context.clone_from(&cx.config().default_pod_security_context);
    }
    Ok(())
}

/// If the configuration has this setting, it wins over that of the pod.
pub(super) fn host_network(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    if let Some(enabled) = cx.config().enable_host_networking_pod {
        draft.spec.host_network = Some(enabled);
    }
    Ok(())
}

pub(super) fn dns_config(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    if draft.spec.dns_config.is_none() {
        draft.spec.dns_config.clone_from(&cx.config().default_pod_dns_config);
    }
    Ok(())
}

pub(super) fn interruptible_affinity(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    apply_interruptible_node_affinity(&mut draft.spec, cx.interruptible, cx.config());
    Ok(())
}

pub(super) fn container_security_context(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    let primary = draft.primary()?;
    if primary.security_context.is_none() {
        primary.security_context.clone_from(&cx.config().default_security_context);
    }
    Ok(())
}
