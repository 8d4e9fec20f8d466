//! Records the requests to the sandbox in the shape of a real server's audit log.

use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode, Uri, header};
use jiff::Timestamp;
use serde_json::Value;

use super::{AuditRecord, TimedRequest, User, locked};

/// Limit for request bodies. It is larger than the server's own limit, so the server refuses bodies that are too large.
pub(super) const BODY_LIMIT: usize = 16 << 20;
/// How many of the last requests an error message shows.
const TAIL: usize = 40;

/// All requests so far, oldest first.
#[derive(Debug, Default)]
pub(super) struct Journal {
    records: Mutex<Vec<TimedRequest>>,
}

impl Journal {
    pub(super) fn of(&self, user: User) -> Vec<AuditRecord> {
        let records = locked(&self.records);
        records.iter().filter(|request| request.user == user).map(|request| request.record.clone()).collect()
    }

    /// The requests from this number on, counted from 0.
    pub(super) fn since(&self, first: usize) -> Vec<TimedRequest> {
        locked(&self.records).get(first..).unwrap_or_default().to_vec()
    }

    pub(super) fn tail(&self) -> String {
        let records = locked(&self.records);
        let last = &records[records.len().saturating_sub(TAIL)..];
        let line = |TimedRequest { user, record, .. }: &TimedRequest| {
            format!("{user:?} {} {} {}\n", record.verb, record.uri, record.code)
        };
        last.iter().map(line).collect()
    }
}

/// Rejects unknown users and records the requests of the others. A request is recorded when its answer begins, so that
/// open watches are included.
pub(super) async fn record(State(journal): State<Arc<Journal>>, mut request: Request, next: Next) -> Response {
    let received = Timestamp::now();
    let Some(user) = identify(&mut request) else { return StatusCode::UNAUTHORIZED.into_response() };
    let mut record = describe(request.method(), request.uri());
    if record.verb == "create" && record.name.is_empty() {
        let (head, body) = request.into_parts();
        let Ok(bytes) = to_bytes(body, BODY_LIMIT).await else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
        record.name = name_in(&bytes);
        request = Request::from_parts(head, Body::from(bytes));
    }
    let response = next.run(request).await;
    record.code = response.status().as_u16();
    locked(&journal.records).push(TimedRequest { user, received, completed: Timestamp::now(), record });
    response
}

/// Finds the user by the token in the header or in the first part of the path. That part is then removed.
fn identify(request: &mut Request) -> Option<User> {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let by_header = User::ALL.into_iter().find(|user| given.strip_prefix("Bearer ") == Some(&user.token()));
    let whole = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let part = whole.strip_prefix('/').unwrap_or_default();
    let (first, rest) = part.find('/').map_or((part, "/"), |end| part.split_at(end));
    let by_path = User::ALL.into_iter().find(|user| first == user.token());
    if by_path.is_some()
        && let Ok(uri) = rest.parse()
    {
        *request.uri_mut() = uri;
    }
    by_header.or(by_path)
}

/// Derives verb, resource and name of a request by the rules of kube-apiserver's RequestInfo.
pub(super) fn describe(method: &Method, uri: &Uri) -> AuditRecord {
    let parts: Vec<_> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    let rest = match parts.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => &[],
    };
    let (namespace, rest) = match rest {
        ["namespaces", name] | ["namespaces", name, "status" | "finalize"] => (*name, rest),
        ["namespaces", name, rest @ ..] => (*name, rest),
        rest => ("", rest),
    };
    let part = |place: usize| rest.get(place).copied().unwrap_or_default().to_owned();
    let is_watch = uri.query().unwrap_or_default().split('&').any(|pair| pair == "watch=true" || pair == "watch=1");
    let verb = match (method.as_str(), rest.len()) {
        ("GET" | "HEAD", 1) if is_watch => "watch",
        ("GET" | "HEAD", 1) => "list",
        ("GET" | "HEAD", _) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", 1) => "deletecollection",
        _ => "delete",
    };
    AuditRecord {
        verb: verb.to_owned(),
        resource: part(0),
        subresource: part(2),
        namespace: namespace.to_owned(),
        name: part(1),
        code: 0,
        uri: uri.to_string(),
    }
}

pub(super) fn name_in(body: &Bytes) -> String {
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_described_as_the_real_server_does() {
        let described = |method: &str, uri: &str| {
            let record = describe(&method.parse().unwrap(), &uri.parse().unwrap());
            [record.verb, record.namespace, record.resource, record.name, record.subresource].join(" ")
        };
        assert_eq!(described("GET", "/api/v1/namespaces/n/pods/p/log"), "get n pods p log");
        assert_eq!(described("GET", "/api/v1/pods?limit=5&watch=true"), "watch  pods  ");
        assert_eq!(described("DELETE", "/apis/flyte.org/v1/namespaces/n/things"), "deletecollection n things  ");
        assert_eq!(described("PUT", "/api/v1/namespaces/n/finalize"), "update n namespaces n finalize");
        assert_eq!(described("GET", "/version"), "get    ");
    }
}
