//! Merging whole pod specs, containers by name.
//!
//! Of single values one wins: that of the pod spec over that of a template, that of a customised spec over that of the
//! built one. Lists are joined, maps are merged ([`aileron_kubekit::merge`]). The lists of containers are not joined: the
//! result has the containers of the spec that was built, and the other spec only adds fields to them.
//!
//! # Differs from upstream
//!
//! Every merge starts from a copy. If a template has a container with the name of the task's container, upstream
//! changes the template in its store, and the environment of one task appears in the pods of others.

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::overlay::{overlay, stack};
use crate::PluginError;

/// Names of containers in a pod template that are templates for other containers.
struct MagicNames {
    /// A template for all containers.
    all: &'static str,
    /// A template for the primary container.
    primary: &'static str,
}

const CONTAINERS: MagicNames = MagicNames { all: "default", primary: "primary" };
const INIT_CONTAINERS: MagicNames = MagicNames { all: "default-init", primary: "primary-init" };

/// Merges a pod spec with a pod template. Values of the spec win. Mirrors `flytek8s.MergeBasePodSpecOntoTemplate`.
///
/// Each container starts from the template's `default` container, then `primary` if it is the primary one, then the
/// template's container of the same name. Other containers of the template are left out.
///
/// ```
/// use aileron_machinery::pod::merge::merge_onto_template;
/// # use aileron_machinery::{k8s_openapi::api::core::v1::PodSpec, serde_json::{self, json}};
///
/// let template: PodSpec =
///     serde_json::from_value(json!({"containers": [{"name": "default", "workingDir": "/data"}]}))?;
/// let spec: PodSpec = serde_json::from_value(json!({"containers": [{"name": "main", "image": "image:1"}]}))?;
/// let merged = merge_onto_template(&template, &spec, "main", "")?;
/// assert_eq!(merged.containers.len(), 1);
/// assert_eq!(merged.containers[0].working_dir.as_deref(), Some("/data"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn merge_onto_template(
    template: &PodSpec,
    spec: &PodSpec,
    primary_container: &str,
    primary_init_container: &str,
) -> Result<PodSpec, PluginError> {
    let mut merged = overlay(&without_containers(template), &without_containers(spec))?;
    merged.containers = onto_templates(&template.containers, &spec.containers, primary_container, &CONTAINERS)?;
    merged.init_containers = spec
        .init_containers
        .as_deref()
        .map(|containers| {
            let templates = template.init_containers.as_deref().unwrap_or_default();
            onto_templates(templates, containers, primary_init_container, &INIT_CONTAINERS)
        })
        .transpose()?;
    Ok(merged)
}

/// Merges a pod spec with a customised one, whose values win. Containers that only the customised spec has are left
/// out. Mirrors `flytek8s.MergeOverlayPodSpecOntoBase`.
///
/// ```
/// use aileron_machinery::pod::merge::merge_overlay;
/// # use aileron_machinery::{k8s_openapi::api::core::v1::PodSpec, serde_json::{self, json}};
///
/// let built: PodSpec = serde_json::from_value(json!({"containers": [{"name": "main", "image": "image:1"}]}))?;
/// let own: PodSpec =
///     serde_json::from_value(json!({"hostname": "head", "containers": [{"name": "main", "image": "own:2"}]}))?;
/// let merged = merge_overlay(&built, &own)?;
/// assert_eq!((merged.hostname.as_deref(), merged.containers[0].image.as_deref()), (Some("head"), Some("own:2")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn merge_overlay(base: &PodSpec, upper: &PodSpec) -> Result<PodSpec, PluginError> {
    let mut merged = overlay(&without_containers(base), &without_containers(upper))?;
    merged.containers = overlay_by_name(&base.containers, &upper.containers)?;
    merged.init_containers = base
        .init_containers
        .as_deref()
        .map(|containers| overlay_by_name(containers, upper.init_containers.as_deref().unwrap_or_default()))
        .transpose()?;
    Ok(merged)
}

fn onto_templates(
    templates: &[Container],
    containers: &[Container],
    primary: &str,
    magic: &MagicNames,
) -> Result<Vec<Container>, PluginError> {
    let named = |name: &str| templates.iter().rfind(|template| template.name == name);
    let for_all = named(magic.all);
    let for_primary = named(magic.primary);
    let merge_one = |container: &Container| {
        let is_magic = container.name == magic.all || container.name == magic.primary;
        let same_name = templates.iter().filter(|template| template.name == container.name && !is_magic);
        let mut layers = for_all
            .into_iter()
            .chain(for_primary.filter(|_| container.name == primary))
            .chain(same_name)
            .chain(std::iter::once(container));
        layers.next().map_or_else(|| Ok(container.clone()), |first| stack(first, layers))
    };
    containers.iter().map(merge_one).collect()
}

fn overlay_by_name(base: &[Container], upper: &[Container]) -> Result<Vec<Container>, PluginError> {
    let merge_one = |container: &Container| {
        let same_name = upper.iter().filter(|other| other.name == container.name);
        stack(container, same_name)
    };
    base.iter().map(merge_one).collect()
}

fn without_containers(spec: &PodSpec) -> PodSpec {
    PodSpec { containers: Vec::new(), init_containers: None, ..spec.clone() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(json: Value) -> PodSpec {
        serde_json::from_value(json).unwrap()
    }

    fn env(container: &Container) -> Vec<&str> {
        container.env.iter().flatten().map(|variable| variable.name.as_str()).collect()
    }

    #[test]
    fn the_task_lies_over_its_name_over_primary_over_default() {
        let template = spec(json!({"containers": [
            {"name": "primary", "image": "p", "workingDir": "/p", "env": [{"name": "P"}]},
            {"name": "main", "image": "n", "env": [{"name": "N"}]},
            {"name": "default", "image": "d", "workingDir": "/d", "terminationMessagePath": "/t", "env": [{"name": "D"}]},
            {"name": "elsewhere"},
        ]}));
        let task = spec(json!({"containers": [{"name": "main", "env": [{"name": "T"}]}, {"name": "side"}]}));
        let merged = merge_onto_template(&template, &task, "main", "").unwrap();
        assert_eq!(merged.containers.len(), 2);
        let (main, side) = (&merged.containers[0], &merged.containers[1]);
        assert_eq!(env(main), ["D", "P", "N", "T"]);
        assert_eq!((main.image.as_deref(), main.working_dir.as_deref()), (Some("n"), Some("/p")));
        assert_eq!(main.termination_message_path.as_deref(), Some("/t"));
        assert_eq!((side.name.as_str(), env(side)), ("side", vec!["D"]));
    }

    #[test]
    fn a_container_named_like_a_magic_one_is_merged_with_it_once() {
        let template = spec(json!({"containers": [{"name": "primary", "env": [{"name": "P"}]}]}));
        let task = spec(json!({"containers": [{"name": "primary"}]}));
        let merged = merge_onto_template(&template, &task, "primary", "").unwrap();
        assert_eq!(env(&merged.containers[0]), ["P"]);
    }

    #[test]
    fn an_overlay_changes_containers_and_adds_none() {
        let base = spec(json!({"hostNetwork": true, "containers": [{"name": "a", "image": "1"}]}));
        let upper = spec(json!({"hostNetwork": false, "containers": [{"name": "a", "image": "2"}, {"name": "b"}]}));
        let merged = merge_overlay(&base, &upper).unwrap();
        assert_eq!(merged, spec(json!({"hostNetwork": true, "containers": [{"name": "a", "image": "2"}]})));
    }
}
