//! The task context that a plugin gets, from the JSON description in a case.

use std::sync::Arc;

use aileron_idl::flyteidl2::core::{
    K8sPod, LiteralMap, SecurityContext, TaskExecutionIdentifier, TaskTemplate, task_template::Target,
};
use aileron_machinery::pod::resources::from_proto;
use aileron_machinery::{Overrides, TaskContext, TaskExecutionId, TaskMetadata, TaskPaths};
use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceRequirements;
use prost::Message as _;
use serde::Deserialize;
use serde_json::Value;

use super::case::Case;
use super::installation::Installation;
use super::messages::{bytes, message, optional_message};

/// The `context` of a case. Protobuf messages stay JSON here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Description {
    namespace: String,
    generated_name: String,
    unique_node_id: String,
    task_execution_id: Value,
    owner_reference: k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference,
    labels: std::collections::BTreeMap<String, String>,
    annotations: std::collections::BTreeMap<String, String>,
    env_vars: std::collections::BTreeMap<String, String>,
    interruptible: bool,
    max_attempts: u32,
    service_account: String,
    security_context: Value,
    console_url: String,
    overrides: OverridesDescription,
    platform_resources: Option<ResourceRequirements>,
    input_prefix: String,
    output_prefix: String,
    raw_output_prefix: String,
    prev_checkpoint_prefix: String,
    task_template_path: String,
    inputs: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OverridesDescription {
    resources: Value,
    extended_resources: Value,
    container_image: Option<String>,
    pod_template: Value,
}

/// A task and its inputs, separate until it is known whether the plugin needs the inputs.
pub struct Described {
    /// The task, without inputs.
    pub task: TaskContext,
    /// The inputs, if the inputs file exists.
    pub inputs: Option<Arc<LiteralMap>>,
}

impl Described {
    /// The task with its inputs, whether or not the plugin needs them.
    pub fn with_inputs(self) -> TaskContext {
        let mut task = self.task;
        task.inputs = self.inputs;
        task
    }
}

/// The template of a case, from its bytes or, without bytes, from its JSON.
pub fn template(bytes_or_none: &Value, json: &Value) -> anyhow::Result<TaskTemplate> {
    match bytes_or_none {
        Value::Null => message(json).context("taskTemplateJson"),
        encoded => TaskTemplate::decode(bytes(encoded)?.as_slice()).context("taskTemplate"),
    }
}

/// The context of a case that has `context` beside its template.
pub fn of_case(case: &Case, installation: &Installation) -> anyhow::Result<Described> {
    let template = template(case.input("taskTemplate"), case.input("taskTemplateJson"))?;
    describe(case.input("context"), template, installation, case.now)
}

/// The context of a function case, which is among its arguments.
pub fn of_arguments(case: &Case, installation: &Installation) -> anyhow::Result<Described> {
    let template = template(case.arg("taskTemplate"), case.arg("taskTemplateJson"))?;
    describe(case.arg("context"), template, installation, case.now)
}

fn describe(
    context: &Value,
    template: TaskTemplate,
    installation: &Installation,
    now: Timestamp,
) -> anyhow::Result<Described> {
    let description: Description = serde_json::from_value(context.clone()).context("context")?;
    let inputs: Option<LiteralMap> = optional_message(&description.inputs).context("context.inputs")?;
    let paths = TaskPaths {
        input_prefix: description.input_prefix.clone(),
        output_prefix: description.output_prefix.clone(),
        raw_output_prefix: description.raw_output_prefix.clone(),
        prev_checkpoint_prefix: description.prev_checkpoint_prefix.clone(),
        task_template_path: description.task_template_path.clone(),
    };
    let metadata = metadata(description, &template)?;
    let mut task = TaskContext::new(template, metadata, paths, installation.platform(context)?, now);
    task.definition = installation.definition();
    Ok(Described { task, inputs: inputs.map(Arc::new) })
}

fn metadata(description: Description, template: &TaskTemplate) -> anyhow::Result<TaskMetadata> {
    let security_context: Option<SecurityContext> =
        optional_message(&description.security_context).context("context.securityContext")?;
    Ok(TaskMetadata {
        id: execution_id(&description)?,
        overrides: overrides(description.overrides, template)?,
        namespace: description.namespace,
        owner: description.owner_reference,
        labels: description.labels,
        annotations: description.annotations,
        env_vars: description.env_vars,
        interruptible: description.interruptible,
        max_attempts: description.max_attempts,
        service_account: description.service_account,
        security_context,
        console_url: description.console_url,
        platform_resources: description.platform_resources.unwrap_or_default(),
    })
}

fn execution_id(description: &Description) -> anyhow::Result<TaskExecutionId> {
    let id: TaskExecutionIdentifier = message(&description.task_execution_id).context("context.taskExecutionId")?;
    let node = id.node_execution_id.unwrap_or_default();
    let run = node.execution_id.unwrap_or_default();
    Ok(TaskExecutionId {
        project: run.project,
        domain: run.domain,
        run: run.name,
        action: node.node_id,
        retry_attempt: id.retry_attempt,
        task: id.task_id,
        generated_name: description.generated_name.clone(),
        unique_node_id: description.unique_node_id.clone(),
    })
}

fn overrides(description: OverridesDescription, template: &TaskTemplate) -> anyhow::Result<Overrides> {
    let resources = match (&description.resources, &template.target) {
        (Value::Null, _) => None,
        // In function cases a string means the default rule: the container's own resources.
        (Value::String(_), Some(Target::Container(container))) => from_proto(container.resources.as_ref()).ok(),
        (Value::String(_), _) => None,
        (given, _) => Some(serde_json::from_value(given.clone()).context("context.overrides.resources")?),
    };
    let pod_template: Option<K8sPod> =
        optional_message(&description.pod_template).context("context.overrides.podTemplate")?;
    Ok(Overrides {
        resources,
        extended_resources: optional_message(&description.extended_resources)
            .context("context.overrides.extendedResources")?,
        container_image: description.container_image.filter(|image| !image.is_empty()),
        pod_template,
    })
}
