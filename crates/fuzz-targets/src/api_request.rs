//! Any bytes as requests to the API server of the sandbox, which answers them in this process.

use std::time::Duration;

use aileron_action::crd::crd;
use aileron_apiserver::{ApiServer, Options, Snapshot};
use axum::body::{Body, to_bytes};
use futures::FutureExt as _;
use http::{Request, Response};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

use crate::answer::SEPARATOR;
use crate::error::TargetError;

/// How many requests of one input are sent: enough for a create, changes and a deletion, and still quick.
const MAX_REQUESTS: usize = 8;

/// An answer takes well below a millisecond; whoever needs this long waits for something that never comes.
const PATIENCE: Duration = Duration::from_secs(2);

/// Webhooks are registered in this API group. The server would send requests to any address that they name.
const WEBHOOKS: &str = "admissionregistration";

/// Objects that every server has before the first request of an input.
const OBJECTS: [(&str, &str); 3] = [
    ("/api/v1/namespaces/default/configmaps", r#"{"metadata":{"name":"c"},"data":{"a":"b"}}"#),
    (
        "/api/v1/namespaces/default/pods",
        r#"{"metadata":{"name":"q"},"spec":{"containers":[{"name":"m","image":"i"}]}}"#,
    ),
    (
        "/api/v1/namespaces/default/resourcequotas",
        r#"{"metadata":{"name":"r"},"spec":{"hard":{"pods":"100","requests.cpu":"10"}}}"#,
    ),
];

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Sends requests.
pub struct Client {
    runtime: Runtime,
    /// The objects that every server has. Creating them takes longer than the requests of an input, so it is done once.
    prepared: Snapshot,
}

impl Client {
    /// Prepares what all servers need.
    ///
    /// # Errors
    /// When the definition of TaskAction or the runtime cannot be made.
    pub fn new() -> Result<Self, TargetError> {
        let definition = serde_json::to_value(crd()?).unwrap_or_default().to_string();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let server = ApiServer::new(Options::default());
        runtime.block_on(async {
            post(&server, DEFINITIONS, &definition).await;
            for (path, object) in OBJECTS {
                post(&server, path, object).await;
            }
        });
        Ok(Self { runtime, prepared: server.store().snapshot() })
    }

    /// Sends the requests to a new server. [`SEPARATOR`] separates them; the first line of each is method, path and media
    /// type, and the rest is the body.
    pub fn send(&self, data: &[u8]) {
        let server = ApiServer::new(Options::default());
        server.restore(&self.prepared);
        self.runtime.block_on(async {
            let mut separator = [0; 4];
            let separator = SEPARATOR.encode_utf8(&mut separator).as_bytes()[0];
            for part in data.split(|byte| *byte == separator).take(MAX_REQUESTS) {
                let Some(request) = request(part) else { continue };
                let is_head = request.method() == http::Method::HEAD;
                check(answer(&server, request).await, is_head);
            }
        });
    }
}

async fn post(server: &ApiServer, path: &str, object: &str) {
    let line = format!("POST {path} application/json\n{object}");
    let Some(request) = request(line.as_bytes()) else { return };
    let code = answer(server, request).await.status().as_u16();
    assert_eq!(code, 201, "{line}");
}

/// The request that some bytes describe, if a client could send it.
fn request(bytes: &[u8]) -> Option<Request<Body>> {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let line = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let mut request = Request::builder().method(method).uri(path);
    if let Some(media) = words.next() {
        request = request.header("content-type", media).header("accept", media);
    }
    let body = bytes.get(end + 1..).unwrap_or_default().to_vec();
    let request = request.body(Body::from(body)).ok()?;
    let decoded = url::form_urlencoded::parse(request.uri().path().as_bytes()).next();
    let names_webhooks = decoded.is_some_and(|(key, value)| key.contains(WEBHOOKS) || value.contains(WEBHOOKS));
    (!names_webhooks && request.uri().path().starts_with('/')).then_some(request)
}

async fn answer(server: &ApiServer, request: Request<Body>) -> Response<Body> {
    let what = format!("{} {}", request.method(), request.uri());
    let answer = tokio::time::timeout(PATIENCE, server.router().oneshot(request)).await;
    let Ok(Ok(answer)) = answer else {
        assert!(answer.is_ok(), "no answer within {PATIENCE:?}: {what}");
        return Response::default();
    };
    answer
}

/// An error answer in JSON is a `Status` with the same code and a message. The rest of a body that stays open, as that of
/// a watch, is not waited for.
fn check(answer: Response<Body>, is_head: bool) {
    let code = answer.status();
    let is_json = answer.headers().get("content-type").is_some_and(|media| media == "application/json");
    let Some(Ok(body)) = to_bytes(answer.into_body(), usize::MAX).now_or_never() else { return };
    if is_json && !is_head {
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        assert!(!body.is_null(), "the body of an answer with code {code} is not JSON");
        if code.as_u16() >= 400 {
            assert_eq!((&body["kind"], &body["code"]), (&"Status".into(), &code.as_u16().into()), "{body}");
            assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn requests_that_register_webhooks_are_not_sent() {
        let group = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
        for path in [group, &group.replace("admission", "%61dmission"), &format!("{group}?x=1"), &format!("//{group}")]
        {
            assert!(request(format!("POST {path} application/json\n{{}}").as_bytes()).is_none(), "{path}");
        }
        let sent = request(b"PUT /api/v1/namespaces/default/configmaps/c application/json\n{}").unwrap();
        assert_eq!(sent.method(), "PUT");
    }
}
