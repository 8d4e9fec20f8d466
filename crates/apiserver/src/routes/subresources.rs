//! Requests of subresources, such as `pods/binding`.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::call::{self, Call};
use super::{change, logs};
use crate::controllers::garbage;
use crate::errors::{ApiError, Cause};
use crate::kinds::Kind;
use crate::object::{Key, is_terminating, string_map, timestamp};
use crate::request;
use crate::strategy::pods;
use crate::verbs::delete;
use crate::verbs::update::UpdateTarget;

pub(super) fn answer(
    call: &Call<'_>,
    verb: &str,
    kind: &Kind,
    key: &Key,
    subresource: &str,
) -> Result<Response, ApiError> {
    match (&*kind.resource, subresource, verb) {
        (_, "status", _) if !kind.behaviour.has_status => {}
        (_, "status", "get") => {
            let stored = call.state.store.lock().find(kind, key)?;
            return Ok(call::object(kind, StatusCode::OK, stored.object(kind)));
        }
        (_, "status", "update" | "patch") => return change(call, verb, kind, key, UpdateTarget::Status),
        ("namespaces", "finalize", "update") => return change(call, verb, kind, key, UpdateTarget::Finalizers),
        ("pods", "log", "get") => return logs::answer(call, kind, key),
        ("pods", "binding", "create") => return bind(call, kind, key),
        ("pods", "eviction", "create") => return evict(call, kind, key),
        ("serviceaccounts", "token", "create") => return Ok(token(call)),
        _ => {}
    }
    // For custom resources, kube-apiserver looks for the object before it reports the unknown subresource.
    if kind.definition().is_some() {
        call.state.store.lock().find(kind, key)?;
    }
    Err(ApiError::no_resource())
}

fn success() -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    call::json(StatusCode::CREATED, &status)
}

fn body(call: &Call<'_>, kind: &str) -> Result<Value, ApiError> {
    request::body::parse(kind, call.media_type(), &call.body)
}

/// Assigns a pod to a node, as a scheduler requests it.
fn bind(call: &Call<'_>, kind: &Kind, key: &Key) -> Result<Response, ApiError> {
    let binding = body(call, "Binding")?;
    let node = binding["target"]["name"].as_str().unwrap_or_default();
    if node.is_empty() {
        let cause = Cause::required("target.name", "");
        return Err(ApiError::invalid_named("", "Binding", &key.name, &[cause]));
    }
    let state = call.state;
    let mut transaction = state.store.lock();
    let mut pod = transaction.find(kind, key)?.object(kind);
    if is_terminating(&pod) {
        let text = format!("pod {} is being deleted, cannot be assigned to a host", key.name);
        return Err(ApiError::conflict_on_subresource(kind, "binding", &key.name, &text));
    }
    let assigned = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    if pods::bind(&mut pod, node, &timestamp(state.now())).is_none() {
        let text = format!("pod {} is already assigned to node \"{assigned}\"", key.name);
        return Err(ApiError::conflict_on_subresource(kind, "binding", &key.name, &text));
    }
    for (name, value) in string_map(&binding["metadata"]["annotations"]) {
        pod["metadata"]["annotations"][name] = value.into();
    }
    let stored = transaction.put(kind, pod);
    garbage::after_write(state, &mut transaction, kind, &stored);
    Ok(success())
}

fn evict(call: &Call<'_>, kind: &Kind, key: &Key) -> Result<Response, ApiError> {
    let eviction = body(call, "Eviction")?;
    let options = match &eviction["deleteOptions"] {
        Value::Null => Vec::new(),
        options => options.to_string().into_bytes(),
    };
    let options = delete::DeletionOptions::read(&options, &call.query)?;
    delete::delete(call.state, kind, key, &options)?;
    Ok(success())
}

/// A token for a service account. This server has one user and never checks the token.
fn token(call: &Call<'_>) -> Response {
    let state = call.state;
    let hour = jiff::SignedDuration::from_hours(1);
    let expiry = state.now().checked_add(hour).unwrap_or_else(|_| state.now());
    let status = json!({"token": state.random.token(), "expirationTimestamp": timestamp(expiry)});
    let request = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {"audiences": []},
        "status": status,
    });
    call::json(StatusCode::CREATED, &request)
}
