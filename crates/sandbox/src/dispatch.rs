//! From a request to an answer.

mod parts;

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, Request, StatusCode, header};
use serde_json::Value;

use crate::faults::Seen;
use crate::kind::Kind;
use crate::patch::Patch;
use crate::request::{Query, Target, Unroutable, resolve};
use crate::server::ApiServer;
use crate::status::ApiError;
use crate::store::Key;
use crate::update::{Part, Update};
use crate::{body, create, delete, discovery, events, garbage, list, openapi, reviews, table, watch};

/// Answers any request.
pub(crate) async fn answer(State(server): State<ApiServer>, request: Request<Body>) -> Response {
    match route(&server, request).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

/// A request whose body is read.
pub(crate) struct Call<'a> {
    pub server: &'a ApiServer,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Call<'_> {
    fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(crate) fn media(&self) -> &str {
        self.header(header::CONTENT_TYPE)
    }

    fn wants_table(&self) -> bool {
        // Every alternative that comes before plain JSON counts.
        let mut alternatives = self.header(header::ACCEPT).split(',').map(|one| one.replace(' ', ""));
        alternatives.any(|one| one.contains("as=Table") && one.contains("v=v1") && one.starts_with("application/json"))
    }

    pub(crate) fn decode(&self, kind: &Kind) -> Result<Value, ApiError> {
        body::decode(kind, self.media(), &self.body, &self.query)
    }
}

async fn route(server: &ApiServer, request: Request<Body>) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let query = Query::parse(head.uri.query());
    if let Some(response) = discovery::answer(server, &path, &head.headers).or_else(|| openapi::answer(server, &path)) {
        return Ok(response);
    }
    let target = match resolve(&server.inner.registry, &path) {
        Ok(target) => target,
        Err(Unroutable::Resource) => return Err(ApiError::no_resource()),
        Err(Unroutable::Page) => {
            let text =
                (StatusCode::NOT_FOUND, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], "404 page not found\n");
            return Ok(text.into_response());
        }
    };
    let verb = verb(&head.method, &target, &query).ok_or_else(ApiError::method_not_allowed)?;
    fail(server, verb, &target).await?;
    let body = axum::body::to_bytes(body, body::LIMIT).await.map_err(|_| ApiError::too_large(body::LIMIT))?;
    let call = Call { server, query, headers: head.headers, body };
    match target {
        Target::Collection { kind, namespace } => on_collection(&call, verb, kind, &namespace).await,
        Target::Object { kind, key, part } if part.is_empty() => on_object(&call, verb, &kind, &key),
        Target::Object { kind, key, part } => parts::on_part(&call, verb, &kind, &key, &part).await,
    }
}

fn verb(method: &Method, target: &Target, query: &Query) -> Option<&'static str> {
    let is_collection = matches!(target, Target::Collection { .. });
    let (kind, is_addressed) = match target {
        Target::Collection { kind, namespace } => (kind, !kind.namespaced || !namespace.is_empty()),
        Target::Object { kind, .. } => (kind, true),
    };
    let has_part = matches!(target, Target::Object { part, .. } if !part.is_empty());
    if kind.traits.virtual_only {
        return (*method == Method::POST && is_collection).then_some("create");
    }
    match (method.as_str(), is_collection) {
        ("GET" | "HEAD", true) if query.flag("watch") => Some("watch"),
        ("GET" | "HEAD", true) => Some("list"),
        ("GET" | "HEAD", false) => Some("get"),
        ("POST", true) if is_addressed => Some("create"),
        ("POST", false) if has_part => Some("create"),
        ("PUT", false) => Some("update"),
        ("PATCH", false) => Some("patch"),
        ("DELETE", true) if is_addressed && !kind.is("namespaces") => Some("deletecollection"),
        ("DELETE", false) if !has_part => Some("delete"),
        _ => None,
    }
}

/// Injected faults come before anything is looked at.
async fn fail(server: &ApiServer, verb: &str, target: &Target) -> Result<(), ApiError> {
    let (resource, namespace, name) = match target {
        Target::Collection { kind, namespace } => (kind.plural.clone(), namespace.as_str(), ""),
        Target::Object { kind, key, part } if part.is_empty() => {
            (kind.plural.clone(), key.namespace.as_str(), key.name.as_str())
        }
        Target::Object { kind, key, part } => {
            (format!("{}/{part}", kind.plural), key.namespace.as_str(), key.name.as_str())
        }
    };
    let (delay, refusal) = server.inner.faults.meet(&Seen { verb, resource: &resource, namespace, name });
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    refusal.map_or(Ok(()), Err)
}

pub(crate) fn json(code: StatusCode, value: &Value) -> Response {
    (code, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// An object as the asker's kind has it.
fn shown(kind: &Kind, code: StatusCode, object: Value) -> Response {
    json(code, &events::from_core(kind, object))
}

async fn on_collection(call: &Call<'_>, verb: &str, kind: Arc<Kind>, namespace: &str) -> Result<Response, ApiError> {
    let Call { server, query, .. } = call;
    match verb {
        "watch" => watch::watch(server, kind, namespace, query, call.wants_table()),
        "list" => {
            let page = list::list(server, &kind, namespace, query)?;
            if call.wants_table() {
                return Ok(json(StatusCode::OK, &table::many(&kind, &page, server.now())));
            }
            Ok(([(header::CONTENT_TYPE, "application/json")], page.encode(&kind)).into_response())
        }
        "create" if kind.traits.virtual_only => {
            let review = call.decode(&kind)?;
            Ok(json(StatusCode::CREATED, &reviews::answer(&kind, review)))
        }
        "create" => {
            let object = call.decode(&kind)?;
            let object = create::create(server, &kind, namespace, query, object).await?;
            garbage::collect_orphan(server, &kind, &Key::of(&object));
            Ok(shown(&kind, StatusCode::CREATED, object))
        }
        _ => {
            let options = delete::Options::read(&call.body, query)?;
            let mut page = list::list(server, &kind, namespace, query)?;
            for stored in &page.items {
                match delete::delete(server, &kind, &stored.key, &options) {
                    Err(error) if error.code != 404 => return Err(error),
                    _ => {}
                }
            }
            page.revision = server.store().revision();
            Ok(([(header::CONTENT_TYPE, "application/json")], page.encode(&kind)).into_response())
        }
    }
}

fn on_object(call: &Call<'_>, verb: &str, kind: &Kind, key: &Key) -> Result<Response, ApiError> {
    let Call { server, query, .. } = call;
    match verb {
        "get" => {
            let stored = server.store().lock().find(kind, key)?;
            if call.wants_table() {
                return Ok(json(StatusCode::OK, &table::one(kind, &stored, server.now())));
            }
            let mut out = Vec::new();
            list::encode_item(kind, &stored, true, &mut out);
            Ok(([(header::CONTENT_TYPE, "application/json")], out).into_response())
        }
        "delete" => {
            let options = delete::Options::read(&call.body, query)?;
            let answer = delete::delete(server, kind, key, &options)?;
            Ok(shown(kind, StatusCode::OK, answer))
        }
        _ => change(call, verb, kind, key, Part::Main),
    }
}

/// PUT or PATCH of an object or of a part of it.
fn change(call: &Call<'_>, verb: &str, kind: &Kind, key: &Key, part: Part) -> Result<Response, ApiError> {
    let is_patch = verb == "patch";
    let update = Update { kind, key, part, is_patch, dry_run: call.query.is_dry_run()? };
    let outcome = if is_patch {
        let patch = Patch::read(kind, call.media(), &call.body, &call.query)?;
        update.run(call.server, |current| patch.try_on(kind, current, &call.query))?
    } else {
        let object = call.decode(kind)?;
        update.run(call.server, |_| Ok(object))?
    };
    let code = if outcome.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(shown(kind, code, outcome.object))
}
