//! As much of an OpenAPI document as `kubectl` needs to send objects and leave their validation to the server.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::{Map, Value, json};

use crate::kind::Kind;
use crate::server::ApiServer;

/// The second version of the document, of which old `kubectl`s read no other encoding than this.
const OLD: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Answers `/openapi/v2` and the paths below `/openapi/v3`; none for any other.
pub(crate) fn answer(server: &ApiServer, path: &str) -> Option<Response> {
    if path == "/openapi/v2" {
        // No bytes at all are a document that knows no kind, so nothing is checked before it is sent.
        return Some(([(header::CONTENT_TYPE, OLD)], Vec::<u8>::new()).into_response());
    }
    let rest = path.strip_prefix("/openapi/v3")?.trim_matches('/');
    let kinds = server.inner.registry.all();
    let value = if rest.is_empty() {
        let entry = |kind: &Kind| {
            let path = base(kind);
            // The hash lets a client cache the document; a definition changes it.
            let url = format!("/openapi/v3/{path}?hash={}", server.store().revision());
            (path, json!({"serverRelativeURL": url}))
        };
        let paths: Map<String, Value> = kinds.iter().map(|kind| entry(kind)).collect();
        json!({"paths": paths})
    } else {
        let wanted: Vec<_> = kinds.iter().filter(|kind| base(kind) == rest).collect();
        wanted.first()?;
        let (mut paths, mut schemas) = (Map::new(), Map::new());
        for kind in wanted {
            let (path, item) = operations(kind);
            paths.insert(path, item);
            schemas.insert(schema_name(kind), schema(kind));
        }
        json!({
            "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "sandbox"}, "paths": paths,
            "components": {"schemas": schemas},
        })
    };
    Some(crate::dispatch::json(StatusCode::OK, &value))
}

fn base(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("api/{}", kind.version)
    } else {
        format!("apis/{}/{}", kind.group, kind.version)
    }
}

fn schema_name(kind: &Kind) -> String {
    let group = if kind.group.is_empty() { "core" } else { &kind.group };
    format!("sandbox.{group}.{}.{}", kind.version, kind.kind)
}

fn gvk(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

/// A definition's schema as it is; of built-in kinds only that they are objects.
fn schema(kind: &Kind) -> Value {
    let known = kind.definition().map(|definition| definition.schema(&kind.version).clone());
    let mut schema = known
        .filter(Value::is_object)
        .unwrap_or_else(|| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    schema["x-kubernetes-group-version-kind"] = json!([gvk(kind)]);
    schema
}

fn operations(kind: &Kind) -> (String, Value) {
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation"].into_iter().map(parameter).collect();
    let content =
        json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{}", schema_name(kind))}}});
    let operation = |action: &str| {
        json!({
            "parameters": parameters, "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk(kind),
            "requestBody": {"content": content}, "responses": {"200": {"description": "OK", "content": content}},
        })
    };
    let place = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    let path = format!("/{}{place}/{}", base(kind), kind.plural);
    (path, json!({"post": operation("post"), "put": operation("put"), "patch": operation("patch")}))
}
