//! Translates the configuration into the settings of each part of the executor.

use std::collections::BTreeMap;

use aileron_action::settings::metadata_settings;
use aileron_admission::backoff::BackoffSettings;
use aileron_admission::gate::GateSettings;
use aileron_admission::pools::Pool;
use aileron_admission::pools::limits::Limits;
use aileron_config::Config;
use aileron_config::sections::pools::PoolConfig;
use aileron_machinery::config::StorageConfig;
use jiff::SignedDuration;

use crate::reconcile::Settings;
use crate::storage::{Backend, SchemeSettings, StorageError, StorageSettings};

pub(super) fn settings(config: &Config) -> Settings {
    let executor = &config.executor;
    Settings {
        max_system_failures: u32::try_from(executor.max_system_failures).unwrap_or_default(),
        requeue: SignedDuration::from_nanos(executor.requeue_duration.as_nanos()),
        missing_kind_timeout: SignedDuration::from_nanos(executor.missing_kind_timeout.as_nanos()),
        metadata: metadata_settings(config),
    }
}

pub(super) fn gate_settings(config: &Config) -> GateSettings {
    let backoff = &config.tasks.backoff;
    let gate = &config.tasks.launch_gate;
    GateSettings {
        backoff: BackoffSettings {
            base_seconds: u32::try_from(backoff.base_second).unwrap_or_default(),
            max_duration: backoff.max_duration.to_std().unwrap_or_default(),
        },
        hold_after: gate.hold_after.to_std().unwrap_or_default(),
        hold_for: gate.hold_for.to_std().unwrap_or_default(),
        settle: gate.settle.to_std().unwrap_or_default(),
    }
}

/// The pools of the configuration. A cap of 0 means that there is none.
pub(super) fn token_pools(config: &Config) -> BTreeMap<String, Pool> {
    let cap = |cap: u32| (cap > 0).then_some(cap);
    let pool = |pool: &PoolConfig| Pool {
        limits: Limits { total: pool.quota, per_project: cap(pool.project_cap), per_domain: cap(pool.domain_cap) },
        task_types: pool.task_types.iter().cloned().collect(),
    };
    config.tasks.pools.iter().map(|(name, config)| (name.clone(), pool(config))).collect()
}

/// Translates the storage section into the settings of the storage layer.
pub fn storage_settings(config: &StorageConfig) -> Result<StorageSettings, StorageError> {
    let unknown = |subject: &str, kind: &str| StorageError::Settings {
        subject: subject.to_owned(),
        detail: format!("{kind:?} is not a kind of storage this executor has; use s3, google, azure, local or mem"),
    };
    let backend = Backend::from_config(&config.kind, &config.stow.kind)
        .ok_or_else(|| unknown("storage.type", if config.kind == "stow" { &config.stow.kind } else { &config.kind }))?;
    let mut schemes = BTreeMap::new();
    for (scheme, settings) in &config.schemes {
        let backend = match settings.kind.as_str() {
            "" => None,
            kind => Some(Backend::from_config("stow", kind).ok_or_else(|| unknown(scheme, kind))?),
        };
        schemes.insert(scheme.to_ascii_lowercase(), SchemeSettings { backend, config: settings.config.clone() });
    }
    Ok(StorageSettings {
        backend,
        container: config.container.clone(),
        config: config.stow.config.clone(),
        multi_container: config.enable_multicontainer,
        schemes,
        allowed_prefixes: config.allowed_prefixes.clone(),
        max_download_mb: u64::try_from(config.limits.max_download_mbs).unwrap_or_default(),
        timeout: config.default_http_client.timeout.to_std().unwrap_or_default(),
    })
}
