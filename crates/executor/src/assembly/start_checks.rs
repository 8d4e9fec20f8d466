//! The checks of a configuration that the start of the executor makes and that need no cluster: addresses, services, storage
//! and certificates. `aileron config check` makes them, too.

use aileron_config::Config;
use aileron_machinery::config::StorageConfig;

use super::settings::storage_settings;
use crate::serve;
use crate::services::connect::{ConnectClient, ConnectOptions};
use crate::storage::{Backend, ObjectStores, StorageError};

/// A setting with which the executor cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableSetting {
    /// The path of the key, one part for each key.
    pub path: Vec<String>,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl UnusableSetting {
    fn new(path: &[&str], message: impl Into<String>) -> Self {
        Self { path: path.iter().map(ToString::to_string).collect(), message: message.into() }
    }
}

/// All settings with which the executor cannot start. No request is sent and no socket is opened, but files that the
/// configuration names, such as certificates, are read.
#[must_use]
pub fn unusable_settings(config: &Config) -> Vec<UnusableSetting> {
    let executor = &config.executor;
    let mut found: Vec<_> = serve::unusable_settings(executor)
        .into_iter()
        .map(|(key, message)| UnusableSetting::new(&["executor", key], message))
        .collect();
    for (key, url) in
        [("EventsServiceURL", &executor.events_service_url), ("cacheServiceURL", &executor.cache_service_url)]
    {
        if let Err(error) = ConnectClient::new(url, ConnectOptions::default()) {
            found.push(UnusableSetting::new(&["executor", key], error.to_string()));
        }
    }
    found.extend(unusable_storage(&config.storage));
    found
}

/// What is wrong with the storage section.
fn unusable_storage(config: &StorageConfig) -> Vec<UnusableSetting> {
    let mut found = Vec::new();
    let backend = Backend::from_config(&config.kind, &config.stow.kind);
    if backend.is_none() {
        let (path, kind, known) = if config.kind == "stow" {
            (["storage", "stow", "kind"].as_slice(), &config.stow.kind, "s3, google, azure or local")
        } else {
            (["storage", "type"].as_slice(), &config.kind, "stow, s3, minio, local or mem")
        };
        found.push(UnusableSetting::new(path, format!("this executor has no storage {kind:?}; use {known}")));
    }
    for (scheme, settings) in &config.schemes {
        if !settings.kind.is_empty() && Backend::from_config("stow", &settings.kind).is_none() {
            let message = format!("this executor has no storage {:?}; use s3, google, azure or local", settings.kind);
            found.push(UnusableSetting::new(&["storage", "schemes", scheme, "kind"], message));
        }
    }
    if config.container.is_empty() && backend != Some(Backend::Memory) {
        let message = "is not set; name the bucket or container with the inputs and outputs of tasks, also with \
                       enable-multicontainer";
        found.push(UnusableSetting::new(&["storage", "container"], message));
    }
    for (index, prefix) in config.allowed_prefixes.iter().enumerate() {
        let one = StorageConfig { allowed_prefixes: vec![prefix.clone()], ..usable_storage() };
        if let Err(detail) = opened(&one) {
            found.push(UnusableSetting::new(&["storage", "allowed-prefixes", &index.to_string()], detail));
        }
    }
    // The rest depends on these settings.
    if found.is_empty()
        && let Err(detail) = opened(config)
    {
        found.push(UnusableSetting::new(&["storage", "stow", "config"], detail));
    }
    found
}

/// A store that needs no settings.
fn usable_storage() -> StorageConfig {
    StorageConfig { kind: "mem".to_owned(), ..StorageConfig::standard() }
}

fn opened(config: &StorageConfig) -> Result<(), String> {
    let detail = |error: StorageError| match error {
        StorageError::Settings { detail, .. } => detail,
        other => other.to_string(),
    };
    ObjectStores::new(storage_settings(config).map_err(detail)?).map(drop).map_err(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(change: impl FnOnce(&mut Config)) -> Vec<(String, String)> {
        let mut config = Config::default();
        config.storage.kind = "mem".into();
        change(&mut config);
        unusable_settings(&config).into_iter().map(|setting| (setting.path.join("."), setting.message)).collect()
    }

    fn assert_only(found: &[(String, String)], key: &str, words: &str) {
        assert!(found.len() == 1 && found[0].0 == key && found[0].1.contains(words), "{key}: {found:?}");
    }

    #[test]
    fn settings_that_can_be_used_are_not_found() {
        assert_eq!(found(|_| {}), []);
        let s3 = |config: &mut Config| {
            config.storage.kind = "stow".into();
            config.storage.container = "bucket".into();
            config.storage.stow.config.insert("auth_type".into(), "iam".into());
            config.storage.allowed_prefixes = vec!["s3://shared/models".into()];
        };
        assert_eq!(found(s3), []);
    }

    #[test]
    fn the_defaults_lack_a_container() {
        let defaults = unusable_settings(&Config::default());
        assert_eq!(defaults.len(), 1, "{defaults:?}");
        assert_eq!(defaults[0].path, ["storage", "container"]);
    }

    #[test]
    fn addresses_and_urls_are_checked() {
        let probes = found(|config| config.executor.health_probe_bind_address = ":http".into());
        assert_only(&probes, "executor.healthProbeBindAddress", "is not an address to listen on");
        for url in ["", "localhost:8090", "ftp://events"] {
            let events = found(|config| config.executor.events_service_url = url.into());
            assert_only(&events, "executor.EventsServiceURL", "write it as http://host:port");
        }
        let same = found(|config| config.executor.metrics_bind_address = "127.0.0.1:8081".into());
        assert_only(&same, "executor.metricsBindAddress", "executor.healthProbeBindAddress");
        let certificate = found(|config| config.executor.metrics_cert_path = "/nowhere".into());
        assert_only(&certificate, "executor.metricsCertPath", "/nowhere/tls.crt");
        let unused = |config: &mut Config| {
            config.executor.metrics_cert_path = "/nowhere".into();
            config.executor.metrics_bind_address = "0".into();
        };
        assert_eq!(found(unused), [], "a certificate of a server that does not run is not read");
    }

    #[test]
    fn every_part_of_the_storage_section_is_checked() {
        assert_only(&found(|config| config.storage.kind = "s4".into())[..1], "storage.type", "\"s4\"");
        let stow = found(|config| {
            config.storage.kind = "stow".into();
            config.storage.stow.kind = "swift".into();
            config.storage.container = "c".into();
        });
        assert_only(&stow, "storage.stow.kind", "\"swift\"");
        let prefix = found(|config| config.storage.allowed_prefixes = vec!["s3://a".into(), "elsewhere".into()]);
        assert_only(&prefix, "storage.allowed-prefixes.1", "elsewhere");
        let keys = found(|config| {
            config.storage.kind = "s3".into();
            config.storage.container = "c".into();
        });
        assert_only(&keys, "storage.stow.config", "access_key_id");
        let scheme = found(|config| {
            config.storage.schemes.entry("gs".into()).or_default().kind = "gogle".into();
        });
        assert_only(&scheme, "storage.schemes.gs.kind", "\"gogle\"");
    }
}
