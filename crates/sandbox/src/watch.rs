//! GET with `watch`: changes as they happen, one JSON document a line.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::header;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::kind::Kind;
use crate::list::{Selection, asked_version, encode_item};
use crate::request::Query;
use crate::server::ApiServer;
use crate::status::{ApiError, Cause};
use crate::store::{Change, Cursor, Start, Stored, What};
use crate::table;

/// Between two bookmarks on a quiet stream, as often as the real server sends them.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Documents are sent together up to about this many bytes.
const CHUNK: usize = 32 * 1024;
/// The shortest time after which the real server closes a stream by itself.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// A watch in progress.
struct Watch {
    server: ApiServer,
    kind: Arc<Kind>,
    namespace: String,
    selection: Selection,
    cursor: Cursor,
    pending: VecDeque<Pending>,
    as_table: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    dropped: watch::Receiver<u64>,
    ended: bool,
}

/// What is still to be sent. It is encoded when its turn comes: a hundred watchers that start at once would otherwise
/// hold a hundred copies of everything.
enum Pending {
    Listed(Arc<Stored>),
    Changed(Change),
    Line(Bytes),
}

/// Starts a watch and answers with its stream.
pub(crate) fn watch(
    server: &ApiServer,
    kind: Arc<Kind>,
    namespace: &str,
    query: &Query,
    as_table: bool,
) -> Result<Response, ApiError> {
    let selection = Selection::read(&kind, query)?;
    let initial = initial_events(query)?;
    let asked = asked_version(query).map_err(ApiError::internal)?;
    let start = match asked {
        Some(revision) if !initial => Start::After(revision),
        _ if query.get("sendInitialEvents").is_some() && !initial => Start::After(server.store().revision()),
        _ => Start::Now,
    };
    let timeout = query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0);
    let deadline = Instant::now() + timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let (listed, cursor) = match server.store().open(&kind.place, namespace, start) {
        Ok(opened) => opened,
        // Once a watch is accepted, what is wrong with it is said in the stream.
        Err(error) => return Ok(streaming(Body::from(line("ERROR", error.to_value().to_string().as_bytes())))),
    };
    let mut watch = Watch {
        server: server.clone(),
        namespace: namespace.to_owned(),
        selection,
        cursor,
        pending: listed.into_iter().map(Pending::Listed).collect(),
        as_table,
        bookmarks: query.flag("allowWatchBookmarks"),
        next_bookmark: Instant::now() + BOOKMARK_EVERY,
        deadline,
        dropped: server.inner.faults.watches(),
        ended: false,
        kind,
    };
    if initial && watch.bookmarks {
        // The cursor stands at the list.
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

fn line(what: &str, object: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(object.len() + 40);
    out.extend_from_slice(format!("{{\"type\":\"{what}\",\"object\":").as_bytes());
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
    out.into()
}

impl Watch {
    /// The next documents; none when the stream ends.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let mut chunk = Vec::new();
            while chunk.len() < CHUNK
                && let Some(pending) = self.pending.pop_front()
            {
                match pending {
                    Pending::Listed(stored) if self.selection.takes(&stored) => {
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
            match self.cursor.advance(self.server.store()) {
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
                () = self.cursor.changed() => {}
                _ = self.dropped.changed() => self.ended = true,
                () = tokio::time::sleep_until(self.deadline) => self.ended = true,
                () = tokio::time::sleep_until(bookmark), if self.bookmarks => {
                    self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
                    // What was written since is read after this, under later revisions.
                    let bookmark = self.bookmark(self.cursor.position(), false);
                    self.pending.push_back(Pending::Line(bookmark));
                }
            }
        }
    }

    /// What a change means to this selection: an object may come into it or leave it.
    fn translate(&self, change: &Change) -> Option<Bytes> {
        let object = &change.object;
        if !self.namespace.is_empty() && object.key.namespace != self.namespace {
            return None;
        }
        let was = change.before.as_ref().is_some_and(|before| self.selection.takes(before));
        let is = change.what != What::Deleted && self.selection.takes(object);
        let what = match (was, is) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return None,
        };
        Some(match &change.before {
            // Who loses sight of an object is shown what they last saw of it.
            Some(before) if what == "DELETED" && change.what != What::Deleted => {
                self.event(what, &before.at(&self.kind, object.revision))
            }
            _ => self.event(what, object),
        })
    }

    fn event(&self, what: &str, stored: &Stored) -> Bytes {
        if self.as_table {
            let table = table::one(&self.kind, stored, self.server.now());
            return line(what, table.to_string().as_bytes());
        }
        let mut object = Vec::new();
        encode_item(&self.kind, stored, true, &mut object);
        line(what, &object)
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
