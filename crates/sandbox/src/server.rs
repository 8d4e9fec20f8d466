//! The API server: what it is made of, and the ways to reach it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http::header;
use jiff::Timestamp;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::admission::webhooks::Services;
use crate::dispatch;
use crate::faults::Faults;
use crate::kubeconfig;
use crate::logs::PodLogs;
use crate::random::Random;
use crate::registry::Registry;
use crate::status::ApiError;
use crate::store::{Key, Snapshot, Store};
use crate::{crd, metadata};

/// Changes remembered per kind: a watcher that is further behind has to list again. At two kilobytes a change this is
/// some ten megabytes for the kind that changes most.
const HISTORY: usize = 5_000;

/// What a server is like.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many changes of each kind are remembered for watches; at least one.
    pub history: usize,
    /// Whether the server does what controllers do in a cluster: collects garbage, empties deleted namespaces, counts
    /// what quotas limit. A bare kube-apiserver does none of it.
    pub controllers: bool,
    /// Namespaces that are there from the start.
    pub namespaces: Vec<String>,
    /// What `/version` says.
    pub version: (u32, u32, u32),
}

/// An in-memory Kubernetes API server. Clones are the same server.
#[derive(Clone, Debug)]
pub struct ApiServer {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub options: Options,
    pub registry: Registry,
    pub random: Random,
    pub faults: Faults,
    pub services: Services,
    store: Store,
    logs: PodLogs,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            history: HISTORY,
            controllers: true,
            namespaces: ["default", "kube-system", "kube-public", "kube-node-lease"].map(str::to_owned).into(),
            version: (1, 34, 4),
        }
    }
}

impl ApiServer {
    /// A server with its namespaces and nothing else.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let inner = Inner {
            registry: Registry::new(),
            random: Random::default(),
            faults: Faults::default(),
            services: Services::default(),
            store: Store::new(options.history.max(1)),
            logs: PodLogs::default(),
            options,
        };
        let server = Self { inner: Arc::new(inner) };
        for name in &server.inner.options.namespaces {
            server.add_namespace(name);
        }
        server
    }

    fn add_namespace(&self, name: &str) {
        let mut transaction = self.store().lock();
        let (Some(kind), None) =
            (self.inner.registry.at("namespaces"), transaction.get("namespaces", &Key::new("", name)))
        else {
            return;
        };
        let mut namespace = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        });
        metadata::prepare_new(&kind, &mut namespace, &self.inner.random, self.now());
        transaction.put(&kind, namespace);
    }

    /// The service that answers requests; give it to a server, or to [`kube::Client::new`].
    pub fn router(&self) -> Router {
        Router::new().fallback(dispatch::answer).with_state(self.clone())
    }

    /// A client that calls this server without a connection.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.router(), "default")
    }

    /// Serves on a listener those who present the token, until the task is aborted or the listener fails.
    pub fn serve(&self, listener: TcpListener, token: &str) -> JoinHandle<std::io::Result<()>> {
        let expected: Arc<str> = Arc::from(token);
        let router = self.router().layer(middleware::from_fn_with_state(expected, authenticate));
        tokio::spawn(async move { axum::serve(listener, router).await })
    }

    /// A token that nobody can guess.
    #[must_use]
    pub fn new_token(&self) -> String {
        self.inner.random.token()
    }

    /// A kubeconfig, in YAML, for a server that is served at this address with this token.
    #[must_use]
    pub fn kubeconfig(&self, address: SocketAddr, token: &str) -> String {
        // `kubectl` sends no credentials where there is no TLS, so the address holds them too.
        kubeconfig::render(&format!("http://{address}/{token}"), token)
    }

    /// What can go wrong on request.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.inner.faults
    }

    /// The objects, for assertions.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The logs of pods: a kubelet writes them, `pods/log` reads them.
    #[must_use]
    pub fn logs(&self) -> &PodLogs {
        &self.inner.logs
    }

    /// Says where a service is, for webhooks that name it: there is no network of services here.
    pub fn route_service(&self, namespace: &str, name: &str, url: &str) {
        self.inner.services.set(namespace, name, url);
    }

    /// Takes all objects of an earlier life. Objects of the same name are replaced; definitions are served again, and
    /// what is of a kind that nothing defines is left out. Watches from before are too old.
    pub fn restore(&self, snapshot: &Snapshot) {
        let mut transaction = self.store().lock();
        transaction.resume(snapshot.revision);
        let definitions_first = |place: &str| place != crd::PLACE;
        let mut objects: Vec<_> = snapshot.objects.iter().collect();
        objects.sort_by_key(|(place, _)| definitions_first(place));
        for (place, object) in objects {
            let Some(kind) = self.inner.registry.at(place) else { continue };
            let stored = transaction.put(&kind, object.clone());
            if kind.is(crd::PLACE) {
                crd::serve(&self.inner.registry, &stored.body());
            }
        }
        transaction.forget();
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Lets those in who present the token, in a header or as the first part of the path; whether the server lives,
/// anybody may ask.
async fn authenticate(State(expected): State<Arc<str>>, mut request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).map_or(&b""[..], http::HeaderValue::as_bytes);
    let by_header = given.strip_prefix(b"Bearer ").is_some_and(|given| same(given, expected.as_bytes()));
    let is_probe = ["/healthz", "/livez", "/readyz", "/version"].contains(&request.uri().path());
    let whole = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let (first, rest) = whole[1..].find('/').map_or((&whole[1..], "/"), |end| whole[1..].split_at(end));
    let by_path = same(first.as_bytes(), expected.as_bytes());
    if by_path && let Ok(uri) = rest.parse() {
        *request.uri_mut() = uri;
    }
    if is_probe || by_header || by_path {
        return next.run(request).await;
    }
    ApiError::unauthorized().into_response()
}

/// Takes as long for a token that is almost right as for one that is not.
fn same(given: &[u8], expected: &[u8]) -> bool {
    given.len() == expected.len() && given.iter().zip(expected).fold(0, |sum, (left, right)| sum | (left ^ right)) == 0
}
