//! Converts the configuration to the settings types of this crate.

use std::collections::BTreeMap;
use std::sync::Arc;

use aileron_config::Config;
use aileron_machinery::CopilotStorage;
use aileron_machinery::Platform;

use crate::metadata::MetadataSettings;
use crate::plugin_choice::RegistryRules;

/// The settings for task metadata.
pub fn metadata_settings(config: &Config) -> MetadataSettings {
    MetadataSettings {
        default_service_account: config.executor.default_k8s_service_account.clone(),
        max_system_failures: u32::try_from(config.executor.max_system_failures).unwrap_or_default(),
    }
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
