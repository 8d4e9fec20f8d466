//! Converts the configuration to the settings types of this crate.

use std::collections::BTreeMap;
use std::sync::Arc;

use aileron_config::Config;
use aileron_kubekit::quantity::Quantity;
use aileron_machinery::CopilotStorage;
use aileron_machinery::Platform;
use aileron_machinery::pod::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, ResourceList};
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;

use crate::metadata::MetadataSettings;
use crate::plugin_choice::RegistryRules;

/// The settings for task metadata.
pub fn metadata_settings(config: &Config) -> MetadataSettings {
    MetadataSettings {
        default_service_account: config.executor.default_k8s_service_account.clone(),
        max_system_failures: u32::try_from(config.executor.max_system_failures).unwrap_or_default(),
        platform_resources: platform_resources(config),
    }
}

/// The bounds of `tasks.resource-limits` by the names of resources in Kubernetes. A bound of zero is none.
fn platform_resources(config: &Config) -> ResourceRequirements {
    let bounds = &config.tasks.resource_limits;
    let k8s = &config.plugins.k8s;
    let classes = k8s.accelerator_device_classes.values().map(|class| &class.resource_name);
    let accelerators = classes.chain([&k8s.gpu_resource_name]).filter(|name| !name.is_empty());
    let own = [(CPU, &bounds.cpu), (MEMORY, &bounds.memory), (EPHEMERAL_STORAGE, &bounds.ephemeral_storage)];
    let all = own.into_iter().chain(accelerators.map(|name| (name.as_str(), &bounds.gpu)));
    let limits: ResourceList = all
        .filter(|(_, bound): &(&str, &Quantity)| !bound.is_zero())
        .map(|(name, bound)| (name.to_owned(), QuantityText(bound.to_string())))
        .collect();
    ResourceRequirements { limits: (!limits.is_empty()).then_some(limits), ..ResourceRequirements::default() }
}

/// The rules for choosing plugins.
pub fn registry_rules(config: &Config) -> RegistryRules {
    let rules = &config.tasks.task_plugins;
    RegistryRules {
        enabled: rules.enabled_plugins.clone(),
        default_for_task_types: rules.default_for_task_types.clone(),
        rules_for: rules.overrides.clone(),
        unknown_task_types: rules.unknown_task_types,
        pooled: config.tasks.pools.iter().map(|(name, pool)| (name.clone(), pool.task_types.clone())).collect(),
    }
}

/// The settings that all tasks share, from configuration and environment. Pod templates are not set here.
pub fn configured_platform(config: &Config, environment: BTreeMap<String, String>) -> Platform {
    Platform {
        k8s: Arc::new(config.plugins.k8s.clone()),
        logs: Arc::new(config.plugins.logs.clone()),
        copilot_storage: Arc::new(CopilotStorage::new(&config.storage, config.logger.level)),
        environment: Arc::new(environment),
        ..Platform::default()
    }
}

#[cfg(test)]
mod tests {
    use aileron_kubekit::quantity::Format;

    use super::*;

    fn bounds(change: impl FnOnce(&mut Config)) -> Vec<String> {
        let mut config = Config::default();
        change(&mut config);
        let limits = metadata_settings(&config).platform_resources.limits.unwrap_or_default();
        limits.iter().map(|(name, bound)| format!("{name}={}", bound.0)).collect()
    }

    #[test]
    fn a_bound_for_accelerators_applies_to_every_kind() {
        assert_eq!(bounds(|_| {}), [""; 0], "there are no bounds by default");
        let found = bounds(|config| {
            config.tasks.resource_limits.gpu = Quantity::new(2, Format::DecimalSi);
            config.tasks.resource_limits.cpu = Quantity::new(8, Format::DecimalSi);
        });
        for expected in ["cpu=8", "nvidia.com/gpu=2", "amd.com/gpu=2", "google.com/tpu=2"] {
            assert!(found.iter().any(|bound| bound == expected), "{expected}: {found:?}");
        }
        assert!(!found.iter().any(|bound| bound.starts_with("memory")), "{found:?}");
    }
}
