//! Replicas of a job: the task's pod, in some number, and with what a role has of its own.

use std::collections::BTreeMap;

use aileron_idl::flyteidl2::core::Resources;
use aileron_idl::flyteidl2::plugins::{CommonReplicaSpec, RestartPolicy, kubeflow as pb};
use aileron_machinery::pod::{LayerContext, PodDraft, PodOptions, build_pod, resources};
use aileron_machinery::{PluginError, TaskContext};
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec, ResourceRequirements};

use super::resource::ReplicaSpec;

/// How upstream's errors show resources that could not be read.
const NO_RESOURCES: &str =
    "&ResourceRequirements{Limits:ResourceList{},Requests:ResourceList{},Claims:[]ResourceClaim{},}";

/// What a role has of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoleSettings<'a> {
    /// How many there are.
    pub(crate) replicas: i32,
    image: &'a str,
    resources: Option<&'a Resources>,
    restart_policy: i32,
    /// Replaces the arguments of the container.
    command: &'a [String],
}

impl<'a> From<&'a CommonReplicaSpec> for RoleSettings<'a> {
    fn from(spec: &'a CommonReplicaSpec) -> Self {
        Self {
            replicas: spec.replicas,
            image: &spec.image,
            resources: spec.resources.as_ref(),
            restart_policy: spec.restart_policy,
            command: &[],
        }
    }
}

/// Older tasks have the common fields beside `common`; where `common` is there, only `common` counts.
macro_rules! role_settings {
    ($message:ty) => {
        impl<'a> From<Option<&'a $message>> for RoleSettings<'a> {
            #[allow(deprecated)]
            fn from(spec: Option<&'a $message>) -> Self {
                let Some(spec) = spec else { return Self::default() };
                spec.common.as_ref().map_or_else(
                    || Self {
                        replicas: spec.replicas,
                        image: &spec.image,
                        resources: spec.resources.as_ref(),
                        restart_policy: spec.restart_policy,
                        command: &[],
                    },
                    Self::from,
                )
            }
        }
    };
}

role_settings!(pb::DistributedPyTorchTrainingReplicaSpec);
role_settings!(pb::DistributedTensorflowTrainingReplicaSpec);
role_settings!(pb::DistributedMpiTrainingReplicaSpec);

impl<'a> RoleSettings<'a> {
    /// With arguments of its own; none leave those of the task.
    pub(crate) fn with_command(self, command: &'a [String]) -> Self {
        Self { command, ..self }
    }

    /// As many as this, whatever the task says.
    pub(crate) fn with_replicas(self, replicas: i32) -> Self {
        Self { replicas, ..self }
    }
}

/// Replicas that are just the task's pod. `container` is the name under which the operator looks for the container
/// that does the work.
///
/// Mirrors `common.ToReplicaSpec`.
pub(crate) fn replica_spec(task: &TaskContext, container: &str, replicas: i32) -> Result<ReplicaSpec, PluginError> {
    replica_with(task, container, replicas, PodOptions::default())
}

/// Replicas of a role with settings of its own.
///
/// Mirrors `common.ToReplicaSpecWithOverrides`.
pub(crate) fn role_spec(
    task: &TaskContext,
    container: &str,
    role: &RoleSettings<'_>,
) -> Result<ReplicaSpec, PluginError> {
    let options = PodOptions {
        resources: role.resources.map(|resources| role_resources(task, resources)).transpose()?,
        ..PodOptions::default()
    };
    let mut replica = replica_with(task, container, role.replicas, options)?;
    replica.restart_policy = restart_policy(role.restart_policy).map(str::to_owned);
    for container in working_containers(&mut replica, container) {
        if !role.image.is_empty() {
            container.image = Some(role.image.to_owned());
        }
        if !role.command.is_empty() {
            container.args = Some(role.command.to_vec());
        }
    }
    Ok(replica)
}

/// The containers of a replica that bear the name the operator looks for.
pub(crate) fn working_containers<'a>(
    replica: &'a mut ReplicaSpec,
    name: &'a str,
) -> impl Iterator<Item = &'a mut Container> {
    let containers = replica.template.spec.as_mut().map_or(&mut [][..], |spec| &mut spec.containers);
    containers.iter_mut().filter(move |container| container.name == name)
}

/// The error of a task whose job lacks a part because of `error`.
pub(crate) fn unable_to_create(part: &str, error: &PluginError) -> PluginError {
    PluginError::bad_task_specification(format!("Unable to create {part}: [{error}]"))
}

fn replica_with(
    task: &TaskContext,
    container: &str,
    replicas: i32,
    options: PodOptions,
) -> Result<ReplicaSpec, PluginError> {
    let draft = build_pod(task, options).map_err(|error| unable_to_create("pod spec", &error))?;
    let PodDraft { mut metadata, mut spec, primary_container } = draft;
    if let Some(primary) = spec.containers.iter_mut().find(|container| container.name == primary_container) {
        container.clone_into(&mut primary.name);
    }
    let platform = &task.platform.k8s;
    add_over(&mut metadata.annotations, &platform.default_annotations, &task.metadata.annotations);
    add_over(&mut metadata.labels, &platform.default_labels, &task.metadata.labels);
    Ok(ReplicaSpec {
        replicas: Some(replicas),
        template: PodTemplateSpec { metadata: Some(metadata), spec: Some(spec) },
        restart_policy: restart_policy(RestartPolicy::Never.into()).map(str::to_owned),
        ..ReplicaSpec::default()
    })
}

/// Lays a pod's entries over the platform's defaults, and those of the execution over both.
fn add_over(
    own: &mut Option<BTreeMap<String, String>>,
    defaults: &BTreeMap<String, String>,
    execution: &BTreeMap<String, String>,
) {
    let mut entries = defaults.clone();
    entries.extend(own.take().unwrap_or_default());
    entries.extend(execution.clone());
    *own = Some(entries).filter(|entries| !entries.is_empty());
}

fn role_resources(task: &TaskContext, given: &Resources) -> Result<ResourceRequirements, PluginError> {
    let mut requirements = resources::from_proto(Some(given)).map_err(|error| {
        PluginError::bad_task_specification(format!(
            "invalid TaskSpecification on Resources [{NO_RESOURCES}], Err: [{error}]"
        ))
    })?;
    let config = &task.platform.k8s;
    let extended = LayerContext::new(task, PodOptions::default()).extended_resources;
    // Before anything is looked up by name, or bounds and tolerations of the accelerator would not be found.
    resources::sanitize_gpu(&mut requirements, extended.gpu_accelerator.as_ref(), config);
    resources::apply_platform_resources(&requirements, &task.metadata.platform_resources, config)
}

/// A number that nobody has named leaves the choice to the operator.
fn restart_policy(number: i32) -> Option<&'static str> {
    Some(match RestartPolicy::try_from(number).ok()? {
        RestartPolicy::Never => "Never",
        RestartPolicy::OnFailure => "OnFailure",
        RestartPolicy::Always => "Always",
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, deprecated)]
    use super::*;

    #[test]
    fn common_fields_win_as_a_whole() {
        let common = CommonReplicaSpec { replicas: 2, ..CommonReplicaSpec::default() };
        let spec = pb::DistributedPyTorchTrainingReplicaSpec {
            replicas: 5,
            image: "old".into(),
            common: Some(common),
            ..Default::default()
        };
        let role = RoleSettings::from(Some(&spec));
        assert_eq!((role.replicas, role.image), (2, ""));
        let spec = pb::DistributedPyTorchTrainingReplicaSpec { common: None, ..spec };
        let role = RoleSettings::from(Some(&spec));
        assert_eq!((role.replicas, role.image), (5, "old"));
    }

    #[test]
    fn the_execution_has_the_last_word_about_metadata() {
        let map = |entries: &[(&str, &str)]| -> BTreeMap<String, String> {
            entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
        };
        let mut own = Some(map(&[("a", "pod"), ("b", "pod")]));
        add_over(&mut own, &map(&[("a", "default"), ("c", "default")]), &map(&[("b", "execution")]));
        assert_eq!(own.unwrap(), map(&[("a", "pod"), ("b", "execution"), ("c", "default")]));
        let mut none = None;
        add_over(&mut none, &BTreeMap::new(), &BTreeMap::new());
        assert_eq!(none, None);
    }

    #[test]
    fn restart_policies_have_the_operators_names() {
        assert_eq!([0, 1, 2, 3].map(restart_policy), [Some("Never"), Some("OnFailure"), Some("Always"), None]);
    }
}
