//! The connection between a program and the API server: records every write, and injects faults into requests, answers
//! and watches.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use aileron_apiserver::ApiServer;
use aileron_lease::LEASE_NAME;
use axum::body::Body;
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower::{BoxError, Service, ServiceExt};

use super::faults::Faults;
use super::history::{History, Renumbering, RequestLine, STALE_ANSWER, What};
use super::patterns::{Disturbance, Pattern};
use super::process::Process;

/// Longest time that a delayed request or answer takes.
const LONGEST_DELAY_MS: u64 = 5_000;
/// Answers of lists and reads that are kept for later stale answers, for each address.
const OLD_ANSWERS: usize = 3;
/// How long a watch shows nothing in the patterns of missed and late changes: longer than the pods of a task live.
const BLIND_FOR: Duration = Duration::from_secs(20);

/// What all connections of a run share.
#[derive(Debug)]
pub struct Shared {
    /// The API server.
    pub server: ApiServer,
    /// The history of the run.
    pub history: History,
    /// The faults of the run.
    pub faults: Faults,
    /// The systematic disturbance of the run, if it has one.
    pub pattern: Pattern,
    /// The API server answers nobody until this time.
    pub outage: Mutex<Option<Instant>>,
    /// Who leads, and since when the lease is unchanged.
    leader: Mutex<Option<(String, Duration, Instant)>>,
    /// Writes of executors so far.
    pub writes: AtomicU64,
    /// Changes that watches of executors delivered so far.
    pub changes: AtomicU64,
    old_answers: Mutex<BTreeMap<String, Vec<Bytes>>>,
    /// How revisions went backwards.
    renumbering: Arc<Mutex<Renumbering>>,
}

impl Shared {
    /// The shared state of a run.
    #[must_use]
    pub fn new(
        server: ApiServer,
        history: History,
        faults: Faults,
        pattern: Pattern,
        renumbering: Arc<Mutex<Renumbering>>,
    ) -> Self {
        Self {
            server,
            history,
            faults,
            pattern,
            outage: Mutex::default(),
            leader: Mutex::default(),
            writes: AtomicU64::default(),
            changes: AtomicU64::default(),
            old_answers: Mutex::default(),
            renumbering,
        }
    }

    /// How revisions went backwards.
    #[must_use]
    pub fn renumbering(&self) -> Renumbering {
        *lock(&self.renumbering)
    }

    /// Lets the revisions of the API server begin again. Old answers would have revisions of the future.
    pub fn renumber(&self) {
        let mut renumbering = lock(&self.renumbering);
        renumbering.offset += self.server.store().revision();
        self.server.store().renumber();
        renumbering.first = self.server.store().revision();
        // The first change afterwards has a higher revision in the history than any before.
        renumbering.offset -= renumbering.first;
        lock(&self.old_answers).clear();
        self.server.faults().drop_watches();
    }

    /// Whether this process holds a lease that has not expired, as the API server sees it.
    #[must_use]
    pub fn leads(&self, identity: &str) -> bool {
        lock(&self.leader)
            .as_ref()
            .is_some_and(|(holder, duration, since)| holder == identity && since.elapsed() < *duration)
    }

    fn lease_written(&self) {
        let Some(lease) = self.server.store().object("leases.coordination.k8s.io", "flyte", LEASE_NAME) else { return };
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        let seconds = lease["spec"]["leaseDurationSeconds"].as_u64().unwrap_or_default();
        *lock(&self.leader) = Some((holder, Duration::from_secs(seconds), Instant::now()));
    }
}

/// A connection of one program.
#[derive(Clone, Debug)]
pub struct Network {
    shared: Arc<Shared>,
    who: Arc<str>,
    /// The executor process behind this connection. Other programs have no faults.
    process: Option<Arc<Process>>,
}

impl Network {
    /// A client of an executor process.
    #[must_use]
    pub fn of_executor(shared: &Arc<Shared>, process: &Arc<Process>) -> kube::Client {
        let network =
            Self { shared: Arc::clone(shared), who: process.name.clone(), process: Some(Arc::clone(process)) };
        kube::Client::new(network, "default")
    }

    /// A client of another program: node, operator, user. Its requests do not fail.
    #[must_use]
    pub fn of_other(shared: &Arc<Shared>, who: &str) -> kube::Client {
        kube::Client::new(Self { shared: Arc::clone(shared), who: who.into(), process: None }, "default")
    }

    async fn exchange(self, request: Request<kube::client::Body>) -> Result<Response<Body>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let line = RequestLine::read(&head.method, &head.uri);
        let Some(process) = self.process.clone() else {
            // Only executors are simulated in full. Other programs list again when they watch from a revision of the future.
            if line.verb == "watch" && watched_from(&head.uri) > self.shared.server.store().revision() {
                return Ok(Response::new(Body::from(expired())));
            }
            return self.apply(&line, &head, &body).await;
        };
        let random = self.shared.faults.random_numbers();
        sleep(random.millis(0, 8)).await;
        // Before the request leaves the process: it may be paused meanwhile, or lose the lease.
        if self.shared.faults.hits(self.shared.faults.rates.delayed) {
            sleep(random.millis(1, LONGEST_DELAY_MS)).await;
        }
        process.running().await;
        let outage = *lock(&self.shared.outage);
        if let Some(until) = outage.filter(|until| *until > Instant::now()) {
            if random.chance(0.3) {
                tokio::time::sleep_until(until).await;
            }
            return Err("connection refused".into());
        }
        if process.is_cut(&line).is_some() {
            process.until_reachable(&line).await;
            return Err("connection reset".into());
        }
        let mut disturbance = None;
        if line.is_write() {
            let is_lease = line.resource == "leases" && line.namespace == "flyte";
            if !is_lease {
                let number = self.shared.writes.fetch_add(1, Ordering::Relaxed);
                disturbance = self.shared.pattern.at_write(number);
                let leads = self.shared.leads(&process.name);
                self.shared.history.add(What::Sent { process: self.who.clone(), request: line.clone(), leads });
            }
        }
        if disturbance == Some(Disturbance::CrashBefore) {
            process.kill(&self.shared.history);
        }
        process.running().await;
        let (faults, rates) = (&self.shared.faults, &self.shared.faults.rates);
        if let Some(Disturbance::Refused(code)) = disturbance {
            self.shared.history.note(format!("refused with {code}: {line}"));
            return Ok(if code == 403 { quota_refusal(&line) } else { refusal(code) });
        }
        if faults.hits(rates.lost_request) {
            return Err("connection reset before the request was sent".into());
        }
        if faults.hits(rates.delayed) {
            sleep(random.millis(1, LONGEST_DELAY_MS)).await;
        }
        if faults.hits(rates.refused) {
            let code = random.pick(&[409, 429, 500, 503, 504]).copied().unwrap_or(503);
            return Ok(refusal(code));
        }
        // Kubernetes answers these requests from the present state. Other kinds are read from old states all the same: nothing
        // breaks by it. What the executor decides on is its actions; those are outdated only where a watch is late.
        let address = head.uri.to_string();
        let may_be_stale = line.resource != "taskactions";
        if faults.hits(rates.stale_list) && matches!(line.verb, "list" | "get") && may_be_stale {
            let old = lock(&self.shared.old_answers).get(&address).and_then(|all| all.first().cloned());
            if let Some(old) = old {
                self.shared.history.note(format!("{STALE_ANSWER} for {} {line}", self.who));
                return Ok(Response::new(Body::from(old)));
            }
        }
        if line.is_write() && faults.hits(rates.duplicated) {
            self.shared.history.note(format!("duplicated: {line}"));
            self.apply(&line, &head, &body).await?;
        }
        let answer = self.apply(&line, &head, &body).await?;
        if disturbance == Some(Disturbance::CrashAfter) {
            process.kill(&self.shared.history);
        }
        process.running().await;
        if line.verb == "watch" {
            return Ok(self.watch(answer, process));
        }
        if faults.hits(rates.hanging) {
            self.shared.history.note(format!("hangs after it was applied: {line}"));
            std::future::pending::<()>().await;
        }
        if disturbance == Some(Disturbance::LostAnswer) || faults.hits(rates.lost_answer) {
            self.shared.history.note(format!("answer lost: {line}"));
            return Err("connection reset before the answer arrived".into());
        }
        if faults.hits(rates.delayed) {
            sleep(random.millis(1, LONGEST_DELAY_MS)).await;
        }
        sleep(random.millis(0, 8)).await;
        process.running().await;
        Ok(answer)
    }

    /// Carries a request out, and records what came of it.
    async fn apply(
        &self,
        line: &RequestLine,
        head: &http::request::Parts,
        body: &Bytes,
    ) -> Result<Response<Body>, BoxError> {
        let mut request = Request::new(Body::from(body.clone()));
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = head.uri.clone();
        *request.headers_mut() = head.headers.clone();
        let answer = self.shared.server.router().oneshot(request).await?;
        if line.verb == "watch" {
            return Ok(answer);
        }
        let (answer_head, body) = answer.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await?;
        if line.is_write() {
            if line.resource == "leases" {
                self.shared.lease_written();
            }
            let object: Value = serde_json::from_slice(&body).unwrap_or_default();
            let version =
                object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse::<u64>().ok());
            let version = version.map(|version| version + self.shared.renumbering().offset);
            let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
            let code = answer_head.status.as_u16();
            let (who, request) = (self.who.clone(), line.clone());
            self.shared.history.add(What::Answered { who, request, code, uid, version });
        } else if self.process.is_some() && answer_head.status == StatusCode::OK {
            let mut old = lock(&self.shared.old_answers);
            let answers = old.entry(head.uri.to_string()).or_default();
            answers.push(body.clone());
            if answers.len() > OLD_ANSWERS {
                answers.remove(0);
            }
        }
        Ok(Response::from_parts(answer_head, Body::from(body)))
    }

    /// A watch whose changes may come late or not at all.
    fn watch(&self, answer: Response<Body>, process: Arc<Process>) -> Response<Body> {
        let (head, body) = answer.into_parts();
        let chunks = body.into_data_stream();
        let watch = Some((chunks, Arc::clone(&self.shared), process));
        let delivered = stream::unfold(watch, |watch| async move {
            let (mut chunks, shared, process) = watch?;
            let chunk = chunks.next().await?;
            process.running().await;
            let line =
                RequestLine { verb: "watch", resource: String::new(), namespace: String::new(), name: String::new() };
            if process.is_cut(&line).is_some() {
                process.until_reachable(&line).await;
                return Some((Err("watch interrupted".into()), None));
            }
            let number = shared.changes.fetch_add(1, Ordering::Relaxed);
            match shared.pattern.at_change(number) {
                Some(Disturbance::Unobserved) => {
                    shared.history.note("a watch shows nothing for a while, and then lists again");
                    sleep(BLIND_FOR).await;
                    return Some((Ok(expired()), None));
                }
                Some(Disturbance::Late) => {
                    shared.history.note("a watch shows a change late");
                    sleep(BLIND_FOR).await;
                }
                _ => {}
            }
            let (faults, rates) = (&shared.faults, &shared.faults.rates);
            if faults.hits(rates.watch_cut) {
                return Some((Err("watch interrupted".into()), None));
            }
            if faults.hits(rates.watch_expired) {
                return Some((Ok(expired()), None));
            }
            if faults.hits(rates.watch_delayed) {
                sleep(faults.random_numbers().millis(1, LONGEST_DELAY_MS)).await;
            }
            sleep(faults.random_numbers().millis(0, 5)).await;
            process.running().await;
            Some((chunk.map_err(BoxError::from), Some((chunks, shared, process))))
        });
        Response::from_parts(head, Body::from_stream(delivered))
    }
}

impl Service<Request<kube::client::Body>> for Network {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        Box::pin(self.clone().exchange(request))
    }
}

fn refusal(code: u16) -> Response<Body> {
    let reason = match code {
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    status_answer(code, reason, "injected fault")
}

/// The answer to a create request that would exceed a quota.
fn quota_refusal(line: &RequestLine) -> Response<Body> {
    let resource = &line.resource;
    let message = format!(
        "{resource} \"{}\" is forbidden: exceeded quota: test, requested: count/{resource}=1, used: count/{resource}=1, \
         limited: count/{resource}=1",
        line.name
    );
    status_answer(403, "Forbidden", &message)
}

fn status_answer(code: u16, reason: &str, message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    let mut response = Response::new(Body::from(status.to_string()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

/// The revision after which a watch begins.
fn watched_from(uri: &http::Uri) -> u64 {
    let mut parameters = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    parameters
        .find(|(name, _)| *name == "resourceVersion")
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or_default()
}

/// The last line of a watch whose revision is too old.
fn expired() -> Bytes {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    });
    Bytes::from(format!("{}\n", json!({"type": "ERROR", "object": status})))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
