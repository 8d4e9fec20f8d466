//! Requests whose answers are kept small, and the server's refusals as our own error.

use std::time::Duration;

use aileron_action::TaskAction;
use aileron_kubekit::{ApiError, KIND_NOT_SERVED};
use aileron_machinery::error_text::chain;
use http::HeaderValue;
use http::header::{ACCEPT, RETRY_AFTER};
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::client::Body;
use kube::core::Status;
use kube::core::request::Request;
use serde::de::DeserializeOwned;

/// Ask for the metadata only: the rest of the answer is what we just sent.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// A write that takes longer than the API server's own limit will not be answered; it must not hold its turn for ever.
const PATIENCE: Duration = Duration::from_secs(65);

/// Between two reads at a server that is too busy, doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Somebody waits for the answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Reason of a refusal that is no `Status`: from a proxy, or from a server that is too busy to write one. The client
/// uses the same words.
const NO_STATUS: &str = "Failed to parse error data";

/// A request builder for a kind in a namespace.
pub(super) fn at(group: &str, version: &str, plural: &str, namespace: &str) -> Request {
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    Request::new(format!("{root}/namespaces/{namespace}/{plural}"))
}

/// A request that cannot even be put together.
pub(super) fn unbuildable(error: &kube::core::request::Error) -> ApiError {
    ApiError::unanswered(format!("failed to build the request: {error}"))
}

/// Sends a write and reads back the metadata.
pub(super) async fn for_metadata(
    client: &kube::Client,
    mut request: http::Request<Vec<u8>>,
) -> Result<ObjectMeta, ApiError> {
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static(METADATA_ONLY));
    let verb = request.method().as_str().to_owned();
    let started = std::time::Instant::now();
    let answer = answered::<PartialObjectMeta<TaskAction>>(client, request).await;
    let outcome = if answer.is_ok() { "ok" } else { "error" };
    metrics::histogram!("aileron_api_write_seconds", "verb" => verb, "outcome" => outcome)
        .record(started.elapsed().as_secs_f64());
    Ok(answer?.metadata)
}

/// Sends a request and waits for the answer, but not for ever.
pub(super) async fn answered<T: DeserializeOwned>(
    client: &kube::Client,
    request: http::Request<Vec<u8>>,
) -> Result<T, ApiError> {
    let verb = request.method().clone();
    match tokio::time::timeout(PATIENCE, exchange(client, request)).await {
        Ok(answer) => answer,
        Err(_) => Err(ApiError::unanswered(format!("the API server did not answer a {verb} within {PATIENCE:?}"))),
    }
}

/// As [`answered`], for reads: a server that is too busy is asked again, since a read takes nobody's turn, and since a
/// busy server is nothing that a task should be charged for. `request` makes the request, once for each time.
pub(super) async fn read<T: DeserializeOwned>(
    client: &kube::Client,
    request: impl Fn() -> Result<http::Request<Vec<u8>>, ApiError>,
) -> Result<T, ApiError> {
    let began = std::time::Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match answered(client, request()?).await {
            Err(error) if matches!(error.code, 429 | 503 | 504) => error,
            answer => return answer,
        };
        let wait = error.retry_after.unwrap_or_default().max(pause);
        if began.elapsed() + wait > PATIENCE {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// As the client does it, but a refusal keeps the header that says when to come back.
async fn exchange<T: DeserializeOwned>(client: &kube::Client, request: http::Request<Vec<u8>>) -> Result<T, ApiError> {
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

/// The error of a client call as a plain value.
pub(crate) fn api_error(error: kube::Error) -> ApiError {
    match error {
        kube::Error::Api(status) if knows_no_such_kind(status.code, &status.reason, &status.message) => {
            ApiError { reason: KIND_NOT_SERVED.into(), code: status.code, message: status.message, retry_after: None }
        }
        kube::Error::Api(status) => {
            let seconds = status.details.as_ref().map(|details| details.retry_after_seconds);
            let retry_after = seconds.filter(|seconds| *seconds > 0).map(|seconds| Duration::from_secs(seconds.into()));
            ApiError { code: status.code, reason: status.reason, message: status.message, retry_after }
        }
        other => ApiError::unanswered(chain(&other)),
    }
}

/// The answer is about the kind and not about an object: a group or version without any kinds is answered by a plain
/// text, another kind of a known group by these words, and a definition that is being deleted takes no new objects.
fn knows_no_such_kind(code: u16, reason: &str, message: &str) -> bool {
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
    fn a_missing_kind_is_told_from_a_missing_object() {
        assert!(knows_no_such_kind(404, "Failed to parse error data", "404 page not found"));
        assert!(knows_no_such_kind(404, "NotFound", "the server could not find the requested resource"));
        assert!(knows_no_such_kind(
            405,
            "MethodNotAllowed",
            "create not allowed while custom resource definition is terminating"
        ));
        assert!(!knows_no_such_kind(404, "NotFound", "namespaces \"x\" not found"));
        assert!(!knows_no_such_kind(404, "NotFound", "rayjobs.ray.io \"a-0\" not found"));
        assert!(!knows_no_such_kind(405, "MethodNotAllowed", "the server does not allow this method"));
    }
}
