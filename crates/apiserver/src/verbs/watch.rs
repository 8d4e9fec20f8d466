//! Watch: a stream of changes, one JSON document per line.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::header;
use serde_json::{Value, json};
use tokio::sync::futures::OwnedNotified;
use tokio::time::Instant;

use super::list::{Selection, encode_item, requested_version};
use super::table;
use crate::errors::{ApiError, Cause};
use crate::kinds::Kind;
use crate::request::Query;
use crate::state::ServerState;
use crate::store::{Change, ChangeType, Cursor, Stored, WatchStart};

/// Time between two bookmarks. kube-apiserver sends one about every minute.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Several documents are sent together until they have about this many bytes.
const CHUNK_BYTES: usize = 32 * 1024;
/// Duration of a watch without `timeoutSeconds`. kube-apiserver closes such a watch after 30 to 60 minutes.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Longest duration of a watch, whatever `timeoutSeconds` says. Clients start a closed watch again, and the end of a much
/// longer one cannot be expressed as a time.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// An open watch.
struct Watch {
    state: Arc<ServerState>,
    kind: Arc<Kind>,
    namespace: String,
    selection: Selection,
    cursor: Cursor,
    pending: VecDeque<Pending>,
    as_table: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    /// Completes when a test closes all watches.
    dropped: Pin<Box<OwnedNotified>>,
    ended: bool,
}

/// A document that is still to be sent. It is encoded just before it is sent. Otherwise, one hundred watches that start
/// at the same time would hold one hundred encoded copies of all objects.
enum Pending {
    Listed(Arc<Stored>),
    Changed(Change),
    Line(Bytes),
}

/// How long a watch stays open. 0 means the same as no `timeoutSeconds`.
fn duration(timeout_seconds: Option<u64>) -> Duration {
    let wanted = timeout_seconds.filter(|seconds| *seconds > 0).map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    wanted.min(MAX_TIMEOUT)
}

/// Starts a watch and answers with its stream.
pub(crate) fn watch(
    state: &Arc<ServerState>,
    kind: Arc<Kind>,
    namespace: &str,
    query: &Query,
    as_table: bool,
) -> Result<Response, ApiError> {
    let selection = Selection::read(&kind, query)?;
    let initial = initial_events(query)?;
    let asked = requested_version(query).map_err(ApiError::internal)?;
    let start = match asked {
        Some(revision) if !initial => WatchStart::After(revision),
        _ if query.get("sendInitialEvents").is_some() && !initial => WatchStart::After(state.store.revision()),
        _ => WatchStart::Now,
    };
    let deadline = Instant::now() + duration(query.number("timeoutSeconds")?);
    let (listed, cursor) = match state.store.open(&kind.resource, namespace, start) {
        Ok(opened) => opened,
        // kube-apiserver reports this error in the stream, with the status code 200.
        Err(error) => return Ok(streaming(Body::from(line("ERROR", error.to_value().to_string().as_bytes())))),
    };
    let mut watch = Watch {
        state: state.clone(),
        namespace: namespace.to_owned(),
        selection,
        cursor,
        pending: listed.into_iter().map(Pending::Listed).collect(),
        as_table,
        bookmarks: query.flag("allowWatchBookmarks"),
        next_bookmark: Instant::now() + BOOKMARK_INTERVAL,
        deadline,
        dropped: Box::pin(state.faults.watches_dropped()),
        ended: false,
        kind,
    };
    if initial && watch.bookmarks {
        // The cursor is at the revision of the list.
        watch.pending.push_back(Pending::Line(watch.bookmark(watch.cursor.position(), true)));
    }
    let stream = stream::unfold(watch, |mut watch| async move {
        let next = watch.next().await?;
        Some((Ok::<_, std::convert::Infallible>(next), watch))
    });
    Ok(streaming(Body::from_stream(stream)))
}

fn streaming(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn initial_events(query: &Query) -> Result<bool, ApiError> {
    let matching = query.get("resourceVersionMatch");
    let refused = |text: &str| {
        let cause = Cause::forbidden("resourceVersionMatch", text);
        Err(ApiError::invalid_named("meta.k8s.io", "ListOptions", "", &[cause]))
    };
    match (query.get("sendInitialEvents").is_some(), matching) {
        (true, Some("NotOlderThan")) => Ok(query.flag("sendInitialEvents")),
        (true, _) => refused("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        (false, Some(_)) => refused("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"),
        (false, None) => Ok(false),
    }
}

fn line(event_type: &str, object: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(object.len() + 40);
    out.extend_from_slice(format!("{{\"type\":\"{event_type}\",\"object\":").as_bytes());
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
    out.into()
}

impl Watch {
    /// The next documents; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let mut chunk = Vec::new();
            while chunk.len() < CHUNK_BYTES
                && let Some(pending) = self.pending.pop_front()
            {
                match pending {
                    Pending::Listed(stored) if self.selection.matches(&stored) => {
                        chunk.extend(self.event("ADDED", &stored));
                    }
                    Pending::Listed(_) => {}
                    Pending::Changed(change) => chunk.extend(self.translate(&change).unwrap_or_default()),
                    Pending::Line(line) => chunk.extend(line),
                }
            }
            if !chunk.is_empty() {
                return Some(chunk.into());
            }
            if self.ended {
                return None;
            }
            match self.cursor.advance(&self.state.store) {
                Ok(changes) => self.pending.extend(changes.into_iter().map(Pending::Changed)),
                Err(error) => {
                    self.ended = true;
                    return Some(line("ERROR", error.to_value().to_string().as_bytes()));
                }
            }
            if !self.pending.is_empty() {
                continue;
            }
            let bookmark = if self.bookmarks { self.next_bookmark } else { self.deadline };
            tokio::select! {
                // In this order, not in a random one, so that tests with a seed repeat a run exactly. Constant writes must
                // not keep a watch open, so the reasons to end it come first.
                biased;
                () = self.dropped.as_mut() => self.ended = true,
                () = tokio::time::sleep_until(self.deadline) => self.ended = true,
                () = self.cursor.changed() => {}
                () = tokio::time::sleep_until(bookmark), if self.bookmarks => {
                    self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                    // Changes that were written meanwhile have later revisions and are sent after the bookmark.
                    let bookmark = self.bookmark(self.cursor.position(), false);
                    self.pending.push_back(Pending::Line(bookmark));
                }
            }
        }
    }

    /// The event for a change. An object that starts to match the selectors is added, one that stops is deleted.
    fn translate(&self, change: &Change) -> Option<Bytes> {
        let object = &change.object;
        if !self.namespace.is_empty() && object.key.namespace != self.namespace {
            return None;
        }
        let was = change.before.as_ref().is_some_and(|before| self.selection.matches(before));
        let is = change.change_type != ChangeType::Deleted && self.selection.matches(object);
        let event_type = match (was, is) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return None,
        };
        Some(match &change.before {
            // The object exists but does not match any more. The event has the last version that matched.
            Some(before) if event_type == "DELETED" && change.change_type != ChangeType::Deleted => {
                self.event(event_type, &before.at_revision(object.revision))
            }
            _ => self.event(event_type, object),
        })
    }

    fn event(&self, event_type: &str, stored: &Stored) -> Bytes {
        if self.as_table {
            let table = table::object(&self.kind, stored, self.state.now());
            return line(event_type, table.to_string().as_bytes());
        }
        let mut object = Vec::new();
        encode_item(&self.kind, stored, true, &mut object);
        line(event_type, &object)
    }

    fn bookmark(&self, revision: u64, is_initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if is_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object: Value =
            json!({"kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata});
        line("BOOKMARK", object.to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_timeout_can_be_added_to_the_clock() {
        assert_eq!(duration(None), DEFAULT_TIMEOUT);
        assert_eq!(duration(Some(0)), DEFAULT_TIMEOUT);
        assert_eq!(duration(Some(5)), Duration::from_secs(5));
        assert_eq!(duration(Some(u64::MAX)), MAX_TIMEOUT);
        assert!(Instant::now().checked_add(duration(Some(1 << 63))).is_some());
    }
}
