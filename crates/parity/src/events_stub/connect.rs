//! The server's half of unary Connect over HTTP/1.1, binary messages only.

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use prost::Message;
use serde_json::json;

const PROTO: &str = "application/proto";

/// The codes of Connect that a stub has use for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Code {
    InvalidArgument,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    Unimplemented,
    Internal,
    Unavailable,
    Unauthenticated,
}

/// An error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    code: Code,
    message: String,
}

impl Code {
    pub(super) fn because(self, message: &str) -> Refusal {
        Refusal { code: self, message: message.to_owned() }
    }

    /// The name on the wire and the HTTP status that the protocol gives it.
    fn on_the_wire(self) -> (&'static str, StatusCode) {
        match self {
            Self::InvalidArgument => ("invalid_argument", StatusCode::BAD_REQUEST),
            Self::NotFound => ("not_found", StatusCode::NOT_FOUND),
            Self::AlreadyExists => ("already_exists", StatusCode::CONFLICT),
            Self::PermissionDenied => ("permission_denied", StatusCode::FORBIDDEN),
            Self::ResourceExhausted => ("resource_exhausted", StatusCode::TOO_MANY_REQUESTS),
            Self::Unimplemented => ("unimplemented", StatusCode::NOT_IMPLEMENTED),
            Self::Internal => ("internal", StatusCode::INTERNAL_SERVER_ERROR),
            Self::Unavailable => ("unavailable", StatusCode::SERVICE_UNAVAILABLE),
            Self::Unauthenticated => ("unauthenticated", StatusCode::UNAUTHORIZED),
        }
    }
}

/// A real server speaks more; a stub that only takes what we mean to send notices when we send something else.
pub(super) fn check(headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match (text(CONTENT_TYPE), text(CONTENT_ENCODING)) {
        (Some(PROTO), None | Some("identity")) => Ok(()),
        (kind, encoding) => Err(Code::Unimplemented.because(&format!("content {kind:?}, encoding {encoding:?}"))),
    }
}

pub(super) fn decode<M: Message + Default>(body: &Bytes) -> Result<M, Refusal> {
    M::decode(body.clone()).map_err(|error| Code::InvalidArgument.because(&error.to_string()))
}

pub(super) fn encode(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

pub(super) fn respond(outcome: Result<Bytes, Refusal>) -> Response {
    match outcome {
        Ok(body) => ([(CONTENT_TYPE, PROTO)], body).into_response(),
        Err(Refusal { code, message }) => {
            let (name, status) = code.on_the_wire();
            (status, axum::Json(json!({"code": name, "message": message}))).into_response()
        }
    }
}
