//! A request on its way to a verb, and the forms of answers.

use std::sync::Arc;

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde_json::Value;

use crate::errors::ApiError;
use crate::kinds::Kind;
use crate::request::{Query, body};
use crate::state::ServerState;
use crate::strategy::events;

/// A request whose body has been received.
pub(super) struct Call<'a> {
    pub state: &'a Arc<ServerState>,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Call<'_> {
    fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(super) fn media_type(&self) -> &str {
        self.header(header::CONTENT_TYPE)
    }

    /// Whether the client accepts a table, as `kubectl get` does. It counts at any place of the Accept header.
    pub(super) fn wants_table(&self) -> bool {
        let mut alternatives = self.header(header::ACCEPT).split(',').map(|one| one.replace(' ', ""));
        alternatives.any(|one| one.contains("as=Table") && one.contains("v=v1") && one.starts_with("application/json"))
    }

    /// The object in the body.
    pub(super) fn decode(&self, kind: &Kind) -> Result<Value, ApiError> {
        body::decode(kind, self.media_type(), &self.body, &self.query)
    }
}

/// An answer in JSON.
pub(super) fn json(code: StatusCode, value: &Value) -> Response {
    (code, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// An answer with an object in the form that the requested kind has.
pub(super) fn object(kind: &Kind, code: StatusCode, object: Value) -> Response {
    json(code, &events::from_core(kind, object))
}
