//! The storage of inputs and outputs of submitted tasks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aileron_config::Config;
use aileron_executor::assembly::storage_settings;
use aileron_executor::storage::{Backend, BlobStore, Location, ObjectStores, SchemeSettings, StorageSettings};
use anyhow::{Context, bail};
use bytes::Bytes;

/// A store, and the prefix of all inputs and outputs of runs in it.
#[derive(Clone)]
pub struct Storage {
    store: Arc<dyn BlobStore>,
    prefix: String,
}

impl Storage {
    /// A directory on this machine.
    pub fn local(directory: &Path) -> anyhow::Result<Self> {
        let directory = std::path::absolute(directory).context("cannot use the storage directory")?;
        let Some(text) = directory.to_str() else {
            bail!(
                "{}: the path must be valid UTF-8, because it becomes part of storage references",
                directory.display()
            );
        };
        Ok(Self { store: any_store()?, prefix: format!("file://{}", escaped(text)) })
    }

    /// Any storage reference, with the credentials of the environment.
    pub fn at(uri: &str) -> anyhow::Result<Self> {
        // Parse a reference below the prefix, to check the prefix.
        Location::parse(&format!("{}/x", uri.trim_end_matches('/')))?;
        Ok(Self { store: any_store()?, prefix: uri.trim_end_matches('/').to_owned() })
    }

    /// The storage of an executor's configuration. `at` replaces the prefix; the credentials stay the same.
    pub fn configured(config: &Config, at: Option<&str>) -> anyhow::Result<Self> {
        let settings = storage_settings(&config.storage)?;
        let prefix = match (at, settings.backend) {
            (Some(uri), _) => uri.trim_end_matches('/').to_owned(),
            (None, Backend::Memory) => {
                bail!("storage.type is `mem`: this program cannot read the memory of the executor; give --storage URI")
            }
            (None, backend) => format!("{}://{}", backend.scheme(), settings.container),
        };
        // The limit on downloads protects the memory of an executor. It does not apply to a command of a user.
        let mut settings = StorageSettings { max_download_mb: 0, ..settings };
        if let Some(uri) = at {
            // The boundary protects an executor from its tasks. It does not apply to what a user asks for.
            if let Some((scheme, _)) = uri.split_once("://").filter(|(scheme, _)| *scheme != settings.backend.scheme())
            {
                settings.schemes.entry(scheme.to_ascii_lowercase()).or_default();
            }
            settings.allowed_prefixes.push(uri.to_owned());
        }
        Ok(Self { store: Arc::new(ObjectStores::new(settings)?), prefix })
    }

    /// The store.
    pub fn store(&self) -> &dyn BlobStore {
        self.store.as_ref()
    }

    /// The prefix of all inputs and outputs.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Stores a blob.
    pub async fn put(&self, uri: &str, content: Bytes) -> anyhow::Result<()> {
        Ok(self.store.put(uri, content).await?)
    }

    /// Creates a directory if the storage is a file system.
    pub fn make_directory(&self, uri: &str) -> anyhow::Result<()> {
        let Some(path) = local_path(uri)? else { return Ok(()) };
        std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))
    }
}

/// A store for references of any kind, with the credentials of the environment.
pub fn any_store() -> anyhow::Result<Arc<dyn BlobStore>> {
    let root = [("path".to_owned(), "/".to_owned())];
    let settings = StorageSettings {
        backend: Backend::Local,
        container: "none".to_owned(),
        config: root.into(),
        schemes: ["s3", "gs", "abfs", "abfss"].map(|scheme| (scheme.to_owned(), SchemeSettings::default())).into(),
        max_download_mb: 0,
        ..StorageSettings::default()
    };
    Ok(Arc::new(ObjectStores::new(settings)?))
}

/// The path of a storage reference to a file on this machine; `None` for another reference.
fn local_path(uri: &str) -> anyhow::Result<Option<PathBuf>> {
    let Location { scheme, container, key } = Location::parse(uri)?;
    Ok((scheme == "file" && container.is_empty()).then(|| Path::new("/").join(key)))
}

/// A path, escaped as part of a storage reference.
fn escaped(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~+@:,=".contains(&byte);
    path.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn a_directory_may_have_a_space_in_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let storage = Storage::local(&directory.path().join("my data")).unwrap();
        let uri = format!("{}/r1/inputs.pb", storage.prefix());
        storage.put(&uri, Bytes::from_static(b"x")).await.unwrap();
        assert_eq!(std::fs::read(directory.path().join("my data/r1/inputs.pb")).unwrap(), b"x");
        storage.make_directory(&format!("{}/r1/out/1", storage.prefix())).unwrap();
        assert!(directory.path().join("my data/r1/out/1").is_dir());
        assert_eq!(storage.store().get(&uri).await.unwrap().unwrap().as_ref(), b"x");
    }

    #[test]
    fn an_invalid_reference_and_the_memory_of_another_process_are_refused() {
        assert!(Storage::at("bucket/x").is_err());
        assert_eq!(Storage::at("s3://bucket/x/").unwrap().prefix(), "s3://bucket/x");
        let mut config = Config::default();
        config.storage.kind = "mem".into();
        assert!(Storage::configured(&config, None).err().unwrap().to_string().contains("--storage URI"));
    }
}
