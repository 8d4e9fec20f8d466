//! Follows all objects of a real API server at etcd, whose history survives restarts of the API server.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aileron_history::history::Change;
use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::StreamExt;
use jiff::Timestamp;
use kube::{Client, Config};
use serde_json::{Value, json};

use super::changes::{Changes, Kind};

/// The keys of all Kubernetes objects: from this one to the one after all keys that begin with it.
const FIRST_KEY: &str = "/registry/";
const END_KEY: &str = "/registry0";
/// Pause before a new connection. etcd is back within a second.
const RETRY_EVERY: Duration = Duration::from_millis(50);

/// A follower that cannot continue.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Lost(String);

/// Adds every change since the first one. Ends only if changes were lost.
pub(super) async fn follow(url: String, changes: Arc<Mutex<Changes>>) {
    let mut next = 1;
    loop {
        let outcome = stream(&url, &mut next, &changes).await;
        if let Err(error) = outcome
            && let Some(lost) = error.downcast_ref::<Lost>()
        {
            changes.lock().unwrap_or_else(PoisonError::into_inner).problem = Some(lost.to_string());
            return;
        }
        tokio::time::sleep(RETRY_EVERY).await;
    }
}

/// Follows until the connection ends. `next` is the first revision that was not delivered.
async fn stream(url: &str, next: &mut u64, changes: &Mutex<Changes>) -> Result<()> {
    let mut config = Config::new(url.parse()?);
    config.default_retry = false;
    let client = Client::try_from(config)?;
    let request = json!({"create_request": {
        "key": BASE64.encode(FIRST_KEY), "range_end": BASE64.encode(END_KEY), "start_revision": next.to_string(),
        "prev_kv": true,
    }});
    let request = http::Request::post("/v3/watch").body(serde_json::to_vec(&request)?.into())?;
    let mut chunks = axum::body::Body::new(client.send(request).await?.into_body()).into_data_stream();
    let mut buffer = Vec::new();
    while let Some(chunk) = chunks.next().await {
        buffer.extend_from_slice(&chunk?);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            deliver(&serde_json::from_slice(&line).context("an answer of etcd")?, next, changes)?;
        }
    }
    Ok(())
}

fn deliver(answer: &Value, next: &mut u64, changes: &Mutex<Changes>) -> Result<()> {
    let result = &answer["result"];
    if result["canceled"] == true {
        bail!(Lost(format!("etcd cannot continue at revision {next}: {answer}")));
    }
    let mut changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
    for event in result["events"].as_array().into_iter().flatten() {
        let revision = number(&event["kv"]["mod_revision"]);
        let key = BASE64.decode(event["kv"]["key"].as_str().unwrap_or_default())?;
        // One transaction may change several keys, but the API server changes one object at a time.
        *next = (*next).max(revision + 1);
        let Some(kind) = kind_of(&String::from_utf8_lossy(&key)) else {
            changes.progressed(Timestamp::now(), revision);
            continue;
        };
        let (change, stored) = if event["type"] == "DELETE" {
            (Change::Deleted, &event["prev_kv"]["value"])
        } else if number(&event["kv"]["create_revision"]) == revision {
            (Change::Created, &event["kv"]["value"])
        } else {
            (Change::Modified, &event["kv"]["value"])
        };
        let stored = BASE64.decode(stored.as_str().unwrap_or_default())?;
        match serde_json::from_slice(&stored) {
            Ok(object) => changes.add(Timestamp::now(), kind, change, revision, object),
            Err(error) => {
                let key = String::from_utf8_lossy(&key).into_owned();
                bail!(Lost(format!("{key} at revision {revision} is not stored as JSON: {error}")))
            }
        }
    }
    Ok(())
}

fn kind_of(key: &str) -> Option<Kind> {
    let path = key.strip_prefix(FIRST_KEY)?;
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["pods", _, _] => Some(Kind::Pods),
        ["flyte.org", "taskactions", _, _] => Some(Kind::Actions),
        ["leases", _, _] => Some(Kind::Leases),
        _ => None,
    }
}

/// etcd writes numbers of 64 bits as texts.
fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_history_that_was_compacted_is_an_error() {
        let answer = json!({"result": {"canceled": true, "compact_revision": "90"}});
        let error = deliver(&answer, &mut 7, &Mutex::default()).unwrap_err();
        assert!(error.downcast_ref::<Lost>().unwrap().to_string().contains("cannot continue at revision 7"));
    }

    #[test]
    fn changes_of_other_kinds_count_as_progress_only() {
        let (changes, mut next) = (Mutex::<Changes>::default(), 1);
        let event = |key: &str, revision: u64, value: &str| {
            let kv = json!({
                "key": BASE64.encode(key), "mod_revision": revision.to_string(), "create_revision": "4",
                "value": BASE64.encode(value),
            });
            json!({"result": {"events": [{"kv": kv}]}})
        };
        deliver(&event("/registry/events/ns/e", 4, "k8s\0..."), &mut next, &changes).unwrap();
        let pod = r#"{"metadata": {"namespace": "ns", "name": "p", "uid": "u"}}"#;
        deliver(&event("/registry/pods/ns/p", 5, pod), &mut next, &changes).unwrap();
        let found = changes.lock().unwrap();
        assert_eq!((next, found.revision_at(Timestamp::now())), (6, 5));
        assert_eq!(found.uid("pods", "ns", "p").as_deref(), Some("u"));
        drop(found);
        let error = deliver(&event("/registry/pods/ns/p", 6, "k8s\0..."), &mut next, &changes).unwrap_err();
        assert!(error.downcast_ref::<Lost>().unwrap().to_string().contains("not stored as JSON"));
    }
}
