//! Parts of objects that have addresses of their own.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::{Call, change, json as respond, shown};
use crate::kind::Kind;
use crate::status::ApiError;
use crate::store::Key;
use crate::update::Part;
use crate::{delete, garbage, logs, metadata, pods};

pub(super) async fn on_part(
    call: &Call<'_>,
    verb: &str,
    kind: &Kind,
    key: &Key,
    part: &str,
) -> Result<Response, ApiError> {
    match (&*kind.place, part, verb) {
        (_, "status", _) if !kind.traits.has_status => {}
        (_, "status", "get") => {
            let stored = call.server.store().lock().find(kind, key)?;
            return Ok(shown(kind, StatusCode::OK, stored.object(kind)));
        }
        (_, "status", "update" | "patch") => return change(call, verb, kind, key, Part::Status),
        ("namespaces", "finalize", "update") => return change(call, verb, kind, key, Part::Finalize),
        ("pods", "log", "get") => return logs::answer(call, kind, key).await,
        ("pods", "binding", "create") => return bind(call, kind, key),
        ("pods", "eviction", "create") => return evict(call, kind, key),
        ("serviceaccounts", "token", "create") => return Ok(token(call)),
        _ => {}
    }
    // Custom resources look for the object before they say that they have no such part.
    if kind.definition().is_some() {
        call.server.store().lock().find(kind, key)?;
    }
    Err(ApiError::no_resource())
}

fn success() -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    respond(StatusCode::CREATED, &status)
}

fn body(call: &Call<'_>, kind: &str) -> Result<Value, ApiError> {
    crate::body::parse(kind, call.media(), &call.body)
}

/// A scheduler puts a pod on a node.
fn bind(call: &Call<'_>, kind: &Kind, key: &Key) -> Result<Response, ApiError> {
    let binding = body(call, "Binding")?;
    let node = binding["target"]["name"].as_str().unwrap_or_default();
    if node.is_empty() {
        let cause = crate::status::Cause::required("target.name", "");
        return Err(ApiError::invalid_named("", "Binding", &key.name, &[cause]));
    }
    let server = call.server;
    let mut transaction = server.store().lock();
    let mut pod = transaction.find(kind, key)?.object(kind);
    if crate::object::is_terminating(&pod) {
        let text = format!("pod {} is being deleted, cannot be assigned to a host", key.name);
        return Err(ApiError::conflict_on_part(kind, "binding", &key.name, &text));
    }
    let assigned = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    if pods::bind(&mut pod, node, &metadata::seconds(server.now())).is_none() {
        let text = format!("pod {} is already assigned to node \"{assigned}\"", key.name);
        return Err(ApiError::conflict_on_part(kind, "binding", &key.name, &text));
    }
    for (name, value) in crate::object::text_map(&binding["metadata"]["annotations"]) {
        pod["metadata"]["annotations"][name] = value.into();
    }
    let stored = transaction.put(kind, pod);
    garbage::after_write(server, &mut transaction, kind, &stored);
    Ok(success())
}

fn evict(call: &Call<'_>, kind: &Kind, key: &Key) -> Result<Response, ApiError> {
    let eviction = body(call, "Eviction")?;
    let options = match &eviction["deleteOptions"] {
        Value::Null => Vec::new(),
        options => options.to_string().into_bytes(),
    };
    let options = delete::Options::read(&options, &call.query)?;
    delete::delete(call.server, kind, key, &options)?;
    Ok(success())
}

/// A token for a service account: there is one user here, and the token is never looked at again.
fn token(call: &Call<'_>) -> Response {
    let server = call.server;
    let hour = jiff::SignedDuration::from_hours(1);
    let expiry = server.now().checked_add(hour).unwrap_or_else(|_| server.now());
    let status = json!({"token": server.new_token(), "expirationTimestamp": metadata::seconds(expiry)});
    let request = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {"audiences": []},
        "status": status,
    });
    respond(StatusCode::CREATED, &request)
}
