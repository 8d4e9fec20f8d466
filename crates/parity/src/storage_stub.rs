//! An object store with the part of the S3 protocol that the executor uses, and with faults. It keeps everything in memory.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode, Uri, header};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The bucket of all objects.
const BUCKET: &str = "data";

/// The object store; it listens on loopback until dropped.
#[derive(Debug)]
pub struct StorageStub {
    url: String,
    shared: Arc<Shared>,
    _stop: DropGuard,
}

/// How the object store misbehaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StorageFault {
    /// It does not.
    #[default]
    None,
    /// Every request is refused with 503.
    Refuse,
    /// Every request is carried out, and the answer is 500.
    LoseAnswers,
    /// Every answer is delayed by this time.
    Slow(Duration),
}

#[derive(Debug, Default)]
struct Shared {
    objects: Mutex<BTreeMap<String, Bytes>>,
    fault: Mutex<StorageFault>,
}

impl StorageStub {
    /// Starts an empty object store on a free port.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listening on loopback")?;
        let url = format!("http://{}", listener.local_addr()?);
        let (shared, stop) = (Arc::<Shared>::default(), CancellationToken::new());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(async move { axum::serve(listener, router).with_graceful_shutdown(stopped).await });
        Ok(Self { url, shared, _stop: stop.drop_guard() })
    }

    /// The section `storage` of an executor's configuration.
    #[must_use]
    pub fn section(&self) -> Value {
        let config = json!({
            "auth_type": "accesskey", "access_key_id": "test", "secret_key": "test", "region": "us-east-1",
            "endpoint": self.url, "disable_ssl": "true",
        });
        json!({"type": "stow", "container": BUCKET, "stow": {"kind": "s3", "config": config}})
    }

    /// Where the objects are, for references.
    #[must_use]
    pub fn base(&self) -> String {
        format!("s3://{BUCKET}")
    }

    /// Stores an object, whatever the fault. `uri` is a reference below [`StorageStub::base`].
    pub fn insert(&self, uri: &str, content: impl Into<Bytes>) {
        self.shared.objects().insert(key(uri), content.into());
    }

    /// A function that stores objects as [`StorageStub::insert`] does.
    #[must_use]
    pub fn writer(&self) -> crate::kubelet::Store {
        let shared = Arc::clone(&self.shared);
        crate::kubelet::Store::Call(Arc::new(move |uri, bytes| {
            shared.objects().insert(key(uri), Bytes::copy_from_slice(bytes));
            Ok(())
        }))
    }

    /// Sets the fault of all following requests.
    pub fn fault(&self, fault: StorageFault) {
        *self.shared.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}

impl Shared {
    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `s3://data/a/b` is `/data/a/b` in requests.
fn key(uri: &str) -> String {
    uri.replacen("s3:/", "", 1)
}

async fn answer(State(shared): State<Arc<Shared>>, method: Method, uri: Uri, body: Bytes) -> Response {
    let fault = *shared.fault.lock().unwrap_or_else(PoisonError::into_inner);
    match fault {
        StorageFault::Refuse => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
        StorageFault::Slow(delay) => tokio::time::sleep(delay).await,
        StorageFault::None | StorageFault::LoseAnswers => {}
    }
    let answer = carry_out(&shared, &method, uri.path(), body);
    if fault == StorageFault::LoseAnswers { StatusCode::INTERNAL_SERVER_ERROR.into_response() } else { answer }
}

fn carry_out(shared: &Shared, method: &Method, path: &str, body: Bytes) -> Response {
    let mut objects = shared.objects();
    // Clients need these headers, and compare them with nothing here.
    let headers = [(header::ETAG, "\"0\""), (header::LAST_MODIFIED, "Thu, 01 Jan 2026 00:00:00 GMT")];
    match *method {
        Method::PUT => {
            objects.insert(path.to_owned(), body);
            (headers, "").into_response()
        }
        Method::GET | Method::HEAD => match objects.get(path) {
            Some(content) => (headers, content.clone()).into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        },
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
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
        let stub = StorageStub::start().await.unwrap();
        let text = json!({"storage": stub.section()}).to_string();
        let config = Config::load(&Sources::file("test.yaml", &text)).unwrap();
        let store = ObjectStores::new(storage_settings(&config.storage).unwrap()).unwrap();
        let uri = format!("{}/run/a/outputs.pb", stub.base());
        assert_eq!(store.get(&uri).await.unwrap(), None);
        stub.insert(&uri, "written by a task");
        assert_eq!(store.get(&uri).await.unwrap().unwrap(), "written by a task");
        store.put(&uri, Bytes::from_static(b"by the executor")).await.unwrap();
        assert_eq!(store.size(&uri).await.unwrap(), Some(15));

        stub.fault(StorageFault::Refuse);
        store.get(&uri).await.unwrap_err();
        stub.fault(StorageFault::None);
        assert!(store.get(&uri).await.unwrap().is_some());
    }
}
