//! An object store that understands as much of S3's protocol as the executor uses, with faults: refused requests, lost
//! answers, slow answers, no answers.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{self, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::{Method, StatusCode, header};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::kubelet::Store;

/// The only bucket.
pub const BUCKET: &str = "bench";

/// How the store misbehaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StorageFault {
    /// It does not.
    #[default]
    None,
    /// Every request is refused with this status code.
    Refuse(StatusCode),
    /// Every request is carried out, and the answer is 500.
    LoseAnswers,
    /// Every answer is delayed by this time.
    Slow(Duration),
    /// Requests are read and never answered, also not after the fault.
    Hang,
}

/// The store, listening on loopback until dropped. `s3://bench/<key>` is the file `<root>/bench/<key>`.
#[derive(Debug)]
pub struct StorageStub {
    endpoint: String,
    state: Arc<StubState>,
    _stop: DropGuard,
}

#[derive(Debug)]
struct StubState {
    root: PathBuf,
    fault: Mutex<StorageFault>,
    /// The keys of requests that met a fault.
    disturbed: Mutex<Vec<String>>,
}

impl StorageStub {
    /// Starts the store on a free port, with its files below `root`.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(root: &Path) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listening on loopback")?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let state = StubState { root: root.join(BUCKET), fault: Mutex::default(), disturbed: Mutex::default() };
        fs::create_dir_all(&state.root)?;
        let state = Arc::new(state);
        let router = Router::new().route("/{bucket}/{*key}", any(answer)).with_state(Arc::clone(&state));
        let stop = CancellationToken::new();
        let serving = axum::serve(listener, router).into_future();
        tokio::spawn(stop.clone().run_until_cancelled_owned(serving));
        Ok(Self { endpoint, state, _stop: stop.drop_guard() })
    }

    /// The section `storage` of an executor's configuration.
    #[must_use]
    pub fn section(&self) -> Value {
        let access = json!({
            "auth_type": "accesskey", "access_key_id": "test", "secret_key": "test",
            "endpoint": self.endpoint, "disable_ssl": "true",
        });
        json!({"type": "stow", "container": BUCKET, "stow": {"kind": "s3", "config": access}})
    }

    /// Where the objects are, for references.
    #[must_use]
    pub fn base(&self) -> String {
        format!("s3://{BUCKET}")
    }

    /// Stores an object, whatever the fault.
    ///
    /// # Errors
    /// The reference is not below [`StorageStub::base`], or the file cannot be written.
    pub fn insert(&self, uri: &str, content: &[u8]) -> io::Result<()> {
        insert(&self.state.root, uri, content)
    }

    /// A function that stores objects as [`StorageStub::insert`] does.
    #[must_use]
    pub fn writer(&self) -> Store {
        let root = self.state.root.clone();
        Store::Call(Arc::new(move |uri, content| insert(&root, uri, content)))
    }

    /// Sets the fault of all following requests.
    pub fn fault(&self, fault: StorageFault) {
        *locked(&self.state.fault) = fault;
    }

    /// Removes the fault.
    pub fn heal(&self) {
        self.fault(StorageFault::None);
    }

    /// How many requests for keys with this part have met a fault.
    #[must_use]
    pub fn disturbed(&self, part: &str) -> usize {
        locked(&self.state.disturbed).iter().filter(|key| key.contains(part)).count()
    }

    /// The path of the file of a key.
    #[must_use]
    pub fn path(&self, key: &str) -> PathBuf {
        self.state.root.join(key)
    }
}

async fn answer(
    State(state): State<Arc<StubState>>,
    extract::Path((_bucket, key)): extract::Path<(String, String)>,
    method: Method,
    body: Bytes,
) -> Response {
    let fault = *locked(&state.fault);
    if fault != StorageFault::None {
        locked(&state.disturbed).push(key.clone());
    }
    match fault {
        StorageFault::None | StorageFault::LoseAnswers => {}
        StorageFault::Refuse(code) => return code.into_response(),
        StorageFault::Slow(delay) => tokio::time::sleep(delay).await,
        StorageFault::Hang => std::future::pending().await,
    }
    let path = state.root.join(key);
    let outcome = match method {
        Method::GET | Method::HEAD => fs::read(&path),
        Method::PUT => write(&path, &body).map(|()| Vec::new()),
        _ => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
    };
    if fault == StorageFault::LoseAnswers {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    match outcome {
        // The client needs both headers. It compares neither.
        Ok(content) => {
            let headers = [(header::ETAG, "\"1\""), (header::LAST_MODIFIED, "Thu, 01 Jan 2026 00:00:00 GMT")];
            (headers, content).into_response()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => StatusCode::NOT_FOUND.into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn insert(root: &Path, uri: &str, content: &[u8]) -> io::Result<()> {
    let key = uri.strip_prefix("s3://").and_then(|path| path.strip_prefix(BUCKET)?.strip_prefix('/'));
    let key = key.ok_or_else(|| io::Error::other(format!("{uri} is not in the bucket {BUCKET}")))?;
    write(&root.join(key), content)
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, content)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use aileron_config::{Config, Sources};
    use aileron_executor::assembly::storage_settings;
    use aileron_executor::storage::{BlobStore, ObjectStores};

    use super::*;

    #[tokio::test]
    async fn the_storage_of_the_executor_reads_and_writes_it() {
        crate::init();
        let dir = tempfile::tempdir().unwrap();
        let stub = StorageStub::start(dir.path()).await.unwrap();
        let text = json!({"storage": stub.section()}).to_string();
        let config = Config::load(&Sources::file("test.yaml", &text)).unwrap();
        let store = ObjectStores::new(storage_settings(&config.storage).unwrap()).unwrap();
        let uri = format!("{}/run/a/outputs.pb", stub.base());
        assert_eq!(store.get(&uri).await.unwrap(), None);
        stub.insert(&uri, b"written by a task").unwrap();
        assert!(stub.insert("s3://other/x", b"").is_err());
        assert_eq!(store.get(&uri).await.unwrap().unwrap(), "written by a task");
        store.put(&uri, Bytes::from_static(b"by the executor")).await.unwrap();
        assert_eq!(store.size(&uri).await.unwrap(), Some(15));

        stub.fault(StorageFault::Refuse(StatusCode::SERVICE_UNAVAILABLE));
        store.get(&uri).await.unwrap_err();
        stub.heal();
        assert!(store.get(&uri).await.unwrap().is_some());
    }
}
