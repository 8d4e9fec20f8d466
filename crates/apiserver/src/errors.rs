//! Error answers: the `Status` object that every Kubernetes client understands.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::{Map, Value, json};

use crate::kinds::Kind;

/// Seconds in the `Retry-After` header of 429 and 503, unless the error sets another value. kube-apiserver sends 1.
const DEFAULT_RETRY_AFTER: u32 = 1;

/// An error answer. The texts and codes are those of kube-apiserver.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP code.
    pub code: u16,
    /// The reason, such as `NotFound`; empty where kube-apiserver gives none.
    pub reason: &'static str,
    /// The message for people.
    pub message: String,
    /// Details about the object; absent for requests that concern no object.
    pub details: Option<Value>,
    /// Seconds after which the client may retry. Sent with the codes 429 and 503 only.
    pub retry_after: u32,
}

/// One validation error of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The reason, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// The message for people.
    pub message: String,
    /// The path of the field.
    pub field: String,
}

impl Cause {
    /// A required field is missing. `detail` may be empty.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Self { reason: "FieldValueRequired", message, field: field.into() }
    }

    /// The value of a field is invalid.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self { reason: "FieldValueInvalid", message: format!("Invalid value: {value}: {detail}"), field: field.into() }
    }

    /// The field must not be set, or must not be changed.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self { reason: "FieldValueForbidden", message: format!("Forbidden: {detail}"), field: field.into() }
    }

    /// The same value occurs twice in a list.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self { reason: "FieldValueDuplicate", message: format!("Duplicate value: {value}"), field: field.into() }
    }

    /// The field refers to something that does not exist.
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self { reason: "FieldValueNotFound", message: format!("Not found: {value}"), field: field.into() }
    }

    /// The value is not one of the supported values.
    pub fn unsupported(field: impl Into<String>, value: &Value, supported: &[Value]) -> Self {
        let list = supported.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let message = format!("Unsupported value: {value}: supported values: {list}");
        Self { reason: "FieldValueNotSupported", message, field: field.into() }
    }
}

impl ApiError {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, retry_after: DEFAULT_RETRY_AFTER }
    }

    fn about(mut self, kind: &Kind, name: &str) -> Self {
        self.details = Some(details(&kind.group, &kind.plural, name));
        self
    }

    /// 404: there is no object with this name.
    #[must_use]
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", kind.qualified())).about(kind, name)
    }

    /// 404: the group has no such resource.
    #[must_use]
    pub fn no_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").with_empty_details()
    }

    /// 405: the resource does not support the method.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with_empty_details()
    }

    /// 409: an object with this name exists. `terminating` tells whether it is being deleted.
    #[must_use]
    pub fn already_exists(kind: &Kind, name: &str, terminating: bool) -> Self {
        let prefix = if terminating { "object is being deleted: " } else { "" };
        let message = format!("{prefix}{} \"{name}\" already exists", kind.qualified());
        Self::new(409, "AlreadyExists", message).about(kind, name)
    }

    /// 409: the object has another resourceVersion than the request.
    #[must_use]
    pub fn modified(kind: &Kind, name: &str) -> Self {
        let text = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, text)
    }

    /// 409: another conflict with the current object.
    #[must_use]
    pub fn conflict(kind: &Kind, name: &str, text: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {text}", kind.qualified());
        Self::new(409, "Conflict", message).about(kind, name)
    }

    /// 409: a conflict at a subresource.
    pub(crate) fn conflict_on_subresource(kind: &Kind, subresource: &str, name: &str, text: &str) -> Self {
        let what = format!("{}/{subresource}", kind.plural);
        let message = format!("Operation cannot be fulfilled on {what} \"{name}\": {text}");
        Self { details: Some(details(&kind.group, &what, name)), ..Self::new(409, "Conflict", message) }
    }

    /// 409: a precondition of a deletion does not hold. kube-apiserver names the kind here, not the resource.
    #[must_use]
    pub fn precondition(kind: &Kind, name: &str, text: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {text}", kind.qualified_kind());
        let details = Some(details(&kind.group, &kind.kind, name));
        Self { details, ..Self::new(409, "Conflict", message) }
    }

    /// 422: validation errors of an object.
    #[must_use]
    pub fn invalid(kind: &Kind, name: &str, causes: &[Cause]) -> Self {
        Self::invalid_named(&kind.group, &kind.kind, name, causes)
    }

    /// 422: validation errors of something that is named differently from its kind, such as `ListOptions`.
    #[must_use]
    pub fn invalid_named(group: &str, what: &str, name: &str, causes: &[Cause]) -> Self {
        let mut texts = Vec::new();
        for cause in causes {
            let text = format!("{}: {}", cause.field, cause.message);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let text = if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) };
        let qualified = if group.is_empty() { what.to_owned() } else { format!("{what}.{group}") };
        let mut details = details(group, what, name);
        details["causes"] = causes
            .iter()
            .map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}))
            .collect();
        let message = format!("{qualified} \"{name}\" is invalid: {text}");
        Self { details: Some(details), ..Self::new(422, "Invalid", message) }
    }

    /// 422: a JSON patch that cannot be applied to the object. kube-apiserver gives no details either.
    #[must_use]
    pub fn unprocessable_patch() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message).with_empty_details()
    }

    /// 403: a policy, such as a quota, forbids the object.
    #[must_use]
    pub fn forbidden(kind: &Kind, name: &str, text: &str) -> Self {
        Self::new(403, "Forbidden", format!("{} \"{name}\" is forbidden: {text}", kind.qualified())).about(kind, name)
    }

    /// 401: the token is missing or wrong.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 400: the request is malformed.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 415: the media type of the body is not supported.
    #[must_use]
    pub fn unsupported_media(accepted: &[&str]) -> Self {
        let accepted = accepted.join(", ");
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 415: the media type of a patch is not supported. kube-apiserver has another text for patches.
    #[must_use]
    pub fn unsupported_patch() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").with_empty_details()
    }

    /// 413: the body is larger than the limit.
    #[must_use]
    pub fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    /// 410: the history does not contain the changes since this revision any more.
    #[must_use]
    pub fn expired(asked: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {asked} ({oldest})"))
    }

    /// 504: the requested resourceVersion does not exist yet.
    #[must_use]
    pub fn version_too_large(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let causes = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
        let details = json!({"causes": causes, "retryAfterSeconds": 1});
        Self { details: Some(details), ..Self::new(504, "Timeout", message) }
    }

    /// 500: an internal error without a reason.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 500: an internal error with the reason `InternalError`. The message is also a cause in the details.
    #[must_use]
    pub fn internal_error(message: &str) -> Self {
        let details = json!({"causes": [{"message": message}]});
        let message = format!("Internal error occurred: {message}");
        Self { details: Some(details), ..Self::new(500, "InternalError", message) }
    }

    /// An error with any code, for injected faults and denials of webhooks.
    #[must_use]
    pub fn of_code(code: u16, message: impl Into<String>) -> Self {
        let reason = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            409 => "Conflict",
            410 => "Expired",
            413 => "RequestEntityTooLarge",
            422 => "Invalid",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "",
        };
        Self::new(code, reason, message)
    }

    /// Sets the seconds of the `Retry-After` header.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: seconds, ..self }
    }

    fn with_empty_details(mut self) -> Self {
        self.details = Some(json!({}));
        self
    }

    /// Adds causes to the details.
    #[must_use]
    pub fn with_causes(mut self, causes: &[Cause]) -> Self {
        let causes =
            causes.iter().map(|c| json!({"reason": c.reason, "message": c.message, "field": c.field})).collect();
        self.details.get_or_insert_with(|| json!({}))["causes"] = causes;
        self
    }

    /// The `Status` object.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status["code"] = self.code.into();
        status
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response =
            (code, [(header::CONTENT_TYPE, "application/json")], self.to_value().to_string()).into_response();
        if matches!(self.code, 429 | 503) {
            response.headers_mut().insert(header::RETRY_AFTER, http::HeaderValue::from(self.retry_after));
        }
        response
    }
}

fn details(group: &str, kind: &str, name: &str) -> Value {
    let mut details = Map::new();
    for (field, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            details.insert(field.to_owned(), value.into());
        }
    }
    Value::Object(details)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_has_a_retry_after_header() {
        let header = |error: ApiError| error.into_response().headers().get(http::header::RETRY_AFTER).cloned();
        assert_eq!(header(ApiError::of_code(429, "busy")), Some(http::HeaderValue::from(1)));
        assert_eq!(header(ApiError::of_code(503, "busy").retry_after(4)), Some(http::HeaderValue::from(4)));
        assert_eq!(header(ApiError::of_code(500, "broken")), None);
    }
}
