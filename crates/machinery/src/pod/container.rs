//! The container of a container task, and the settings of every container.

use std::iter;

use aileron_idl::flyteidl2::core::task_template::Target;
use aileron_kubekit::digest::fnv1a_32;
use aileron_kubekit::names;
use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::fields::collect;
use super::layers::LayerContext;
use super::resources::{self, ResourceMode};
use super::{arguments, environment};
use crate::{PluginError, TaskExecutionId};

/// The termination message policy of containers: if a failed container wrote no termination message, Kubernetes takes
/// the end of its log.
pub(super) const FALLBACK_TO_LOGS: &str = "FallbackToLogsOnError";

/// The container of the template, without anything that the platform adds. Mirrors `flytek8s.BuildRawContainer`.
pub(super) fn raw_container(cx: &LayerContext<'_>) -> Result<Container, PluginError> {
    let Some(Target::Container(container)) = &cx.task.template.target else {
        return Err(PluginError::bad_task_specification(
            "unable to create container with no definition in TaskTemplate",
        ));
    };
    if cx.resources().is_none() {
        return Err(PluginError::bad_task_specification(
            "resource requirements not found for container task, required!",
        ));
    }
    let pull_policy = &cx.config().image_pull_policy;
    Ok(Container {
        name: container_name(&cx.task.metadata.id),
        image: Some(container.image.clone()),
        args: collect(container.args.iter().cloned()),
        command: collect(container.command.iter().cloned()),
        env: collect(environment::from_proto(&container.env)),
        termination_message_policy: Some(FALLBACK_TO_LOGS.to_owned()),
        resources: Some(resources::from_proto(container.resources.as_ref())?),
        image_pull_policy: Some(pull_policy.clone()).filter(|policy| !policy.is_empty()),
        ..Default::default()
    })
}

/// The container of the template with arguments, environment and resources, outside of any pod. Mirrors
/// `flytek8s.ToK8sContainer`.
///
/// ```
/// use aileron_machinery::pod::container::task_container;
/// use aileron_machinery::pod::{LayerContext, PodOptions};
/// # use aileron_machinery::{testing::task, serde_json::Value};
///
/// // For an object that has a field for a container, but none for a pod.
/// let task = task("batch", &Value::Null);
/// let container = task_container(&LayerContext::new(&task, PodOptions::default()))?;
/// assert_eq!((container.name.as_str(), container.image.as_deref()), ("run-a0-0", Some("image:1")));
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub fn task_container(cx: &LayerContext<'_>) -> Result<Container, PluginError> {
    let mut container = raw_container(cx)?;
    container.security_context.clone_from(&cx.config().default_security_context);
    customize(&mut container, cx, ResourceMode::Merge)?;
    Ok(container)
}

/// Sets arguments, environment and resources of a container. Mirrors `flytek8s.AddFlyteCustomizationsToContainer`.
fn customize(container: &mut Container, cx: &LayerContext<'_>, mode: ResourceMode) -> Result<(), PluginError> {
    arguments::render(container, cx.task)?;
    environment::decorate(container, cx.task);
    settle_resources(container, cx, mode)
}

/// Sets the requests and limits of a container.
pub(super) fn settle_resources(
    container: &mut Container,
    cx: &LayerContext<'_>,
    mode: ResourceMode,
) -> Result<(), PluginError> {
    let own = container.resources.take().unwrap_or_default();
    let accelerator = cx.extended_resources.gpu_accelerator.as_ref();
    let platform = &cx.task.metadata.platform_resources;
    container.resources = Some(resources::settle(own, cx.resources(), platform, accelerator, cx.config(), mode)?);
    Ok(())
}

/// A container of a pod by name. Mirrors `flytek8s.GetContainer`.
///
/// ```
/// use aileron_machinery::pod::build_pod;
/// use aileron_machinery::pod::container::find_container;
/// # use aileron_machinery::{testing::task, serde_json::Value};
///
/// let draft = build_pod(&task("batch", &Value::Null), Default::default())?;
/// assert_eq!(find_container(&draft.spec, "run-a0-0")?.image.as_deref(), Some("image:1"));
/// assert!(find_container(&draft.spec, "driver").is_err());
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub fn find_container<'a>(spec: &'a PodSpec, name: &str) -> Result<&'a Container, PluginError> {
    spec.containers.iter().find(|container| container.name == name).ok_or_else(|| undefined(name))
}

/// Like [`find_container`], to change it.
///
/// ```
/// use aileron_machinery::pod::build_pod;
/// use aileron_machinery::pod::container::find_container_mut;
/// # use aileron_machinery::{testing::task, serde_json::Value};
///
/// let mut draft = build_pod(&task("batch", &Value::Null), Default::default())?;
/// let name = draft.primary_container.clone();
/// find_container_mut(&mut draft.spec, &name)?.name = "driver".into();
/// assert_eq!(draft.spec.containers[0].name, "driver");
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub fn find_container_mut<'a>(spec: &'a mut PodSpec, name: &str) -> Result<&'a mut Container, PluginError> {
    spec.containers.iter_mut().find(|container| container.name == name).ok_or_else(|| undefined(name))
}

fn undefined(name: &str) -> PluginError {
    PluginError::bad_task_specification(format!("invalid TaskSpecification, container [{name}] not defined"))
}

/// The name of a task's container: the name of its pod, or four characters if that name is not allowed for containers.
///
/// # Differs from upstream
///
/// Upstream chooses four new random characters for each build. Here they are computed from the pod's name, so that
/// building the same pod twice gives the same pod.
pub(super) fn container_name(id: &TaskExecutionId) -> String {
    let name = &id.generated_name;
    if names::is_label(name) { name.clone() } else { short_name(name) }
}

/// The characters of upstream's random names: no vowels, so that no words arise, and no characters that look alike.
const NAME_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The length of upstream's random names.
const SHORT_NAME_LENGTH: usize = 4;

fn short_name(of: &str) -> String {
    let mut sum = fnv1a_32(of.as_bytes());
    let letters = iter::repeat_with(|| {
        let letter = NAME_ALPHABET[sum as usize % NAME_ALPHABET.len()];
        sum /= NAME_ALPHABET.len() as u32;
        char::from(letter)
    });
    letters.take(SHORT_NAME_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> String {
        container_name(&TaskExecutionId { generated_name: name.into(), ..Default::default() })
    }

    #[test]
    fn a_container_bears_the_pods_name_if_it_can() {
        assert_eq!(named("rrun123-a0-0"), "rrun123-a0-0");
    }

    #[test]
    fn another_name_is_short_stable_and_a_label() {
        for bad in ["", "a.b", "Upper", "-x", &"x".repeat(64)] {
            let name = named(bad);
            assert!(names::is_label(&name), "{name}");
            assert_eq!((name.len(), named(bad)), (SHORT_NAME_LENGTH, name));
        }
        assert_ne!(named("a.b"), named("a.c"));
    }
}
