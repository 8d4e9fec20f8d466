//! The object store: one small object is written, read and deleted.

use std::time::Duration;

use aileron_config::Config;
use aileron_executor::assembly::storage_settings;
use aileron_executor::storage::{Backend, BlobStore, ObjectStores, StorageError};
use aileron_machinery::error_text::chain;
use bytes::Bytes;

use super::finding::Finding;

pub const STORAGE: &str = "storage";

/// What is written.
const CONTENT: &[u8] = b"written by `doctor`; it can be deleted";

/// How far a round trip came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoundTrip {
    /// Written, read and deleted.
    Complete,
    /// The settings cannot be used.
    NotOpened(String),
    /// The object could not be written.
    NotWritten(String),
    /// The object was written, but not read with the same content.
    NotRead(String),
    /// The object is still there.
    NotDeleted(String),
}

/// What is known about the object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageFacts {
    /// The object that was written.
    pub uri: String,
    /// The endpoint, if the configuration names one.
    pub endpoint: Option<String>,
    /// It is the memory of the process.
    pub in_memory: bool,
    pub round_trip: RoundTrip,
}

/// Makes the round trip. `name` is the name of the object.
pub async fn look(config: &Config, name: &str, timeout: Duration) -> StorageFacts {
    let backend = Backend::from_config(&config.storage.kind, &config.storage.stow.kind);
    let container = if config.storage.container.is_empty() { "container" } else { &config.storage.container };
    let uri = format!("{}://{container}/{name}", backend.map_or("unknown", Backend::scheme));
    let endpoint = config.storage.stow.config.get("endpoint").filter(|endpoint| !endpoint.is_empty()).cloned();
    let in_memory = backend == Some(Backend::Memory);
    let store = storage_settings(&config.storage).and_then(ObjectStores::new);
    let round_trip = match store {
        Ok(store) => round_trip(&store, &uri, timeout).await,
        Err(error) => RoundTrip::NotOpened(chain(&error)),
    };
    StorageFacts { uri, endpoint, in_memory, round_trip }
}

async fn round_trip(store: &ObjectStores, uri: &str, timeout: Duration) -> RoundTrip {
    if let Err(problem) = within(timeout, store.put(uri, Bytes::from_static(CONTENT))).await {
        return RoundTrip::NotWritten(problem);
    }
    let read = match within(timeout, store.get(uri)).await {
        Ok(Some(content)) if content == CONTENT => Ok(()),
        Ok(Some(_)) => Err(format!("{uri} has another content than was written")),
        Ok(None) => Err(format!("{uri} does not exist after it was written")),
        Err(problem) => Err(problem),
    };
    // Also after a failed read, so that nothing is left behind.
    let deleted = within(timeout, store.delete(uri)).await;
    match (read, deleted) {
        (Err(problem), _) => RoundTrip::NotRead(problem),
        (Ok(()), Err(problem)) => RoundTrip::NotDeleted(problem),
        (Ok(()), Ok(())) => RoundTrip::Complete,
    }
}

async fn within<T>(timeout: Duration, request: impl Future<Output = Result<T, StorageError>>) -> Result<T, String> {
    match tokio::time::timeout(timeout, request).await {
        Ok(answer) => answer.map_err(|error| chain(&error)),
        Err(_) => Err(format!("no answer within {} s", timeout.as_secs())),
    }
}

/// What is wrong with the object store.
pub fn judge(facts: &StorageFacts) -> Finding {
    let StorageFacts { uri, endpoint, in_memory, round_trip } = facts;
    let place = endpoint.as_ref().map(|endpoint| format!(" at {endpoint}")).unwrap_or_default();
    let settings = "storage.container, storage.stow.config (endpoint, region, credentials)";
    match round_trip {
        RoundTrip::Complete if *in_memory => Finding::warning(
            STORAGE,
            "the store is the memory of the executor: pods cannot read it",
            "set storage.type to the store of Flyte, for example stow",
        ),
        RoundTrip::Complete => Finding::ok(STORAGE, format!("wrote, read and deleted {uri}{place}")),
        RoundTrip::NotOpened(problem) => Finding::failed(STORAGE, problem.clone(), format!("check {settings}")),
        RoundTrip::NotWritten(problem) => Finding::failed(
            STORAGE,
            format!("cannot write {uri}{place}: {}", without_repetition(problem, uri)),
            format!("check {settings}, and that the executor may write there"),
        ),
        RoundTrip::NotRead(problem) => Finding::failed(
            STORAGE,
            format!("wrote {uri}{place}, but cannot read it: {}", without_repetition(problem, uri)),
            format!("check that the executor may read objects of {settings}"),
        ),
        RoundTrip::NotDeleted(problem) => Finding::warning(
            STORAGE,
            format!("wrote and read {uri}{place}, but cannot delete it: {}", without_repetition(problem, uri)),
            format!("delete {uri}; the executor itself deletes no objects"),
        ),
    }
}

/// The error without its beginning, which names the object again.
fn without_repetition<'a>(problem: &'a str, uri: &str) -> &'a str {
    let begin = ["write", "read", "delete"].iter().find_map(|action| {
        problem
            .strip_prefix("failed to ")?
            .strip_prefix(action)?
            .strip_prefix(' ')?
            .strip_prefix(uri)?
            .strip_prefix(": ")
    });
    begin.unwrap_or(problem)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::finding::Outcome;
    use super::*;

    fn judged(round_trip: RoundTrip) -> Finding {
        judge(&StorageFacts {
            uri: "s3://flyte/x".into(),
            endpoint: Some("http://minio:9000".into()),
            in_memory: false,
            round_trip,
        })
    }

    #[test]
    fn only_an_object_that_stays_is_no_failure() {
        assert_eq!(judged(RoundTrip::Complete).outcome, Outcome::Ok);
        assert_eq!(judged(RoundTrip::NotDeleted("no".into())).outcome, Outcome::Warning);
        let refused = judged(RoundTrip::NotWritten("failed to write s3://flyte/x: 403 Forbidden".into()));
        assert_eq!(refused.outcome, Outcome::Failed);
        assert_eq!(refused.found, "cannot write s3://flyte/x at http://minio:9000: 403 Forbidden");
        assert!(refused.remedy.unwrap().contains("storage.container"));
        assert_eq!(judged(RoundTrip::NotRead("no".into())).outcome, Outcome::Failed);
        assert_eq!(judged(RoundTrip::NotOpened("no".into())).outcome, Outcome::Failed);
    }

    #[tokio::test]
    async fn nothing_is_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.storage.kind = "local".into();
        config.storage.container = "flyte".into();
        config.storage.stow.config.insert("path".into(), directory.path().display().to_string());
        let facts = look(&config, "doctor-1", Duration::from_secs(60)).await;
        assert_eq!((facts.uri.as_str(), &facts.round_trip), ("file://flyte/doctor-1", &RoundTrip::Complete));
        assert_eq!(std::fs::read_dir(directory.path().join("flyte")).unwrap().count(), 0);
    }
}
