//! The metadata of an attempt that plugins get, computed from the action and the settings.

use std::collections::BTreeMap;

use aileron_idl::flyteidl2::core::{SecurityContext, TaskTemplate, task_template::Target};
use aileron_kubekit::names::to_label_value;
use aileron_machinery::output_path::{OutputPathError, action_output_prefix};
use aileron_machinery::pod::resources::from_proto;
use aileron_machinery::secret_annotations::{SecretAnnotationError, secret_annotations};
use aileron_machinery::{Overrides, TaskExecutionId, TaskMetadata, TaskPaths};
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::{Action, TaskActionSpec, TaskActionStatus};

/// The label of every object that is created for a task, and of every pod that an operator creates for it. Watches select
/// by it.
pub const MANAGED_LABEL: (&str, &str) = ("flyte.org/managed", "true");
/// The label with the number of the attempt, from 1. It distinguishes the objects of one attempt from those of another.
pub const ATTEMPT_LABEL: &str = "attempt";

/// The label that asks the pod webhook to inject secrets.
const SECRETS_LABEL: (&str, &str) = ("inject-flyte-secrets", "true");
/// Flyte 2 has no organisations, but secrets are looked up by one. Every part of the platform uses this name.
const ORGANIZATION_LABEL: (&str, &str) = ("organization", "flyte");
/// The SDK requires a non-empty organisation in its environment.
const ORGANIZATION_ENV: &str = "local";
/// The template is part of the action, so there is no file that this path could name.
const INLINE_TEMPLATE: &str = "inline://taskTemplate";
/// Some clients put the inputs file into `spec.inputUri`, others its folder. This suffix is what differs.
const INPUTS_FILE: &str = "/inputs.pb";

/// What the metadata of an attempt depends on besides the action.
#[derive(Clone, Debug, Default)]
pub struct MetadataSettings {
    /// `executor.defaultK8sServiceAccount`.
    pub default_service_account: String,
    /// `executor.maxSystemFailures`: after so many failures of the platform the next one ends the action; 0 if unknown.
    pub max_system_failures: u32,
    /// `tasks.resource-limits`: the bounds of what containers request and use.
    pub platform_resources: ResourceRequirements,
}

/// The action cannot be turned into a task.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// `spec.runOutputBase` is not a location.
    #[error(transparent)]
    OutputPath(#[from] OutputPathError),
    /// A secret of the task cannot be written as an annotation.
    #[error(transparent)]
    Secrets(#[from] SecretAnnotationError),
}

/// The metadata of an attempt that plugins get. The template is not part of it.
pub fn task_metadata(action: &Action, settings: &MetadataSettings) -> Result<TaskMetadata, MetadataError> {
    let spec = &action.object.spec;
    let status = action.object.status.as_ref();
    let template = action.template.get();
    let retry_attempt = status.map_or(0, |status| status.attempts.saturating_sub(1));
    let max_attempts = template.map_or(1, |template| max_attempts(template));
    let generated_name = format!("{}-{retry_attempt}", action.name());
    let security_context = template.and_then(|template| template.security_context.clone());
    let secrets = security_context.as_ref().map(|context| context.secrets.as_slice()).unwrap_or_default();

    let mut labels = action.object.metadata.labels.clone().unwrap_or_default();
    let mut annotations = action.object.metadata.annotations.clone().unwrap_or_default();
    labels.extend(own([ORGANIZATION_LABEL, ("project", &spec.project), ("domain", &spec.domain), MANAGED_LABEL]));
    if !secrets.is_empty() {
        annotations.extend(secret_annotations(secrets)?);
        labels.extend(own([SECRETS_LABEL]));
    }
    let task = template.and_then(|template| template.id.clone());
    let described = [
        ("run", spec.run_name.as_str()),
        ("action", spec.action_name.as_str()),
        ("task-name", task.as_ref().map(|id| id.name.as_str()).unwrap_or_default()),
    ];
    for (key, value) in described {
        let value = to_label_value(value);
        if !value.is_empty() {
            labels.insert(key.into(), value);
        }
    }
    labels.insert(ATTEMPT_LABEL.into(), (u64::from(retry_attempt) + 1).to_string());

    Ok(TaskMetadata {
        id: TaskExecutionId {
            project: spec.project.clone(),
            domain: spec.domain.clone(),
            run: spec.run_name.clone(),
            action: spec.action_name.clone(),
            retry_attempt,
            task,
            unique_node_id: generated_name.clone(),
            generated_name,
        },
        namespace: action.namespace().into(),
        owner: OwnerReference {
            api_version: "flyte.org/v1".into(),
            kind: "TaskAction".into(),
            name: action.name().into(),
            uid: action.uid().into(),
            controller: Some(true),
            block_owner_deletion: None,
        },
        labels,
        annotations,
        env_vars: env_vars(action),
        interruptible: spec.interruptible.unwrap_or(false) && !is_last_chance(status, max_attempts, settings),
        max_attempts,
        service_account: service_account(security_context.as_ref(), settings),
        security_context,
        console_url: String::new(),
        overrides: template.map(|template| overrides(template)).unwrap_or_default(),
        platform_resources: settings.platform_resources.clone(),
    })
}

/// The labels `run` and `action` of an action's objects, which [`task_metadata`] sets; none if it names no run or no
/// action.
pub fn run_and_action_labels(spec: &TaskActionSpec) -> Option<(String, String)> {
    let labels = (to_label_value(&spec.run_name), to_label_value(&spec.action_name));
    (!labels.0.is_empty() && !labels.1.is_empty()).then_some(labels)
}

/// The paths of the attempt's inputs and outputs.
pub fn task_paths(action: &Action) -> Result<TaskPaths, MetadataError> {
    let attempts = action.object.status.as_ref().map_or(0, |status| status.attempts);
    let attempt = attempts.max(1);
    let this = output_prefix(action, attempt)?;
    let prev_checkpoint_prefix = if attempts >= 2 {
        let previous = output_prefix(action, attempt - 1)?;
        TaskPaths { raw_output_prefix: previous, ..TaskPaths::default() }.checkpoint_prefix()
    } else {
        String::new()
    };
    let input = &action.object.spec.input_uri;
    Ok(TaskPaths {
        input_prefix: input.strip_suffix(INPUTS_FILE).unwrap_or(input).into(),
        raw_output_prefix: this.clone(),
        output_prefix: this,
        prev_checkpoint_prefix,
        task_template_path: INLINE_TEMPLATE.into(),
    })
}

/// The folder for outputs of one attempt. The control plane computes the same for its own use.
pub fn output_prefix(action: &Action, attempt: u32) -> Result<String, MetadataError> {
    let spec = &action.object.spec;
    Ok(action_output_prefix(action.namespace(), action.name(), &spec.run_output_base, &spec.action_name, attempt)?)
}

fn env_vars(action: &Action) -> BTreeMap<String, String> {
    let spec = &action.object.spec;
    let mut env_vars = spec.env_vars.clone();
    env_vars.extend(own([
        ("ACTION_NAME", &spec.action_name),
        ("RUN_NAME", &spec.run_name),
        ("_U_RUN_BASE", &spec.run_output_base),
        ("_U_ORG_NAME", ORGANIZATION_ENV),
    ]));
    env_vars
}

/// Whether one more failure ends the action.
///
/// # Differs from upstream
///
/// The last try of an interruptible task does not run on an interruptible node, because nothing would follow its
/// interruption. Upstream takes that risk. A task with a single attempt runs where its author wants it.
fn is_last_chance(status: Option<&TaskActionStatus>, max_attempts: u32, settings: &MetadataSettings) -> bool {
    let Some(status) = status else { return false };
    let last_attempt = max_attempts > 1 && status.attempts >= max_attempts;
    let last_relaunch = settings.max_system_failures > 0 && status.system_failures >= settings.max_system_failures;
    last_attempt || last_relaunch
}

/// How many attempts a task has: its retries, and the first one.
pub fn max_attempts(template: &TaskTemplate) -> u32 {
    let retries = template.metadata.as_ref().and_then(|metadata| metadata.retries.as_ref());
    retries.map_or(1, |retries| retries.retries.saturating_add(1))
}

fn service_account(context: Option<&SecurityContext>, settings: &MetadataSettings) -> String {
    context
        .and_then(|context| context.run_as.as_ref())
        .map(|identity| identity.k8s_service_account.clone())
        .filter(|account| !account.is_empty())
        .unwrap_or_else(|| settings.default_service_account.clone())
}

/// The resources of the task's container. Resources that cannot be read are reported when the pod is built.
fn overrides(template: &TaskTemplate) -> Overrides {
    let Some(Target::Container(container)) = &template.target else { return Overrides::default() };
    Overrides { resources: from_proto(container.resources.as_ref()).ok(), ..Overrides::default() }
}

fn own<const N: usize>(pairs: [(&str, &str); N]) -> impl Iterator<Item = (String, String)> {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_try_of_several_is_not_interruptible() {
        let settings = MetadataSettings { max_system_failures: 3, ..MetadataSettings::default() };
        let is_last = |attempts: u32, system_failures: u32, max_attempts: u32| {
            let status = TaskActionStatus { attempts, system_failures, ..TaskActionStatus::default() };
            is_last_chance(Some(&status), max_attempts, &settings)
        };
        assert!(!is_last(1, 0, 3) && !is_last(2, 0, 3) && is_last(3, 0, 3));
        assert!(!is_last(1, 2, 3) && is_last(1, 3, 3), "the budget for failures of the platform is used up");
        assert!(!is_last(1, 0, 1) && is_last(1, 3, 1), "a single attempt is not the last of several");
        assert!(!is_last_chance(None, 3, &settings));
    }
}
