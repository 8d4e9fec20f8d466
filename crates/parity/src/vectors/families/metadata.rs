//! The metadata of an action that plugins get.

use aileron_action::metadata::{MetadataSettings, task_metadata, task_paths};
use aileron_action::{Action, TaskAction};
use aileron_idl::flyteidl2::core::{NodeExecutionIdentifier, TaskExecutionIdentifier, WorkflowExecutionIdentifier};
use aileron_machinery::{PluginError, TaskExecutionId, TaskMetadata, TaskPaths};
use serde_json::{Value, json};

use super::{Case, plugin_failure};
use crate::vectors::installation::Installation;
use crate::vectors::messages::message_json;

/// A length limit below that of most names, so that names are shortened.
const SHORT: usize = 20;

pub(super) fn produce(case: &Case) -> anyhow::Result<Value> {
    let object: TaskAction = serde_json::from_value(case.input("taskAction").clone())?;
    let action = Action::new(object, None);
    let executor = Installation::of(case)?.config.executor;
    let settings = MetadataSettings {
        default_service_account: executor.default_k8s_service_account,
        ..MetadataSettings::default()
    };
    let derived = task_metadata(&action, &settings).and_then(|metadata| Ok((metadata, task_paths(&action)?)));
    match derived {
        Ok((metadata, paths)) => describe(&metadata, &paths),
        Err(error) => Ok(plugin_failure(&PluginError::uncoded(error.to_string()))),
    }
}

fn describe(metadata: &TaskMetadata, paths: &TaskPaths) -> anyhow::Result<Value> {
    let shortened = match metadata.id.generated_name_within(SHORT) {
        Ok(name) => json!({"error": false, "value": name}),
        Err(_) => json!({"error": true}),
    };
    Ok(json!({
        "annotations": metadata.annotations,
        "consoleUrl": metadata.console_url,
        "envVars": metadata.env_vars,
        "generatedName": metadata.id.generated_name,
        "generatedNameMax20": shortened,
        "interruptible": metadata.interruptible,
        "labels": metadata.labels,
        "maxAttempts": metadata.max_attempts,
        "namespace": metadata.namespace,
        "overrideResources": metadata.overrides.resources,
        "ownerId": format!("{}/{}", metadata.namespace, metadata.owner.name),
        "ownerReference": metadata.owner,
        "paths": {
            "checkpointPrefix": paths.checkpoint_prefix(),
            "deckPath": paths.deck_path(),
            "errorPath": paths.error_path(),
            "inputPath": paths.input_path(),
            "inputPrefix": paths.input_prefix,
            "outputPath": paths.output_path(),
            "outputPrefix": paths.output_prefix,
            "prevCheckpointPrefix": paths.prev_checkpoint_prefix,
            "rawOutputPrefix": paths.raw_output_prefix,
        },
        "platformResources": metadata.platform_resources,
        "securityContext": metadata.security_context.as_ref().map(message_json).transpose()?,
        "serviceAccount": metadata.service_account,
        "taskExecutionId": message_json(&identifier(&metadata.id))?,
        "taskTemplatePath": paths.task_template_path,
        "uniqueNodeId": metadata.id.unique_node_id,
    }))
}

fn identifier(id: &TaskExecutionId) -> TaskExecutionIdentifier {
    TaskExecutionIdentifier {
        task_id: id.task.clone(),
        node_execution_id: Some(NodeExecutionIdentifier {
            node_id: id.action.clone(),
            execution_id: Some(WorkflowExecutionIdentifier {
                project: id.project.clone(),
                domain: id.domain.clone(),
                name: id.run.clone(),
                ..Default::default()
            }),
        }),
        retry_attempt: id.retry_attempt,
    }
}
