//! Requests whose answers are kept small, and the server's refusals as our own error.

use std::time::Duration;

use http::HeaderValue;
use http::header::ACCEPT;
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::core::request::Request;
use serde::de::DeserializeOwned;

use crate::action::TaskAction;
use crate::cluster::ApiError;
use crate::error_text::chain;

/// Ask for the metadata only: the rest of the answer is what we just sent.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// A write that takes longer than the API server's own limit will not be answered; it must not hold its turn for ever.
const PATIENCE: Duration = Duration::from_secs(65);

/// A request builder for a kind in a namespace.
pub(super) fn at(group: &str, version: &str, plural: &str, namespace: &str) -> Request {
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    Request::new(format!("{root}/namespaces/{namespace}/{plural}"))
}

/// A request that cannot even be put together.
pub(super) fn unbuildable(error: &kube::core::request::Error) -> ApiError {
    ApiError { code: 0, reason: String::new(), message: format!("failed to build the request: {error}") }
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
    match tokio::time::timeout(PATIENCE, client.request::<T>(request)).await {
        Ok(answer) => answer.map_err(ApiError::from),
        Err(_) => Err(ApiError {
            code: 0,
            reason: String::new(),
            message: format!("the API server did not answer a {verb} within {PATIENCE:?}"),
        }),
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self { code: status.code, reason: status.reason, message: status.message },
            other => Self { code: 0, reason: String::new(), message: chain(&other) },
        }
    }
}
