//! The part of an OpenAPI document that `kubectl` needs in order to leave validation to the server.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::{Map, Value, json};

use super::call;
use crate::kinds::Kind;
use crate::state::ServerState;

/// Media type of OpenAPI version 2. Old versions of `kubectl` read it in this encoding only.
const V2_MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Answers `/openapi/v2` and the paths below `/openapi/v3`; `None` for all other paths.
pub(super) fn answer(state: &ServerState, path: &str) -> Option<Response> {
    if path == "/openapi/v2" {
        // An empty body is a document without kinds. `kubectl` then validates nothing before it sends an object.
        return Some(([(header::CONTENT_TYPE, V2_MEDIA_TYPE)], Vec::<u8>::new()).into_response());
    }
    let rest = path.strip_prefix("/openapi/v3")?.trim_matches('/');
    let kinds = state.registry.all();
    let value = if rest.is_empty() {
        let entry = |kind: &Kind| {
            let path = base(kind);
            // Clients cache the document by this hash. Every write changes it, also that of a CustomResourceDefinition.
            let url = format!("/openapi/v3/{path}?hash={}", state.store.revision());
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
    Some(call::json(StatusCode::OK, &value))
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

/// The schema of a custom resource. For a built-in kind, a schema that accepts every object.
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
    let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    let path = format!("/{}{scope}/{}", base(kind), kind.plural);
    (path, json!({"post": operation("post"), "put": operation("put"), "patch": operation("patch")}))
}
