//! Sends requests to the API server with small answers and a timeout, and converts its refusals to [`ApiError`].

use std::time::Duration;

use aileron_action::TaskAction;
use aileron_kubekit::{ApiError, KIND_NOT_SERVED};
use aileron_lease::request_error_text;
use aileron_machinery::time::backoff::ExponentialBackoff;
use http::HeaderValue;
use http::header::{ACCEPT, RETRY_AFTER};
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::client::Body;
use kube::core::Status;
use kube::core::request::Request;
use serde::de::DeserializeOwned;

use super::connection::REQUEST_TIMEOUT;

/// Asks for the metadata only: the rest of the answer would be what the executor just sent.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// The pauses before retries of a read that an overloaded API server refused. They are short, because a round waits for
/// the answer.
const READ_RETRY: ExponentialBackoff = ExponentialBackoff::doubling(Duration::from_millis(250), Duration::from_secs(5));

/// The reason of a refusal without a `Status`: from a proxy, or from an API server that is too busy to write one. The kube
/// client uses the same text.
const NO_STATUS: &str = "Failed to parse error data";

/// A request builder for a kind in a namespace.
pub(super) fn at(group: &str, version: &str, plural: &str, namespace: &str) -> Request {
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    Request::new(format!("{root}/namespaces/{namespace}/{plural}"))
}

/// The error for a request that cannot be built.
pub(super) fn unbuildable(error: &kube::core::request::Error) -> ApiError {
    ApiError::unanswered(format!("failed to build the request: {error}"))
}

/// Sends a request and returns the metadata from the answer.
pub(super) async fn for_metadata(
    client: &kube::Client,
    mut request: http::Request<Vec<u8>>,
) -> Result<ObjectMeta, ApiError> {
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static(METADATA_ONLY));
    let verb = request.method().as_str().to_owned();
    let started = tokio::time::Instant::now();
    let answer = answered::<PartialObjectMeta<TaskAction>>(client, request).await;
    let outcome = if answer.is_ok() { "ok" } else { "error" };
    metrics::histogram!("aileron_api_write_seconds", "verb" => verb, "outcome" => outcome)
        .record(started.elapsed().as_secs_f64());
    Ok(answer?.metadata)
}

/// As [`answered`], for reads: a read that an overloaded API server refused is retried. A read needs no write permit, and
/// the overload must not count as a failure of the task. `request` builds the request, once for each try.
pub(super) async fn read<T: DeserializeOwned>(
    client: &kube::Client,
    request: impl Fn() -> Result<http::Request<Vec<u8>>, ApiError>,
) -> Result<T, ApiError> {
    let began = tokio::time::Instant::now();
    let mut failures: u32 = 0;
    loop {
        let error = match answered(client, request()?).await {
            Err(error) if matches!(error.code, 429 | 503 | 504) => error,
            answer => return answer,
        };
        failures = failures.saturating_add(1);
        let wait = error.retry_after.unwrap_or_default().max(READ_RETRY.pause(failures));
        if began.elapsed() + wait > REQUEST_TIMEOUT {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
    }
}

/// Sends a request as the kube client does, but keeps the header `Retry-After` of a refusal. The connection ends a request
/// that is not answered in time ([`REQUEST_TIMEOUT`]), and the write permit of its caller is released then.
pub(super) async fn answered<T: DeserializeOwned>(
    client: &kube::Client,
    request: http::Request<Vec<u8>>,
) -> Result<T, ApiError> {
    let answer = client.send(request.map(Body::from)).await.map_err(api_error)?;
    let code = answer.status();
    let seconds = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let body = answer.into_body().collect_bytes().await.map_err(api_error)?;
    if !code.is_client_error() && !code.is_server_error() {
        return serde_json::from_slice(&body)
            .map_err(|error| ApiError::unanswered(format!("the answer of the API server is not readable: {error}")));
    }
    let status = serde_json::from_slice(&body)
        .unwrap_or_else(|_| Status::failure(String::from_utf8_lossy(&body).trim(), NO_STATUS).with_code(code.as_u16()));
    let mut error = api_error(kube::Error::Api(status.boxed()));
    error.retry_after = seconds.map(Duration::from_secs).or(error.retry_after);
    Err(error)
}

/// Converts an error of the kube client.
pub(crate) fn api_error(error: kube::Error) -> ApiError {
    match error {
        kube::Error::Api(status) if is_kind_not_served(&status) => {
            ApiError { reason: KIND_NOT_SERVED.into(), code: status.code, message: status.message, retry_after: None }
        }
        kube::Error::Api(status) => {
            let seconds = status.details.as_ref().map(|details| details.retry_after_seconds);
            let retry_after = seconds.filter(|seconds| *seconds > 0).map(|seconds| Duration::from_secs(seconds.into()));
            ApiError { code: status.code, reason: status.reason, message: status.message, retry_after }
        }
        other => ApiError::unanswered(request_error_text(&other)),
    }
}

/// Whether the API server refused a request because it does not serve the kind, and not because of one object.
pub fn is_kind_not_served(status: &Status) -> bool {
    kind_is_not_served(status.code, &status.reason, &status.message)
}

/// As [`is_kind_not_served`]. For an
/// unknown group or version it answers with plain text, for an unknown kind of a known group with the first of these
/// texts, and while a CustomResourceDefinition is being deleted it refuses new objects with the last.
fn kind_is_not_served(code: u16, reason: &str, message: &str) -> bool {
    match code {
        404 => {
            message.contains("could not find the requested resource")
                || (reason != "NotFound" && message.starts_with("404 page not found"))
        }
        405 => message.contains("custom resource definition is terminating"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_kind_is_distinguished_from_a_missing_object() {
        assert!(kind_is_not_served(404, "Failed to parse error data", "404 page not found"));
        assert!(kind_is_not_served(404, "NotFound", "the server could not find the requested resource"));
        assert!(kind_is_not_served(
            405,
            "MethodNotAllowed",
            "create not allowed while custom resource definition is terminating"
        ));
        assert!(!kind_is_not_served(404, "NotFound", "namespaces \"x\" not found"));
        assert!(!kind_is_not_served(404, "NotFound", "rayjobs.ray.io \"a-0\" not found"));
        assert!(!kind_is_not_served(405, "MethodNotAllowed", "the server does not allow this method"));
    }
}
