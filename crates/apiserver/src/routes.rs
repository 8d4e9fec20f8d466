//! From an HTTP request to the verb that handles it, and back to a response.

mod call;
mod discovery;
mod logs;
mod openapi;
mod reviews;
mod subresources;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{Method, Request, StatusCode, header};

use self::call::Call;
use crate::controllers::garbage;
use crate::errors::ApiError;
use crate::kinds::Kind;
use crate::object::Key;
use crate::request::{Query, Target, Unroutable, body, resolve};
use crate::state::ServerState;
use crate::state::faults::RequestInfo;
use crate::verbs::patch::Patch;
use crate::verbs::update::{Update, UpdateTarget};
use crate::verbs::{create, delete, list, table, watch};

/// Answers any request.
pub(crate) async fn answer(State(state): State<Arc<ServerState>>, request: Request<Body>) -> Response {
    match route(&state, request).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

async fn route(state: &Arc<ServerState>, request: Request<Body>) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let query = Query::parse(head.uri.query());
    if let Some(response) = discovery::answer(state, &path, &head.headers).or_else(|| openapi::answer(state, &path)) {
        return Ok(response);
    }
    let target = match resolve(&state.registry, &path) {
        Ok(target) => target,
        Err(Unroutable::Resource) => return Err(ApiError::no_resource()),
        Err(Unroutable::Page) => {
            let text =
                (StatusCode::NOT_FOUND, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], "404 page not found\n");
            return Ok(text.into_response());
        }
    };
    let verb = verb(&head.method, &target, &query).ok_or_else(ApiError::method_not_allowed)?;
    inject_faults(state, verb, &target).await?;
    let body = axum::body::to_bytes(body, body::MAX_BYTES).await.map_err(|_| ApiError::too_large(body::MAX_BYTES))?;
    let call = Call { state, query, headers: head.headers, body };
    match target {
        Target::Collection { kind, namespace } => on_collection(&call, verb, kind, &namespace).await,
        Target::Object { kind, key, subresource } if subresource.is_empty() => on_object(&call, verb, &kind, &key),
        Target::Object { kind, key, subresource } => subresources::answer(&call, verb, &kind, &key, &subresource),
    }
}

fn verb(method: &Method, target: &Target, query: &Query) -> Option<&'static str> {
    let is_collection = matches!(target, Target::Collection { .. });
    let (kind, is_addressed) = match target {
        Target::Collection { kind, namespace } => (kind, !kind.namespaced || !namespace.is_empty()),
        Target::Object { kind, .. } => (kind, true),
    };
    let has_subresource = matches!(target, Target::Object { subresource, .. } if !subresource.is_empty());
    if kind.behaviour.create_only {
        return (*method == Method::POST && is_collection).then_some("create");
    }
    match (method.as_str(), is_collection) {
        ("GET" | "HEAD", true) if query.flag("watch") => Some("watch"),
        ("GET" | "HEAD", true) => Some("list"),
        ("GET" | "HEAD", false) => Some("get"),
        ("POST", true) if is_addressed => Some("create"),
        ("POST", false) if has_subresource => Some("create"),
        ("PUT", false) => Some("update"),
        ("PATCH", false) => Some("patch"),
        ("DELETE", true) if is_addressed && !kind.is("namespaces") => Some("deletecollection"),
        ("DELETE", false) if !has_subresource => Some("delete"),
        _ => None,
    }
}

/// Applies injected faults, before the request is read any further.
async fn inject_faults(state: &ServerState, verb: &str, target: &Target) -> Result<(), ApiError> {
    let (resource, namespace, name) = match target {
        Target::Collection { kind, namespace } => (kind.plural.clone(), namespace.as_str(), ""),
        Target::Object { kind, key, subresource } if subresource.is_empty() => {
            (kind.plural.clone(), key.namespace.as_str(), key.name.as_str())
        }
        Target::Object { kind, key, subresource } => {
            (format!("{}/{subresource}", kind.plural), key.namespace.as_str(), key.name.as_str())
        }
    };
    let (delay, refusal) = state.faults.outcome(&RequestInfo { verb, resource: &resource, namespace, name });
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    refusal.map_or(Ok(()), Err)
}

async fn on_collection(call: &Call<'_>, verb: &str, kind: Arc<Kind>, namespace: &str) -> Result<Response, ApiError> {
    let Call { state, query, .. } = call;
    match verb {
        "watch" => watch::watch(state, kind, namespace, query, call.wants_table()),
        "list" => {
            let page = list::list(state, &kind, namespace, query)?;
            if call.wants_table() {
                return Ok(call::json(StatusCode::OK, &table::list(&kind, &page.items, &page.metadata(), state.now())));
            }
            Ok(([(header::CONTENT_TYPE, "application/json")], page.encode(&kind)).into_response())
        }
        "create" if kind.behaviour.create_only => {
            let review = call.decode(&kind)?;
            Ok(call::json(StatusCode::CREATED, &reviews::answer(&kind, review)))
        }
        "create" => {
            let object = call.decode(&kind)?;
            let object = create::create(state, &kind, namespace, query, object).await?;
            garbage::collect_orphan(state, &kind, &Key::of(&object));
            Ok(call::object(&kind, StatusCode::CREATED, object))
        }
        _ => {
            let options = delete::DeletionOptions::read(&call.body, query)?;
            let mut page = list::list(state, &kind, namespace, query)?;
            for stored in &page.items {
                match delete::delete(state, &kind, &stored.key, &options) {
                    Err(error) if error.code != 404 => return Err(error),
                    _ => {}
                }
            }
            page.revision = state.store.revision();
            Ok(([(header::CONTENT_TYPE, "application/json")], page.encode(&kind)).into_response())
        }
    }
}

fn on_object(call: &Call<'_>, verb: &str, kind: &Kind, key: &Key) -> Result<Response, ApiError> {
    let Call { state, query, .. } = call;
    match verb {
        "get" => {
            let stored = state.store.lock().find(kind, key)?;
            if call.wants_table() {
                return Ok(call::json(StatusCode::OK, &table::object(kind, &stored, state.now())));
            }
            let mut out = Vec::new();
            list::encode_item(kind, &stored, true, &mut out);
            Ok(([(header::CONTENT_TYPE, "application/json")], out).into_response())
        }
        "delete" => {
            let options = delete::DeletionOptions::read(&call.body, query)?;
            let answer = delete::delete(state, kind, key, &options)?;
            Ok(call::object(kind, StatusCode::OK, answer))
        }
        _ => change(call, verb, kind, key, UpdateTarget::Object),
    }
}

/// PUT or PATCH of an object or of one of its subresources.
fn change(call: &Call<'_>, verb: &str, kind: &Kind, key: &Key, target: UpdateTarget) -> Result<Response, ApiError> {
    let is_patch = verb == "patch";
    let update = Update { kind, key, target, is_patch, dry_run: call.query.is_dry_run()? };
    let outcome = if is_patch {
        let patch = Patch::read(kind, call.media_type(), &call.body, &call.query)?;
        update.run(call.state, |current| patch.apply(kind, current, &call.query))?
    } else {
        let object = call.decode(kind)?;
        update.run(call.state, |_| Ok(object))?
    };
    let code = if outcome.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(call::object(kind, code, outcome.object))
}
