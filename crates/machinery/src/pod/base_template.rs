//! Merging a pod with pod templates: that of its accelerator class, and that which the task or the namespace names.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PodSpec, PodTemplate};

use super::PodDraft;
use super::accelerator::{AcceleratorSettings, class_name};
use super::layers::LayerContext;
use super::merge::merge_onto_template;
use super::overlay::overlay;
use crate::{PluginError, code};

/// The name of the primary init container: none. Only pods of operators have one.
const NO_PRIMARY_INIT_CONTAINER: &str = "";

/// Merges the pod with the template of its accelerator class. Fields of the pod win. Mirrors
/// `flytek8s.applyAcceleratorDeviceClassPodTemplate`.
pub(super) fn accelerator_template(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    let Some(accelerator) = &cx.extended_resources.gpu_accelerator else { return Ok(()) };
    let Some(template) = AcceleratorSettings::of(accelerator, cx.config()).pod_template else { return Ok(()) };
    draft.spec = onto(template, draft).map_err(|error| {
        let class = class_name(accelerator);
        PluginError::caused_by(
            code::DOWNSTREAM_SYSTEM_ERROR,
            format!(
                "Failed to merge PodTemplate for accelerator device class '{class}'. \
                 Check k8s.accelerator-device-classes[{class}].pod-template configuration."
            ),
            error,
        )
    })?;
    Ok(())
}

/// Merges the pod with the pod template of the cluster. Fields of the pod win. Mirrors
/// `flytek8s.MergeWithBasePodTemplate`.
pub(super) fn base_template(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    let Some(template) = find_base_template(cx)? else { return Ok(()) };
    draft.spec = onto(&template, draft)?;
    if let Some(metadata) = template.template.as_ref().and_then(|template| template.metadata.as_ref()) {
        draft.metadata = overlay(metadata, &draft.metadata)?;
    }
    Ok(())
}

/// The template that the task names, which must exist, else the default template, if there is one. Mirrors
/// `flytek8s.getBasePodTemplate`.
fn find_base_template(cx: &LayerContext<'_>) -> Result<Option<Arc<PodTemplate>>, PluginError> {
    let named = cx.task.template.metadata.as_ref().map_or("", |metadata| metadata.pod_template_name.as_str());
    let templates = &cx.task.platform.pod_templates;
    let find = |name: &str| {
        let found = templates.find(&cx.task.metadata.namespace, name);
        found.map(Option::<&_>::cloned).map_err(|error| PluginError::bad_task_specification(error.to_string()))
    };
    if named.is_empty() {
        return find(&cx.config().default_pod_template_name);
    }
    let found = find(named)?;
    if found.is_none() {
        return Err(PluginError::bad_task_specification(format!("PodTemplate '{named}' does not exist")));
    }
    Ok(found)
}

fn onto(template: &PodTemplate, draft: &PodDraft) -> Result<PodSpec, PluginError> {
    let none = PodSpec::default();
    let template = template.template.as_ref().and_then(|template| template.spec.as_ref()).unwrap_or(&none);
    merge_onto_template(template, &draft.spec, &draft.primary_container, NO_PRIMARY_INIT_CONTAINER)
}
