//! The server's half of the Connect protocol: unary calls over HTTP/1.1 with protobuf messages.

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use prost::Message;
use serde_json::json;

const PROTO: &str = "application/proto";

/// The error codes of the Connect protocol that the local services use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the protocol")]
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

/// A call that is answered with an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What kind of error.
    pub code: Code,
    /// The message for people.
    pub message: String,
}

impl Code {
    /// An error answer with this code.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Refusal {
        Refusal { code: self, message: message.into() }
    }

    /// The code's name in an answer, and the HTTP status that the protocol assigns to it.
    fn name_and_status(self) -> (&'static str, StatusCode) {
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

/// Refuses content types and encodings that our own client never sends.
///
/// A real server accepts more. A strict server makes a test fail when the client starts to send something else.
pub(crate) fn check_headers(headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match (text(CONTENT_TYPE), text(CONTENT_ENCODING)) {
        (Some(PROTO), None | Some("identity")) => Ok(()),
        (kind, encoding) => {
            Err(Code::Unimplemented.with_message(format!("content type {kind:?}, encoding {encoding:?}")))
        }
    }
}

/// Reads the message of a request.
pub(crate) fn decode<M: Message + Default>(body: &Bytes) -> Result<M, Refusal> {
    M::decode(body.clone()).map_err(|error| Code::InvalidArgument.with_message(error.to_string()))
}

/// Writes the message of an answer.
pub(crate) fn encode(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

/// The HTTP response for the outcome of a call.
pub(crate) fn response(outcome: Result<Bytes, Refusal>) -> Response {
    match outcome {
        Ok(body) => ([(CONTENT_TYPE, PROTO)], body).into_response(),
        Err(Refusal { code, message }) => {
            let (name, status) = code.name_and_status();
            (status, axum::Json(json!({"code": name, "message": message}))).into_response()
        }
    }
}
