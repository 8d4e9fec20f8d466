//! Something in front of an API server, as a load balancer or the server's own flow control is: it passes requests on,
//! answers some of them itself, and writes down when.

use std::convert::Infallible;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use http::{HeaderValue, StatusCode, header};
use kube::{Client, Config};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::journal::{BODY_LIMIT, describe, name_in};
use super::{AuditRecord, Cluster, User, locked};

/// What belongs to one connection, and is the client's own business on the next.
const OF_A_CONNECTION: [header::HeaderName; 4] =
    [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];

/// It answers until dropped.
#[derive(Debug)]
pub struct Front {
    url: String,
    kubeconfig: PathBuf,
    state: Arc<Passage>,
    _stop: DropGuard,
}

/// Requests that do not get through.
pub struct Refuse {
    /// Which.
    pub which: Box<dyn Fn(&AuditRecord) -> bool + Send + Sync>,
    /// With which code: 429 in the words of the server's flow control, any other as a `Status`.
    pub code: u16,
    /// When to come back, in seconds.
    pub retry_after: Option<u32>,
    /// How many.
    pub times: usize,
}

/// A request and what became of it.
#[derive(Clone, Debug)]
pub struct Passed {
    /// When it came.
    pub at: Instant,
    /// What it was about, and the code of the answer.
    pub record: AuditRecord,
    /// It was answered here, and the server never saw it.
    pub refused: bool,
}

struct Passage {
    server: Client,
    refusals: Mutex<Vec<Refuse>>,
    passed: Mutex<Vec<Passed>>,
    watches: Mutex<CancellationToken>,
}

impl std::fmt::Debug for Passage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passage").field("passed", &locked(&self.passed).len()).finish_non_exhaustive()
    }
}

impl Refuse {
    /// Refuses this many requests of this verb about this resource, wherever.
    pub fn of(verb: &'static str, resource: &'static str, code: u16, times: usize) -> Self {
        let which = move |asked: &AuditRecord| asked.verb == verb && asked.resource == resource;
        Self { which: Box::new(which), code, retry_after: None, times }
    }

    /// The same, in one namespace.
    #[must_use]
    pub fn within(self, namespace: &str) -> Self {
        let (which, namespace) = (self.which, namespace.to_owned());
        Self { which: Box::new(move |asked| asked.namespace == namespace && which(asked)), ..self }
    }

    /// The same, with a word about when to come back.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }
}

impl Front {
    /// Stands in front of this cluster; whoever comes through is the executor.
    ///
    /// # Errors
    /// It cannot listen.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listening on loopback")?;
        let url = format!("http://{}", listener.local_addr()?);
        let state = Arc::new(Passage {
            server: cluster.client(User::Executor).await?,
            refusals: Mutex::default(),
            passed: Mutex::default(),
            watches: Mutex::default(),
        });
        let kubeconfig = cluster.dir().join("front.kubeconfig");
        write_kubeconfig(&kubeconfig, &url)?;
        let stop = CancellationToken::new();
        let router = Router::new().fallback(pass).with_state(Arc::clone(&state));
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(async move { axum::serve(listener, router).with_graceful_shutdown(stopped).await });
        Ok(Self { url, kubeconfig, state, _stop: stop.drop_guard() })
    }

    /// A client that comes through here, and hears of every refusal.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn client(&self) -> Result<Client> {
        let mut config = Config::new(self.url.parse()?);
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }

    /// For programs that shall come through here.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Refuses some requests from now on.
    pub fn refuse(&self, refuse: Refuse) {
        locked(&self.state.refusals).push(refuse);
    }

    /// Ends all watches that are open.
    pub fn drop_watches(&self) {
        std::mem::take(&mut *locked(&self.state.watches)).cancel();
    }

    /// All requests so far that have been answered, a watch when it was opened.
    #[must_use]
    pub fn passed(&self) -> Vec<Passed> {
        locked(&self.state.passed).clone()
    }
}

impl Passage {
    /// What this request is told instead of being passed on.
    fn refusal(&self, asked: &AuditRecord) -> Option<(u16, Option<u32>)> {
        let mut refusals = locked(&self.refusals);
        let found = refusals.iter_mut().find(|refuse| refuse.times > 0 && (refuse.which)(asked))?;
        found.times -= 1;
        Some((found.code, found.retry_after))
    }
}

async fn pass(State(passage): State<Arc<Passage>>, request: Request) -> Result<Response, Infallible> {
    let at = Instant::now();
    let (head, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, BODY_LIMIT).await else { return Ok(StatusCode::PAYLOAD_TOO_LARGE.into_response()) };
    let mut record = describe(&head.method, &head.uri);
    if record.verb == "create" && record.name.is_empty() {
        record.name = name_in(&bytes);
    }
    let refusal = passage.refusal(&record);
    let refused = refusal.is_some();
    let response = match refusal {
        Some((code, retry_after)) => refuse(code, retry_after),
        None => forward(&passage, http::Request::from_parts(head, bytes.into()), record.verb == "watch").await,
    };
    record.code = response.status().as_u16();
    locked(&passage.passed).push(Passed { at, record, refused });
    Ok(response)
}

fn refuse(code: u16, retry_after: Option<u32>) -> Response {
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = if status == StatusCode::TOO_MANY_REQUESTS {
        (status, "Too many requests, please try again later.\n").into_response()
    } else {
        let reason = if code == 503 { "ServiceUnavailable" } else { "" };
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason, "code": code,
            "message": "the server is currently unable to handle the request",
        });
        (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
    };
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

async fn forward(passage: &Passage, mut request: http::Request<kube::client::Body>, is_watch: bool) -> Response {
    for name in OF_A_CONNECTION {
        request.headers_mut().remove(name);
    }
    let dropped = locked(&passage.watches).clone();
    let mut response = match passage.server.send(request).await {
        Ok(response) => response.map(Body::new),
        Err(error) => return (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    };
    for name in OF_A_CONNECTION {
        response.headers_mut().remove(name);
    }
    if is_watch {
        let cut = |body: Body| body.into_data_stream().take_until(dropped.cancelled_owned());
        response = response.map(|body| Body::from_stream(cut(body)));
    }
    response
}

fn write_kubeconfig(path: &Path, url: &str) -> Result<()> {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "front",
        "clusters": [{"name": "front", "cluster": {"server": url}}],
        "users": [{"name": "front", "user": {}}],
        "contexts": [{"name": "front", "context": {"cluster": "front", "user": "front"}}],
    });
    Ok(fs::write(path, serde_json::to_vec_pretty(&kubeconfig)?)?)
}
