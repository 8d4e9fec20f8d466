//! Metrics: the recorder that collects them, and the endpoint that serves them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

use super::access::Access;

/// The recorder of metrics cannot be installed.
#[derive(Debug, thiserror::Error)]
#[error("failed to install the recorder of metrics: {0}")]
pub struct RecorderError(#[from] BuildError);

/// The content type of the text format of Prometheus.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// How often the samples of histograms are added to their buckets. Until then each sample is kept in memory.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Buckets of controller-runtime's `controller_runtime_reconcile_time_seconds`, which existing dashboards read.
const RECONCILE_SECONDS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];

/// Buckets of controller-runtime's `workqueue_*_duration_seconds`: twelve powers of ten from 10 ns.
const QUEUE_SECONDS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

/// Buckets of the durations that only this executor has: from a round without any request to a request that timed out.
const SECONDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

#[derive(Clone)]
struct Page {
    recorded: PrometheusHandle,
    access: Option<Arc<Access>>,
}

/// Installs the recorder of metrics of this process. Call it once, before any metric is recorded.
///
/// # Errors
///
/// When the process already has a recorder.
pub fn install_recorder() -> Result<PrometheusHandle, RecorderError> {
    Ok(builder()?.install_recorder()?)
}

fn builder() -> Result<PrometheusBuilder, BuildError> {
    let full = |name: &str| Matcher::Full(name.to_owned());
    // Buckets, unlike quantiles, can be summed over replicas, and need no window of samples.
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .set_buckets_for_metric(full("controller_runtime_reconcile_time_seconds"), &RECONCILE_SECONDS)?
        .set_buckets_for_metric(full("workqueue_queue_duration_seconds"), &QUEUE_SECONDS)?
        .set_buckets_for_metric(full("workqueue_work_duration_seconds"), &QUEUE_SECONDS)
}

/// Serves metrics: to every client, or with `access` to those that the API server allows.
pub(super) fn router(recorded: PrometheusHandle, access: Option<Access>) -> Router {
    Router::new().route("/metrics", get(show)).with_state(Page { recorded, access: access.map(Arc::new) })
}

/// Adds samples to their buckets until cancelled. Must run even if no client reads metrics; otherwise the samples fill the
/// memory.
pub(super) async fn upkeep(recorded: &PrometheusHandle, stop: &CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(UPKEEP_INTERVAL)).await.is_some() {
        recorded.run_upkeep();
    }
}

async fn show(State(page): State<Page>, request: Request) -> Response {
    if let Some(refusal) = refuse(&page, request.headers(), request.method(), request.uri().path()).await {
        return refusal;
    }
    ([(header::CONTENT_TYPE, TEXT)], page.recorded.render()).into_response()
}

async fn refuse(page: &Page, headers: &HeaderMap, method: &Method, path: &str) -> Option<Response> {
    let access = page.access.as_ref()?;
    match access.decide(headers, method, path).await {
        Ok(decision) => decision.refusal().map(IntoResponse::into_response),
        Err(error) => {
            tracing::warn!(%error, "failed to check whether the client may read metrics");
            Some((StatusCode::INTERNAL_SERVER_ERROR, "Authentication failed\n").into_response())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn controller_runtime_names_are_histograms_and_keep_their_names() {
        let recorder = builder().unwrap().build_recorder();
        let handle = recorder.handle();
        ::metrics::with_local_recorder(&recorder, || {
            ::metrics::histogram!("controller_runtime_reconcile_time_seconds", "controller" => "taskaction")
                .record(0.3);
            ::metrics::histogram!("aileron_round_seconds").record(0.3);
            ::metrics::counter!("executor:plugin:panics").increment(2);
        });
        let page = handle.render();
        let bucket = "controller_runtime_reconcile_time_seconds_bucket{controller=\"taskaction\",le=\"0.3\"} 1";
        assert!(page.contains(bucket), "{page}");
        assert!(page.contains("aileron_round_seconds_bucket{le=\"0.5\"} 1"), "{page}");
        assert!(page.contains("executor:plugin:panics 2"), "{page}");
    }
}
