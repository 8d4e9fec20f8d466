//! What the task says about its Ray job.

use std::collections::BTreeMap;

use aileron_idl::flyteidl2::plugins::{RayCluster, RayJob};
use aileron_idl::message_from_struct;
use aileron_machinery::{PluginError, TaskContext};
use prost_types::value::Kind;
use prost_types::{Struct, Value};

/// The task's settings, and what they look like before they are read: whether an empty map was given or left out
/// cannot be seen in the message.
pub(super) struct Settings<'a> {
    /// The settings.
    pub(super) job: RayJob,
    custom: &'a Struct,
}

impl<'a> Settings<'a> {
    /// The settings in the template's `custom`.
    pub(super) fn read(task: &'a TaskContext) -> Result<Self, PluginError> {
        let Some(custom) = &task.template.custom else {
            return Err(PluginError::bad_task_specification(
                "invalid TaskSpecification [<nil>], Err: [nil Struct Object passed]",
            ));
        };
        let job = message_from_struct(custom).map_err(|error| {
            PluginError::bad_task_specification(format!("invalid TaskSpecification, Err: [{error}]"))
        })?;
        Ok(Self { job, custom })
    }

    /// The cluster that the job runs on.
    ///
    /// # Differs from upstream
    /// A task without one is a bad task. Upstream crashes.
    pub(super) fn cluster(&self) -> Result<&RayCluster, PluginError> {
        self.job.ray_cluster.as_ref().ok_or_else(|| {
            PluginError::bad_task_specification(
                "invalid TaskSpecification, custom.ray_cluster is missing; describe the cluster that the job runs on",
            )
        })
    }

    /// Parameters of the head node, if the task gives any; it may also give none on purpose.
    pub(super) fn head_start_params(&self) -> Option<&BTreeMap<String, String>> {
        let raw = self.raw_cluster().and_then(|cluster| member(cluster, "head_group_spec", "headGroupSpec"));
        let group = self.job.ray_cluster.as_ref()?.head_group_spec.as_ref()?;
        given(raw, &group.ray_start_params)
    }

    /// Parameters of a group of workers, if the task gives any.
    pub(super) fn worker_start_params(&self, index: usize) -> Option<&BTreeMap<String, String>> {
        let groups = self.raw_cluster().and_then(|cluster| member(cluster, "worker_group_spec", "workerGroupSpec"));
        let raw = match groups.and_then(|groups| groups.kind.as_ref()) {
            Some(Kind::ListValue(list)) => list.values.get(index),
            _ => None,
        };
        let group = self.job.ray_cluster.as_ref()?.worker_group_spec.get(index)?;
        given(raw, &group.ray_start_params)
    }

    fn raw_cluster(&self) -> Option<&Value> {
        self.custom.fields.get("ray_cluster").or_else(|| self.custom.fields.get("rayCluster"))
    }
}

fn given<'p>(group: Option<&Value>, params: &'p BTreeMap<String, String>) -> Option<&'p BTreeMap<String, String>> {
    let raw = group.and_then(|group| member(group, "ray_start_params", "rayStartParams"));
    let empty_on_purpose = raw.is_some_and(|raw| matches!(raw.kind, Some(Kind::StructValue(_))));
    (empty_on_purpose || !params.is_empty()).then_some(params)
}

/// A member by either of its names.
fn member<'v>(value: &'v Value, proto_name: &str, json_name: &str) -> Option<&'v Value> {
    let Some(Kind::StructValue(members)) = &value.kind else { return None };
    members.fields.get(proto_name).or_else(|| members.fields.get(json_name))
}
