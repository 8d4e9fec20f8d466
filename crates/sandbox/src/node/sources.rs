//! Reads the config maps and secrets that pods refer to.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};

use super::environment::{ConfigError, Content, SourceKind, Sources};

/// Those of the given names that exist.
pub(crate) async fn read(
    client: &Client,
    namespace: &str,
    names: BTreeSet<(SourceKind, String)>,
) -> Result<Sources, ConfigError> {
    let mut sources = Sources { namespace: namespace.to_owned(), ..Sources::default() };
    for (kind, name) in names {
        let read = match kind {
            SourceKind::ConfigMap => config_map(client, namespace, &name).await,
            SourceKind::Secret => secret(client, namespace, &name).await,
        };
        match read {
            Ok(Some(content)) => drop(sources.found.insert((kind, name), content)),
            Ok(None) => {}
            Err(error) => return Err(ConfigError::Unread { kind, name, text: error.to_string() }),
        }
    }
    Ok(sources)
}

async fn config_map(client: &Client, namespace: &str, name: &str) -> kube::Result<Option<Content>> {
    let found = Api::<ConfigMap>::namespaced(client.clone(), namespace).get_opt(name).await?;
    Ok(found.map(|map| {
        let texts = map.data.unwrap_or_default().into_iter().map(|(key, text)| (key, text.into_bytes()));
        let bytes = map.binary_data.unwrap_or_default().into_iter().map(|(key, bytes)| (key, bytes.0));
        texts.chain(bytes).collect()
    }))
}

async fn secret(client: &Client, namespace: &str, name: &str) -> kube::Result<Option<Content>> {
    let found = Api::<Secret>::namespaced(client.clone(), namespace).get_opt(name).await?;
    Ok(found.map(|secret| secret.data.unwrap_or_default().into_iter().map(|(key, bytes)| (key, bytes.0)).collect()))
}
