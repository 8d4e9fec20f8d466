//! The environment variables of a container.
//!
//! Of two variables with the same name Kubernetes uses the later one. The order is: variables of the template,
//! variables that identify the execution, variables of the execution, variables of the platform.

use std::collections::BTreeMap;

use aileron_idl::flyteidl2::core::KeyValuePair;
use k8s_openapi::api::core::v1::{
    ConfigMapEnvSource, Container, EnvFromSource, EnvVar, EnvVarSource, ObjectFieldSelector, SecretEnvSource,
};

use super::fields::extend;
use crate::config::K8sConfig;
use crate::{TaskContext, TaskExecutionId};

/// The configuration key of a template that has links to other systems. Such tasks get the address of the console.
const LINK_TYPE_KEY: &str = "link_type";

/// Variables of a template. Mirrors `flytek8s.ToK8sEnvVar`.
///
/// ```
/// use aileron_machinery::idl::flyteidl2::core::KeyValuePair;
/// use aileron_machinery::pod::environment::from_proto;
///
/// let pairs = [KeyValuePair { key: "LOG_LEVEL".into(), value: "debug".into() }];
/// assert_eq!(from_proto(&pairs)[0].value.as_deref(), Some("debug"));
/// ```
pub fn from_proto(pairs: &[KeyValuePair]) -> Vec<EnvVar> {
    pairs.iter().map(|pair| variable(&pair.key, &pair.value)).collect()
}

/// Adds all variables of the execution and the platform to a container. Mirrors `flytek8s.DecorateEnvVars`.
pub(super) fn decorate(container: &mut Container, task: &TaskContext) {
    let config = &task.platform.k8s;
    let metadata = &task.metadata;
    let console_url = if task.template.config.contains_key(LINK_TYPE_KEY) { metadata.console_url.as_str() } else { "" };

    let env = &mut container.env;
    extend(env, execution_variables(&metadata.id, console_url));
    extend(env, metadata.env_vars.iter().map(|(name, value)| variable(name, value)));
    extend(env, config.default_env_vars.iter().map(|(name, value)| variable(name, value)));
    extend(env, from_executor(config, &task.platform.environment));
    extend(&mut container.env_from, sources(config));
}

/// Variables that identify the execution and the task. Mirrors `flytek8s.GetExecutionEnvVars`.
fn execution_variables(id: &TaskExecutionId, console_url: &str) -> Vec<EnvVar> {
    if id.run.is_empty() && id.project.is_empty() && id.domain.is_empty() {
        return Vec::new();
    }
    let mut env = vec![
        variable("FLYTE_INTERNAL_EXECUTION_ID", &id.run),
        variable("FLYTE_INTERNAL_EXECUTION_PROJECT", &id.project),
        variable("FLYTE_INTERNAL_EXECUTION_DOMAIN", &id.domain),
        pod_name("_F_PN"),
        variable("FLYTE_ATTEMPT_NUMBER", id.retry_attempt.to_string()),
    ];
    if !console_url.is_empty() {
        let url = format!(
            "{}/projects/{}/domains/{}/executions/{}/nodeId/{}/nodes",
            console_url.trim_end_matches('/'),
            id.project,
            id.domain,
            id.run,
            id.unique_node_id
        );
        env.push(variable("FLYTE_EXECUTION_URL", url));
    }
    if let Some(task) = &id.task {
        // Older SDKs read the names without TASK.
        for prefix in ["FLYTE_INTERNAL_TASK_", "FLYTE_INTERNAL_"] {
            let parts = [
                ("PROJECT", &task.project),
                ("DOMAIN", &task.domain),
                ("NAME", &task.name),
                ("VERSION", &task.version),
            ];
            env.extend(parts.map(|(part, value)| variable([prefix, part].concat(), value.clone())));
        }
    }
    env
}

/// Variables whose values are those of other variables in the executor's own environment; empty if those do not exist.
fn from_executor<'a>(
    config: &'a K8sConfig,
    environment: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = EnvVar> + 'a {
    config
        .default_env_vars_from_env
        .iter()
        .map(|(name, source)| variable(name, environment.get(source).map_or("", String::as_str)))
}

/// Secrets and ConfigMaps whose entries become variables. The container also starts if one of them is missing.
fn sources(config: &K8sConfig) -> impl Iterator<Item = EnvFromSource> + '_ {
    let secrets = config.default_env_from_secrets.iter().map(|name| EnvFromSource {
        secret_ref: Some(SecretEnvSource { name: name.clone(), optional: Some(true) }),
        ..Default::default()
    });
    let config_maps = config.default_env_from_config_maps.iter().map(|name| EnvFromSource {
        config_map_ref: Some(ConfigMapEnvSource { name: name.clone(), optional: Some(true) }),
        ..Default::default()
    });
    secrets.chain(config_maps)
}

fn variable(name: impl Into<String>, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), value_from: None }
}

fn pod_name(name: &str) -> EnvVar {
    let field = ObjectFieldSelector { field_path: "metadata.name".to_owned(), api_version: None };
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource { field_ref: Some(field), ..Default::default() }),
    }
}
