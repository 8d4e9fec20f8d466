//! The blob stores of a running executor: one backend per scheme, one client per container, created when first needed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};

use super::backends::Recipe;
use super::boundary::Boundary;
use super::files::Files;
use super::second_try::{SECOND_TRY_AFTER, with_second_try};
use super::{Backend, BlobStore, Location, MemoryStore, SchemeSettings, StorageError, StorageSettings, check_limit};

/// Blob storage by reference: `s3://`, `gs://`, `abfs://`, `file://`, `mem://`. Mirrors the routing `DataStore`.
///
/// References with the scheme of the configured backend go there, the others as `schemes` says. `Boundary` has the rules
/// which references may be used.
///
/// # Differs from upstream
/// Buckets are never created, and `os://`, `sw://` and `redis://` are not served.
#[derive(Debug)]
pub struct ObjectStores {
    settings: StorageSettings,
    memory: MemoryStore,
    boundary: Boundary,
    /// The clients by scheme and container, the last used one at the end.
    clients: Mutex<Vec<KeptClient>>,
    files: HashMap<String, Files>,
}

/// The most clients that are kept. Each has connections and credentials, and with `enable-multicontainer` a reference can
/// name any container. Most installations use one or two containers.
const MAX_CLIENTS: usize = 32;

/// Bounds the store in memory. It is for tests and demonstrations, and never frees anything.
const MEMORY_CAPACITY: usize = 256 << 20;

/// A client with its scheme and container.
type KeptClient = ((String, String), Arc<dyn ObjectStore>);

/// The store that a reference belongs to.
enum Route<'a> {
    Memory,
    Files(&'a Files),
    Client(Arc<dyn ObjectStore>, Path),
}

impl ObjectStores {
    /// Stores as configured. The client of the configured container is created at once, so that wrong settings are reported
    /// when the process starts. No request is sent.
    ///
    /// # Errors
    /// When the settings of the configured backend are not usable.
    pub fn new(settings: StorageSettings) -> Result<Self, StorageError> {
        let scheme = settings.backend.scheme();
        let wrong = |detail: &str| StorageError::Settings { subject: scheme.to_owned(), detail: detail.to_owned() };
        if settings.container.is_empty() && settings.backend != Backend::Memory {
            return Err(wrong("set storage.container, also with enable-multicontainer"));
        }
        let mut files = HashMap::new();
        if settings.backend == Backend::Local {
            let root = settings.config.get("path").ok_or_else(|| wrong("set path in storage.stow.config"))?;
            files.insert(scheme.to_owned(), Files::new(root));
        }
        for (scheme, other) in &settings.schemes {
            if other.backend.or_else(|| Backend::of_scheme(scheme)) == Some(Backend::Local)
                && let Some(root) = other.config.get("path")
            {
                files.entry(scheme.to_ascii_lowercase()).or_insert_with(|| Files::new(root));
            }
        }
        let stores = Self {
            memory: MemoryStore::with_limit(settings.max_download_mb).with_capacity(MEMORY_CAPACITY),
            boundary: Boundary::new(&settings)?,
            clients: Mutex::default(),
            files,
            settings,
        };
        if !matches!(stores.settings.backend, Backend::Memory | Backend::Local) {
            stores.client(stores.settings.backend.scheme(), &stores.settings.container)?;
        }
        Ok(stores)
    }

    /// Deletes a blob. A blob that does not exist is not an error. The executor itself never deletes blobs.
    ///
    /// # Errors
    /// The reference cannot be used, or the backend refuses.
    pub async fn delete(&self, uri: &str) -> Result<(), StorageError> {
        let location = Location::parse(uri)?;
        match self.route(uri, &location)? {
            Route::Memory => {
                self.memory.remove(uri);
                Ok(())
            }
            Route::Files(files) => files.delete(uri, &location).await,
            Route::Client(client, path) => match absent_is_none(client.delete(&path).await) {
                Ok(_) => Ok(()),
                Err(source) => Err(StorageError::Backend { action: "delete", uri: uri.to_owned(), source }),
            },
        }
    }

    fn route<'a>(&'a self, uri: &str, location: &Location) -> Result<Route<'a>, StorageError> {
        let scheme = self.boundary.check(uri, location)?;
        let backend = self.backend_of(scheme);
        match backend {
            Backend::Memory => Ok(Route::Memory),
            Backend::Local => self.files.get(scheme).map(Route::Files).ok_or_else(|| StorageError::Settings {
                subject: format!("scheme {scheme}"),
                detail: format!("set storage.schemes.{scheme}.config.path to the root directory"),
            }),
            Backend::S3 | Backend::Gcs | Backend::Azure => {
                let bad = |detail: String| StorageError::BadReference { uri: uri.to_owned(), detail };
                if location.container.is_empty() {
                    return Err(bad("it names no container".to_owned()));
                }
                // `parse` keeps every character of the key. `from` would escape some, which names another blob.
                let path = Path::parse(&location.key).map_err(|error| bad(error.to_string()))?;
                Ok(Route::Client(self.client(scheme, &location.container)?, path))
            }
        }
    }

    fn backend_of(&self, scheme: &str) -> Backend {
        if scheme == self.settings.backend.scheme() {
            return self.settings.backend;
        }
        let chosen = self.settings.schemes.get(scheme).and_then(|other| other.backend);
        chosen.or_else(|| Backend::of_scheme(scheme)).unwrap_or(self.settings.backend)
    }

    /// How many clients are kept.
    #[cfg(test)]
    pub(super) fn clients(&self) -> usize {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(super) fn client(&self, scheme: &str, container: &str) -> Result<Arc<dyn ObjectStore>, StorageError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (scheme.to_owned(), container.to_owned());
        if let Some(found) = clients.iter().position(|(kept, _)| *kept == key) {
            let used = clients.remove(found);
            let client = used.1.clone();
            clients.push(used);
            return Ok(client);
        }
        let ambient = scheme != self.settings.backend.scheme();
        let none = SchemeSettings::default();
        let config =
            if ambient { &self.settings.schemes.get(scheme).unwrap_or(&none).config } else { &self.settings.config };
        let backend = self.backend_of(scheme);
        let recipe = Recipe { backend, container, config, ambient, timeout: self.settings.timeout };
        let client = recipe.build()?.ok_or_else(|| StorageError::Settings {
            subject: format!("scheme {scheme}"),
            detail: "the backend has no client".to_owned(),
        })?;
        if clients.len() >= MAX_CLIENTS {
            clients.remove(0);
        }
        clients.push((key, client.clone()));
        Ok(client)
    }
}

#[async_trait]
impl BlobStore for ObjectStores {
    async fn get(&self, uri: &str) -> Result<Option<Bytes>, StorageError> {
        let location = Location::parse(uri)?;
        let limit = self.settings.max_download_mb;
        match self.route(uri, &location)? {
            Route::Memory => self.memory.get(uri).await,
            Route::Files(files) => files.get(uri, &location, limit).await,
            Route::Client(client, path) => {
                let failed = |source| StorageError::Backend { action: "read", uri: uri.to_owned(), source };
                with_second_try(SECOND_TRY_AFTER, || async {
                    let Some(answer) = absent_is_none(client.get(&path).await).map_err(failed)? else {
                        return Ok(None);
                    };
                    check_limit(uri, answer.meta.size, limit)?;
                    answer.bytes().await.map(Some).map_err(failed)
                })
                .await
            }
        }
    }

    async fn put(&self, uri: &str, content: Bytes) -> Result<(), StorageError> {
        let location = Location::parse(uri)?;
        match self.route(uri, &location)? {
            Route::Memory => self.memory.put(uri, content).await,
            Route::Files(files) => files.put(uri, &location, &content).await,
            Route::Client(client, path) => {
                let failed = |source| StorageError::Backend { action: "write", uri: uri.to_owned(), source };
                with_second_try(SECOND_TRY_AFTER, || client.put(&path, content.clone().into()))
                    .await
                    .map(drop)
                    .map_err(failed)
            }
        }
    }

    async fn size(&self, uri: &str) -> Result<Option<u64>, StorageError> {
        let location = Location::parse(uri)?;
        match self.route(uri, &location)? {
            Route::Memory => self.memory.size(uri).await,
            Route::Files(files) => files.size(uri, &location).await,
            Route::Client(client, path) => {
                let failed = |source| StorageError::Backend { action: "look up", uri: uri.to_owned(), source };
                let found =
                    absent_is_none(with_second_try(SECOND_TRY_AFTER, || client.head(&path)).await).map_err(failed)?;
                Ok(found.map(|meta| meta.size))
            }
        }
    }
}

fn absent_is_none<T>(result: Result<T, object_store::Error>) -> Result<Option<T>, object_store::Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
