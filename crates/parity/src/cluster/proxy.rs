//! A proxy in front of an API server that forwards requests, refuses some of them as a load balancer or the server's flow
//! control would, loses the answers of others, and records the time of each request.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use std::{fs, io};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use http::{HeaderValue, StatusCode, header};
use kube::{Client, Config};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::journal::{BODY_LIMIT, describe, name_in};
use super::{AuditRecord, Cluster, User, locked};

/// Headers of one connection. They are not forwarded: the HTTP library sets them for each connection.
const CONNECTION_HEADERS: [header::HeaderName; 4] =
    [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];

/// The proxy; it runs until dropped.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    kubeconfig: PathBuf,
    state: Arc<ProxyState>,
    _stop: DropGuard,
}

/// Which requests the proxy does not answer as the server would, and how.
pub struct RefusalRule {
    /// Whether this rule applies to a request.
    pub matches: Box<dyn Fn(&AuditRecord) -> bool + Send + Sync>,
    /// What happens to such a request.
    pub answer: FaultyAnswer,
    /// How many requests are affected.
    pub times: usize,
}

/// What happens to a request to which a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultyAnswer {
    /// It is not forwarded.
    Refused {
        /// HTTP status code: 429 with the text of the server's flow control, any other with a `Status` object.
        code: u16,
        /// Value of the `Retry-After` header, in seconds.
        retry_after: Option<u32>,
    },
    /// The server carries it out, and the connection breaks before the client has the whole answer.
    Lost,
}

/// A request that the proxy has answered.
#[derive(Clone, Debug)]
pub struct ProxiedRequest {
    /// When the proxy received it.
    pub at: Instant,
    /// The request and the status code of the answer.
    pub record: AuditRecord,
    /// Whether the proxy refused the request instead of forwarding it.
    pub refused: bool,
    /// Whether the server carried the request out and the answer was lost.
    pub lost: bool,
}

struct ProxyState {
    server: Client,
    rules: Mutex<Vec<RefusalRule>>,
    requests: Mutex<Vec<ProxiedRequest>>,
    watches: Mutex<CancellationToken>,
}

impl std::fmt::Debug for ProxyState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProxyState").field("requests", &locked(&self.requests).len()).finish_non_exhaustive()
    }
}

impl RefusalRule {
    /// Refuses `times` requests with this verb and resource, in any namespace.
    pub fn of(verb: &'static str, resource: &'static str, code: u16, times: usize) -> Self {
        let matches = move |request: &AuditRecord| request.verb == verb && request.resource == resource;
        Self { matches: Box::new(matches), answer: FaultyAnswer::Refused { code, retry_after: None }, times }
    }

    /// Loses the answers of `times` requests with this verb and resource, which may name a subresource (`pods/status`).
    pub fn lost(verb: &'static str, resource: &'static str, times: usize) -> Self {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let matches = move |request: &AuditRecord| {
            (request.verb.as_str(), request.resource.as_str(), request.subresource.as_str())
                == (verb, resource, subresource)
        };
        Self { matches: Box::new(matches), answer: FaultyAnswer::Lost, times }
    }

    /// Restricts the rule to one namespace.
    #[must_use]
    pub fn within(self, namespace: &str) -> Self {
        let (matches, namespace) = (self.matches, namespace.to_owned());
        Self { matches: Box::new(move |request| request.namespace == namespace && matches(request)), ..self }
    }

    /// Adds a `Retry-After` header to the refusals.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        if let FaultyAnswer::Refused { retry_after, .. } = &mut self.answer {
            *retry_after = Some(seconds);
        }
        self
    }
}

impl Proxy {
    /// Starts a proxy for this cluster. It forwards all requests as the executor's user.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        Self::start_as(cluster, User::Executor).await
    }

    /// As [`Proxy::start`], with another user.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start_as(cluster: &Cluster, user: User) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listening on loopback")?;
        let url = format!("http://{}", listener.local_addr()?);
        let state = Arc::new(ProxyState {
            server: cluster.client(user).await?,
            rules: Mutex::default(),
            requests: Mutex::default(),
            watches: Mutex::default(),
        });
        let kubeconfig = cluster.dir().join(format!("proxy-of-{}.kubeconfig", user.file_stem()));
        write_kubeconfig(&kubeconfig, &url)?;
        let stop = CancellationToken::new();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(async move { axum::serve(listener, router).with_graceful_shutdown(stopped).await });
        Ok(Self { url, kubeconfig, state, _stop: stop.drop_guard() })
    }

    /// A client that uses the proxy. It does not retry, so that its caller sees every refusal.
    ///
    /// # Errors
    /// The client cannot be created.
    pub fn client(&self) -> Result<Client> {
        client_of(&self.url)
    }

    /// The address, for a [`Wire`](super::Wire) in front of the proxy.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A kubeconfig for programs that use the proxy.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Adds a rule for requests to refuse.
    pub fn refuse(&self, rule: RefusalRule) {
        locked(&self.state.rules).push(rule);
    }

    /// Removes all rules: requests are forwarded again.
    pub fn stop_refusing(&self) {
        locked(&self.state.rules).clear();
    }

    /// Drops the recorded requests. A program that runs for hours calls it, to bound its memory.
    pub fn forget_requests(&self) {
        locked(&self.state.requests).clear();
    }

    /// Ends all open watches.
    pub fn drop_watches(&self) {
        std::mem::take(&mut *locked(&self.state.watches)).cancel();
    }

    /// All answered requests so far. A watch is included as soon as it is open.
    #[must_use]
    pub fn requests(&self) -> Vec<ProxiedRequest> {
        locked(&self.state.requests).clone()
    }
}

impl ProxyState {
    /// What happens to this request; `None` if nothing special does.
    fn fault(&self, request: &AuditRecord) -> Option<FaultyAnswer> {
        let mut rules = locked(&self.rules);
        let found = rules.iter_mut().find(|rule| rule.times > 0 && (rule.matches)(request))?;
        found.times -= 1;
        Some(found.answer)
    }
}

/// A client of this address that sends no credentials and does not retry.
pub(super) fn client_of(url: &str) -> Result<Client> {
    let mut config = Config::new(url.parse()?);
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

async fn answer(State(state): State<Arc<ProxyState>>, request: Request) -> Result<Response, Infallible> {
    let at = Instant::now();
    let (head, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, BODY_LIMIT).await else { return Ok(StatusCode::PAYLOAD_TOO_LARGE.into_response()) };
    let mut record = describe(&head.method, &head.uri);
    if record.verb == "create" && record.name.is_empty() {
        record.name = name_in(&bytes);
    }
    let fault = state.fault(&record);
    let lost = fault == Some(FaultyAnswer::Lost);
    let mut response = match fault {
        Some(FaultyAnswer::Refused { code, retry_after }) => refuse(code, retry_after),
        Some(FaultyAnswer::Lost) | None => {
            forward(&state, http::Request::from_parts(head, bytes.into()), record.verb == "watch").await
        }
    };
    record.code = response.status().as_u16();
    locked(&state.requests).push(ProxiedRequest { at, record, refused: fault.is_some() && !lost, lost });
    if lost {
        // An error in the middle of a body closes the connection.
        let broken = stream::iter([Err::<Bytes, _>(io::Error::from(io::ErrorKind::ConnectionReset))]);
        response = Response::new(Body::from_stream(broken));
    }
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

async fn forward(state: &ProxyState, mut request: http::Request<kube::client::Body>, is_watch: bool) -> Response {
    for name in CONNECTION_HEADERS {
        request.headers_mut().remove(name);
    }
    let dropped = locked(&state.watches).clone();
    let mut response = match state.server.send(request).await {
        Ok(response) => response.map(Body::new),
        Err(error) => return (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    };
    for name in CONNECTION_HEADERS {
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
        "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
        "clusters": [{"name": "proxy", "cluster": {"server": url}}],
        "users": [{"name": "proxy", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
    });
    Ok(fs::write(path, serde_json::to_vec_pretty(&kubeconfig)?)?)
}
