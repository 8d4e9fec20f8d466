//! The config maps and secrets that a pod refers to.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};

use crate::node::environment::fields::FieldError;

/// The data of a config map or secret, by key.
pub(crate) type ConfigData = BTreeMap<String, Vec<u8>>;

/// Whether a source is a config map or a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SourceKind {
    ConfigMap,
    Secret,
}

/// The config maps and secrets of a namespace that a pod refers to, as far as they exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigSources {
    pub namespace: String,
    pub found: BTreeMap<(SourceKind, String), ConfigData>,
}

/// Why a container cannot be created. The texts are those of a kubelet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("{} {name:?} not found", kind.lower())]
    NoSource { kind: SourceKind, name: String },
    #[error("couldn't find key {key} in {} {namespace}/{name}", kind.upper())]
    NoKey { kind: SourceKind, namespace: String, name: String, key: String },
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error("failed to read {} {name:?}: {text}", kind.lower())]
    Unread { kind: SourceKind, name: String, text: String },
}

impl SourceKind {
    fn lower(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }

    fn upper(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

impl ConfigSources {
    /// Reads the named config maps and secrets. Those that do not exist are left out.
    pub(crate) async fn read(
        client: &Client,
        namespace: &str,
        names: BTreeSet<(SourceKind, String)>,
    ) -> Result<Self, ConfigError> {
        let mut sources = Self { namespace: namespace.to_owned(), ..Self::default() };
        for (kind, name) in names {
            let read = match kind {
                SourceKind::ConfigMap => config_map(client, namespace, &name).await,
                SourceKind::Secret => secret(client, namespace, &name).await,
            };
            match read {
                Ok(Some(data)) => drop(sources.found.insert((kind, name), data)),
                Ok(None) => {}
                Err(error) => return Err(ConfigError::Unread { kind, name, text: error.to_string() }),
            }
        }
        Ok(sources)
    }

    /// All data of a config map or secret; `None` if it is optional and does not exist.
    pub(crate) fn data(
        &self,
        kind: SourceKind,
        name: &str,
        optional: bool,
    ) -> Result<Option<&ConfigData>, ConfigError> {
        match self.found.get(&(kind, name.to_owned())) {
            None if !optional => Err(ConfigError::NoSource { kind, name: name.to_owned() }),
            data => Ok(data),
        }
    }

    /// One key of a config map or secret; `None` if it is optional and does not exist.
    pub(crate) fn key(
        &self,
        kind: SourceKind,
        name: &str,
        key: &str,
        optional: bool,
    ) -> Result<Option<&[u8]>, ConfigError> {
        let Some(data) = self.data(kind, name, optional)? else { return Ok(None) };
        match data.get(key) {
            None if !optional => {
                let (name, key) = (name.to_owned(), key.to_owned());
                Err(ConfigError::NoKey { kind, namespace: self.namespace.clone(), name, key })
            }
            value => Ok(value.map(Vec::as_slice)),
        }
    }
}

async fn config_map(client: &Client, namespace: &str, name: &str) -> kube::Result<Option<ConfigData>> {
    let found = Api::<ConfigMap>::namespaced(client.clone(), namespace).get_opt(name).await?;
    Ok(found.map(|map| {
        let texts = map.data.unwrap_or_default().into_iter().map(|(key, text)| (key, text.into_bytes()));
        let bytes = map.binary_data.unwrap_or_default().into_iter().map(|(key, bytes)| (key, bytes.0));
        texts.chain(bytes).collect()
    }))
}

async fn secret(client: &Client, namespace: &str, name: &str) -> kube::Result<Option<ConfigData>> {
    let found = Api::<Secret>::namespaced(client.clone(), namespace).get_opt(name).await?;
    Ok(found.map(|secret| secret.data.unwrap_or_default().into_iter().map(|(key, bytes)| (key, bytes.0)).collect()))
}
