//! Where inputs and outputs of submitted tasks are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aileron_config::Config;
use aileron_executor::assembly::storage_settings;
use aileron_executor::storage::{Backend, BlobStore, Location, ObjectStores, StorageSettings};
use anyhow::{Context, bail};
use bytes::Bytes;

/// A store, and the place in it below which runs keep their things.
#[derive(Clone)]
pub struct Storage {
    store: Arc<dyn BlobStore>,
    prefix: String,
}

impl Storage {
    /// A directory of this machine.
    pub fn local(directory: &Path) -> anyhow::Result<Self> {
        let directory = std::path::absolute(directory).context("cannot use the storage directory")?;
        let Some(text) = directory.to_str() else {
            bail!("{}: the path must be text, for it becomes part of references", directory.display());
        };
        Ok(Self { store: ambient()?, prefix: format!("file://{}", escaped(text)) })
    }

    /// A place anywhere, with the credentials of the environment.
    pub fn at(uri: &str) -> anyhow::Result<Self> {
        // Anything below it will do to see that it is a reference.
        Location::parse(&format!("{}/x", uri.trim_end_matches('/')))?;
        Ok(Self { store: ambient()?, prefix: uri.trim_end_matches('/').to_owned() })
    }

    /// What an executor's configuration says; `at` chooses another place with the same credentials.
    pub fn configured(config: &Config, at: Option<&str>) -> anyhow::Result<Self> {
        let settings = storage_settings(&config.storage)?;
        let prefix = match (at, settings.backend) {
            (Some(uri), _) => uri.trim_end_matches('/').to_owned(),
            (None, Backend::Memory) => {
                bail!("storage.type is `mem`: the memory of another process cannot be reached; give --storage URI")
            }
            (None, backend) => format!("{}://{}", backend.scheme(), settings.container),
        };
        // The limit protects an executor, not somebody who asked for this.
        let settings = StorageSettings { max_download_mb: 0, ..settings };
        Ok(Self { store: Arc::new(ObjectStores::new(settings)?), prefix })
    }

    /// The store itself.
    pub fn store(&self) -> &dyn BlobStore {
        self.store.as_ref()
    }

    /// Below this everything is kept.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Stores a blob.
    pub async fn put(&self, uri: &str, content: Bytes) -> anyhow::Result<()> {
        Ok(self.store.put(uri, content).await?)
    }

    /// Makes a directory where there are directories.
    pub fn make_directory(&self, uri: &str) -> anyhow::Result<()> {
        let Some(path) = local_path(uri)? else { return Ok(()) };
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))
    }
}

/// Any storage, with the credentials of the environment.
pub fn ambient() -> anyhow::Result<Arc<dyn BlobStore>> {
    let root = [("path".to_owned(), "/".to_owned())];
    let settings = StorageSettings {
        backend: Backend::Local,
        container: "none".to_owned(),
        config: root.into(),
        max_download_mb: 0,
        ..StorageSettings::default()
    };
    Ok(Arc::new(ObjectStores::new(settings)?))
}

/// The path of a reference to a file of this machine.
fn local_path(uri: &str) -> anyhow::Result<Option<PathBuf>> {
    let Location { scheme, container, key } = Location::parse(uri)?;
    Ok((scheme == "file" && container.is_empty()).then(|| Path::new("/").join(key)))
}

/// A path as part of a reference.
fn escaped(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~+@:,=".contains(&byte);
    path.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn a_directory_with_a_space_in_its_name_is_a_place_like_others() {
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
    fn references_must_be_references_and_memory_is_out_of_reach() {
        assert!(Storage::at("bucket/x").is_err());
        assert_eq!(Storage::at("s3://bucket/x/").unwrap().prefix(), "s3://bucket/x");
        let mut config = Config::default();
        config.storage.kind = "mem".into();
        assert!(Storage::configured(&config, None).err().unwrap().to_string().contains("--storage URI"));
    }
}
