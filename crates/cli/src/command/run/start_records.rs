//! The first log records of `aileron run`: what runs, with which settings and where. They contain no credentials.

use std::time::Duration;

use aileron_action::plugin_choice::PluginList;
use aileron_config::Config;
use aileron_executor::storage::Backend;
use http::Uri;
use kube::Client;

use crate::connection::{self, named_server};
use crate::process::logging::START;

/// How long the API server may take to tell its version. Only a log record depends on it.
const VERSION_TIMEOUT: Duration = Duration::from_secs(30);

/// What is known when the executor starts.
pub struct Started<'a> {
    pub program: &'a str,
    pub version: &'a str,
    /// The configuration files that were read.
    pub files: &'a [String],
    pub config: &'a Config,
    pub plugins: &'a PluginList,
    pub namespace: &'a str,
    pub identity: &'a str,
    pub health: Option<String>,
    pub metrics: Option<String>,
}

/// Writes the records that need no request.
pub fn write(started: &Started<'_>) {
    let Started { program, version, files, config, plugins, namespace, identity, health, metrics } = started;
    let executor = &config.executor;
    let off = || "off".to_owned();
    let files = if files.is_empty() { "none".to_owned() } else { files.join(", ") };
    tracing::info!(target: START, program, version, files, "started");
    let mode = if executor.leader_elect { "waits for the lease" } else { "leads without a lease" };
    tracing::info!(target: START, namespace, identity, leader_election = executor.leader_elect, "this replica {mode}");
    tracing::info!(
        target: START,
        events = without_credentials(&executor.events_service_url),
        cache = without_credentials(&executor.cache_service_url),
        storage = storage(config),
        cluster = executor.cluster,
        "services"
    );
    let enabled = plugins.plugins().iter().filter(|plugin| plugin.enabled).map(|plugin| plugin.entry.id.as_ref());
    tracing::info!(target: START, plugins = enabled.collect::<Vec<_>>().join(","), "plugins");
    let (health, metrics) = (health.clone().unwrap_or_else(off), metrics.clone().unwrap_or_else(off));
    tracing::info!(target: START, health, metrics, "listening");
}

/// Asks the API server for its version, and writes it.
pub async fn write_server(client: Client, server: String) {
    let version = match tokio::time::timeout(VERSION_TIMEOUT, client.apiserver_version()).await {
        Ok(Ok(info)) => Ok(info.git_version),
        Ok(Err(error)) => Err(connection::error_text(&error)),
        Err(_) => Err(format!("no answer within {} s", VERSION_TIMEOUT.as_secs())),
    };
    match version {
        Ok(version) => tracing::info!(target: START, server, version, "API server"),
        Err(error) => tracing::warn!(server, error, "the API server does not tell its version"),
    }
}

/// The store and its container.
fn storage(config: &Config) -> String {
    let storage = &config.storage;
    let scheme = Backend::from_config(&storage.kind, &storage.stow.kind).map_or("unknown", Backend::scheme);
    let endpoint = storage.stow.config.get("endpoint").filter(|endpoint| !endpoint.is_empty());
    let place = endpoint.map(|endpoint| format!(" at {}", without_credentials(endpoint))).unwrap_or_default();
    format!("{scheme}://{}{place}", storage.container)
}

/// An address without user, password and path. A text that is not an address may be anything, so it is not shown.
fn without_credentials(address: &str) -> String {
    match address.parse::<Uri>() {
        Ok(uri) if uri.host().is_some() => named_server::address(&uri),
        _ => "set".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_contain_no_credentials() {
        assert_eq!(
            without_credentials("https://ada:secret@events.example.org:8090/token"),
            "https://events.example.org:8090"
        );
        assert_eq!(without_credentials("no address"), "set");
        let mut config = Config::default();
        config.storage.container = "flyte".into();
        config.storage.stow.config.insert("secret_key".into(), "hidden".into());
        config.storage.stow.config.insert("endpoint".into(), "http://ada:hidden@minio:9000".into());
        assert_eq!(storage(&config), "s3://flyte at http://minio:9000");
    }
}
