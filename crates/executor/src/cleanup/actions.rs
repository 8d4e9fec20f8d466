//! Garbage collection: deletes TaskActions that ended longer ago than `executor.gc.maxTTL`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aileron_action::TaskAction;
use aileron_action::labels::{COMPLETED_TIME, TERMINATED, TERMINATION_STATUS, completed_time};
use aileron_lease::request_error_text;
use aileron_machinery::time::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use kube::Resource;
use kube::api::{Api, DeleteParams, ListParams, Preconditions};
use tokio_util::sync::CancellationToken;

use crate::cluster::listed::list_metadata;

/// Objects per list request. Large enough for few requests, small enough to bound the use of memory.
const PAGE: u32 = 500;

/// Whether an action with these labels is to be deleted. The time in the label has a resolution of one minute.
///
/// Mirrors `shouldDeleteTerminalTaskAction`.
pub fn expired(labels: &BTreeMap<String, String>, max_ttl: SignedDuration, now: Timestamp) -> bool {
    if labels.get(TERMINATION_STATUS).is_none_or(|value| value != TERMINATED) {
        return false;
    }
    let Some(completed) = labels.get(COMPLETED_TIME).filter(|value| !value.is_empty()) else { return false };
    if max_ttl <= SignedDuration::ZERO {
        return true;
    }
    now.checked_sub(max_ttl).is_ok_and(|cutoff| completed.as_str() < completed_time(cutoff).as_str())
}

/// Deletes expired actions at once, and again after each `interval`, until cancelled.
pub async fn run(
    client: kube::Client,
    clock: Arc<dyn Clock>,
    interval: Duration,
    max_ttl: SignedDuration,
    cancel: CancellationToken,
) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let swept = tokio::select! {
            () = cancel.cancelled() => return,
            swept = sweep(&client, max_ttl, clock.now()) => swept,
        };
        match swept {
            Ok(0) => {}
            Ok(deleted) => tracing::info!(deleted, "deleted expired actions"),
            Err(error) => {
                let error = request_error_text(&error);
                tracing::warn!(error, "failed to list expired actions; retrying later");
            }
        }
    }
}

async fn sweep(client: &kube::Client, max_ttl: SignedDuration, now: Timestamp) -> Result<usize, kube::Error> {
    let all: Api<TaskAction> = Api::all(client.clone());
    let mut page =
        ListParams::default().limit(PAGE).labels(&format!("{TERMINATION_STATUS}={TERMINATED},{COMPLETED_TIME}"));
    let mut deleted = 0;
    loop {
        let list = list_metadata(&all, &page).await?;
        for item in &list.items {
            let metadata = item.meta();
            let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else { continue };
            if !metadata.labels.as_ref().is_some_and(|labels| expired(labels, max_ttl, now)) {
                continue;
            }
            let actions: Api<TaskAction> = Api::namespaced(client.clone(), namespace);
            // Another action may have got this name since the list was read.
            let preconditions = Some(Preconditions { uid: metadata.uid.clone(), resource_version: None });
            match actions.delete(name, &DeleteParams { preconditions, ..DeleteParams::default() }).await {
                Ok(_) => deleted += 1,
                // Kubernetes deletes a child together with its parent, which may have been deleted a moment ago. A
                // conflict means that another action has this name now.
                Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
                Err(error) => {
                    let error = request_error_text(&error);
                    tracing::warn!(namespace, name, error, "failed to delete an expired action");
                }
            }
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    metrics::counter!("aileron_garbage_collected_total").increment(deleted as u64);
    Ok(deleted)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use axum::extract::Path;
    use axum::{Json, Router};
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn only_the_action_that_was_listed_is_deleted() {
        let uids = Arc::new(Mutex::new(Vec::new()));
        let item = |name: &str| {
            json!({"metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "labels": {
                TERMINATION_STATUS: TERMINATED, COMPLETED_TIME: "2000-01-01.00-00"}}})
        };
        let items = [item("old"), item("replaced")];
        let list = move || async move { Json(json!({"kind": "List", "apiVersion": "v1", "items": items})) };
        let asked = Arc::clone(&uids);
        // The API server refuses a delete with the UID of an earlier object.
        let delete = move |Path(name): Path<String>, Json(options): Json<Value>| async move {
            let uid = options["preconditions"]["uid"].as_str().unwrap_or_default().to_owned();
            asked.lock().expect("no panic").push(uid);
            let code = if name == "old" { 200 } else { 409 };
            let status = json!({"kind": "Status", "apiVersion": "v1", "code": code, "reason": "Conflict",
                "status": if code == 200 { "Success" } else { "Failure" }});
            (http::StatusCode::from_u16(code).expect("a code"), Json(status))
        };
        let router = Router::new()
            .route("/apis/flyte.org/v1/taskactions", axum::routing::get(list))
            .route("/apis/flyte.org/v1/namespaces/ns/taskactions/{name}", axum::routing::delete(delete));
        let client = kube::Client::new(router, "default");
        let deleted = sweep(&client, SignedDuration::from_hours(1), Timestamp::now()).await.expect("a list");
        assert_eq!(deleted, 1);
        assert_eq!(*uids.lock().expect("no panic"), ["uid-old", "uid-replaced"]);
    }

    #[test]
    fn only_actions_that_ended_before_the_limit_are_deleted() {
        let now: Timestamp = "2009-11-10T23:00:30Z".parse().expect("a time");
        let labelled = |time: &str| {
            BTreeMap::from([(TERMINATION_STATUS.into(), TERMINATED.into()), (COMPLETED_TIME.into(), time.to_owned())])
        };
        let hour = SignedDuration::from_hours(1);
        assert!(expired(&labelled("2009-11-10.21-59"), hour, now));
        assert!(!expired(&labelled("2009-11-10.22-00"), hour, now));
        assert!(expired(&labelled("2009-11-10.23-00"), SignedDuration::ZERO, now));
        assert!(!expired(&BTreeMap::from([(COMPLETED_TIME.into(), "2000-01-01.00-00".into())]), hour, now));
        assert!(!expired(&labelled(""), SignedDuration::ZERO, now));
    }
}
