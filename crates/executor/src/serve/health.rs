//! Serves the probes of the kubelet: `/healthz` and `/readyz`.

use std::fmt::Write as _;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::routing::get;
use http::StatusCode;

use crate::caches::readiness::Readiness;

/// Serves both probes, also with a trailing slash, as controller-runtime does.
pub(super) fn router(readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/healthz/", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/readyz/", get(ready))
        .with_state(readiness)
}

async fn ready(State(readiness): State<Readiness>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    let is_ready = readiness.is_ready();
    let verbose = query.is_some_and(|query| query.split('&').any(|part| part.split('=').next() == Some("verbose")));
    if is_ready && !verbose {
        return (StatusCode::OK, "ok".into());
    }
    let checks = readiness.checks();
    let mut text = String::new();
    for (name, holds) in checks.iter().filter(|(_, holds)| verbose || !holds) {
        let _ = if *holds { writeln!(text, "[+]{name} ok") } else { writeln!(text, "[-]{name} not ready") };
    }
    if checks.is_empty() {
        text.push_str("starting\n");
    }
    text.push_str(if is_ready { "readyz check passed\n" } else { "readyz check failed\n" });
    (if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}
