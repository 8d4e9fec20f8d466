//! [`ApiServer`]: how to create a server and how clients reach it.

mod kubeconfig;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http::header;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::errors::ApiError;
use crate::kinds::definition;
use crate::object::Key;
use crate::routes;
use crate::state::faults::Faults;
use crate::state::logs::PodLogs;
use crate::state::{Options, ServerState};
use crate::store::{Snapshot, Store};
use crate::strategy::metadata;

/// An in-memory Kubernetes API server. Clones refer to the same server.
#[derive(Clone, Debug)]
pub struct ApiServer {
    state: Arc<ServerState>,
}

impl ApiServer {
    /// Creates a server that has the namespaces of the options and no other objects.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let server = Self { state: Arc::new(ServerState::new(options)) };
        for name in &server.state.options.namespaces {
            server.add_namespace(name);
        }
        server
    }

    fn add_namespace(&self, name: &str) {
        let mut transaction = self.state.store.lock();
        let (Some(kind), None) =
            (self.state.registry.by_resource("namespaces"), transaction.get("namespaces", &Key::new("", name)))
        else {
            return;
        };
        let mut namespace = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        });
        metadata::prepare_new(&kind, &mut namespace, self.state.random.uid(), self.state.now());
        transaction.put(&kind, namespace);
    }

    /// The HTTP service of this server, for an HTTP server or for [`kube::Client::new`].
    pub fn router(&self) -> Router {
        Router::new().fallback(routes::answer).with_state(self.state.clone())
    }

    /// A client that calls this server in memory, without a connection.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.router(), "default")
    }

    /// Serves clients that present the token, until the returned task is aborted or the listener fails.
    pub fn serve(&self, listener: TcpListener, token: &str) -> JoinHandle<std::io::Result<()>> {
        let expected: Arc<str> = Arc::from(token);
        let router = self.router().layer(middleware::from_fn_with_state(expected, authenticate));
        tokio::spawn(async move { axum::serve(listener, router).await })
    }

    /// A new random token for [`ApiServer::serve`].
    #[must_use]
    pub fn new_token(&self) -> String {
        self.state.random.token()
    }

    /// A kubeconfig in YAML for a server that is served at this address with this token.
    #[must_use]
    pub fn kubeconfig(&self, address: SocketAddr, token: &str) -> String {
        // `kubectl` sends no credentials without TLS. Therefore the URL contains the token too.
        kubeconfig::render(&format!("http://{address}/{token}"), token)
    }

    /// Faults that the server injects into requests.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.state.faults
    }

    /// The objects of this server, for assertions.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.state.store
    }

    /// The logs of pods. A kubelet appends to them; the server reads them to answer `pods/log`.
    #[must_use]
    pub fn logs(&self) -> &PodLogs {
        &self.state.logs
    }

    /// Registers the URL of a service for webhook configurations that name this service. The server has no cluster
    /// network to find it by itself.
    pub fn route_service(&self, namespace: &str, name: &str, url: &str) {
        self.state.services.set(namespace, name, url);
    }

    /// Restores all objects of a snapshot.
    ///
    /// An existing object of the same name is replaced. Kinds are served again for restored CustomResourceDefinitions;
    /// objects of a kind without definition are skipped. Watches that started before get `410 Gone`.
    pub fn restore(&self, snapshot: &Snapshot) {
        let mut transaction = self.state.store.lock();
        transaction.resume(snapshot.revision);
        let mut objects: Vec<_> = snapshot.objects.iter().collect();
        // Definitions first (false sorts before true), so that their kinds are known for the other objects.
        objects.sort_by_key(|(resource, _)| resource != definition::RESOURCE);
        for (resource, object) in objects {
            let Some(kind) = self.state.registry.by_resource(resource) else { continue };
            let stored = transaction.put(&kind, object.clone());
            if kind.is(definition::RESOURCE) {
                definition::serve(&self.state.registry, &stored.body());
            }
        }
        transaction.compact();
    }
}

/// Lets requests pass that present the token, in a header or as the first segment of the path. Health and version
/// requests need no token.
async fn authenticate(State(expected): State<Arc<str>>, mut request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).map_or(&b""[..], http::HeaderValue::as_bytes);
    let by_header = given.strip_prefix(b"Bearer ").is_some_and(|given| is_same_token(given, expected.as_bytes()));
    let is_probe = ["/healthz", "/livez", "/readyz", "/version"].contains(&request.uri().path());
    let whole = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let (first, rest) = whole[1..].find('/').map_or((&whole[1..], "/"), |end| whole[1..].split_at(end));
    let by_path = is_same_token(first.as_bytes(), expected.as_bytes());
    if by_path && let Ok(uri) = rest.parse() {
        *request.uri_mut() = uri;
    }
    if is_probe || by_header || by_path {
        return next.run(request).await;
    }
    ApiError::unauthorized().into_response()
}

/// Compares in constant time, so that the duration does not reveal how much of a guessed token is correct.
fn is_same_token(given: &[u8], expected: &[u8]) -> bool {
    given.len() == expected.len() && given.iter().zip(expected).fold(0, |sum, (left, right)| sum | (left ^ right)) == 0
}
