//! What pods write: kept per container while the pod lives, read by `pods/log`.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures::stream;
use http::{StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::watch;

use crate::dispatch::Call;
use crate::kind::Kind;
use crate::object::meta;
use crate::request::Query;
use crate::status::ApiError;
use crate::store::Key;

/// What is kept of one container, as much as a kubelet keeps; the oldest lines go first.
const KEPT_BYTES: usize = 10 * 1024 * 1024;

/// A line and when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When it was written.
    pub time: Timestamp,
    /// The line, without its end.
    pub text: String,
}

/// The logs of all pods, by the pod's uid and the container's name. Clones are the same logs.
#[derive(Clone, Debug, Default)]
pub struct PodLogs {
    streams: Arc<Mutex<HashMap<(String, String), Log>>>,
}

#[derive(Debug)]
struct Log {
    previous: Option<VecDeque<LogLine>>,
    lines: VecDeque<LogLine>,
    bytes: usize,
    /// How many lines were dropped from the front.
    dropped: usize,
    ended: bool,
    changed: watch::Sender<usize>,
}

impl Default for Log {
    fn default() -> Self {
        let changed = watch::Sender::new(0);
        Self { previous: None, lines: VecDeque::new(), bytes: 0, dropped: 0, ended: false, changed }
    }
}

impl PodLogs {
    /// Adds a line.
    pub fn append(&self, uid: &str, container: &str, line: LogLine) {
        self.change(uid, container, |log| {
            log.bytes += line.text.len();
            log.lines.push_back(line);
            while log.bytes > KEPT_BYTES {
                let Some(old) = log.lines.pop_front() else { break };
                log.bytes -= old.text.len();
                log.dropped += 1;
            }
        });
    }

    /// The container starts, perhaps again: what it wrote in its last life becomes the previous log.
    pub fn start(&self, uid: &str, container: &str) {
        self.change(uid, container, |log| {
            if log.ended {
                let last = std::mem::take(&mut log.lines);
                log.dropped += last.len();
                log.previous = Some(last);
                log.bytes = 0;
            }
            log.ended = false;
        });
    }

    /// The container ended: whoever follows its log comes to an end too.
    pub fn end(&self, uid: &str, container: &str) {
        self.change(uid, container, |log| log.ended = true);
    }

    /// All lines that are kept of a container.
    #[must_use]
    pub fn lines(&self, uid: &str, container: &str) -> Vec<LogLine> {
        let streams = self.lock();
        let log = streams.get(&(uid.to_owned(), container.to_owned()));
        log.map(|log| log.lines.iter().cloned().collect()).unwrap_or_default()
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.lock().retain(|(owner, _), log| {
            if owner == uid {
                log.ended = true;
                log.changed.send_modify(|count| *count += 1);
            }
            owner != uid
        });
    }

    fn change(&self, uid: &str, container: &str, change: impl FnOnce(&mut Log)) {
        let mut streams = self.lock();
        let log = streams.entry((uid.to_owned(), container.to_owned())).or_default();
        change(log);
        log.changed.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), Log>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which lines are asked for, and how.
struct Reader {
    logs: PodLogs,
    key: (String, String),
    /// The number of the next line, counted from the first ever written.
    next: usize,
    timestamps: bool,
    changed: Option<watch::Receiver<usize>>,
    first: Option<Vec<u8>>,
}

/// Answers a GET of `pods/log`.
pub(crate) async fn answer(call: &Call<'_>, kind: &Kind, key: &Key) -> Result<Response, ApiError> {
    let pod = call.server.store().lock().find(kind, key)?.object(kind);
    let query = &call.query;
    let container = container(&pod, query)?;
    if pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let logs = call.server.logs().clone();
    let stream_key = (meta(&pod, "uid").to_owned(), container.clone());
    let since = query.number("sinceSeconds")?.and_then(|seconds| i64::try_from(seconds).ok());
    let since = since.and_then(|seconds| call.server.now().checked_sub(SignedDuration::from_secs(seconds)).ok());
    let since = since.or_else(|| query.get("sinceTime").and_then(|text| text.parse().ok()));
    let tail = query.number("tailLines")?.and_then(|count| usize::try_from(count).ok());
    let limit = query.number("limitBytes")?.and_then(|count| usize::try_from(count).ok());
    let timestamps = query.flag("timestamps");
    let previous = query.flag("previous");
    let follow = query.flag("follow") && !previous;

    let (lines, next, changed) = {
        let mut streams = logs.lock();
        let log =
            if follow { Some(&*streams.entry(stream_key.clone()).or_default()) } else { streams.get(&stream_key) };
        let lines = if previous { log.and_then(|log| log.previous.as_ref()) } else { log.map(|log| &log.lines) };
        if previous && lines.is_none() {
            let text = format!("previous terminated container \"{container}\" in pod \"{}\" not found", key.name);
            return Err(ApiError::bad_request(text));
        }
        let next = log.map_or(0, |log| log.dropped + log.lines.len());
        let lines: Vec<LogLine> = lines.into_iter().flatten().cloned().collect();
        (lines, next, log.filter(|_| follow).map(|log| log.changed.subscribe()))
    };
    let recent: Vec<_> = lines.iter().filter(|line| since.is_none_or(|since| line.time >= since)).collect();
    let from = recent.len() - tail.unwrap_or(recent.len()).min(recent.len());
    let mut first = Vec::new();
    recent[from..].iter().for_each(|line| write(line, timestamps, &mut first));
    if let Some(limit) = limit {
        first.truncate(limit);
    }
    let reader = Reader { logs, key: stream_key, next, timestamps, changed, first: Some(first) };
    let body = Body::from_stream(stream::unfold(reader, |mut reader| async move {
        let chunk = reader.chunk().await?;
        Some((Ok::<_, Infallible>(Bytes::from(chunk)), reader))
    }));
    Ok(([(header::CONTENT_TYPE, "text/plain")], body).into_response())
}

fn write(line: &LogLine, timestamps: bool, out: &mut Vec<u8>) {
    if timestamps {
        out.extend_from_slice(format!("{:.9} ", line.time).as_bytes());
    }
    out.extend_from_slice(line.text.as_bytes());
    out.push(b'\n');
}

impl Reader {
    async fn chunk(&mut self) -> Option<Vec<u8>> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            let changed = self.changed.as_mut()?;
            changed.mark_unchanged();
            let (new, ended) = {
                let streams = self.logs.lock();
                let log = streams.get(&self.key)?;
                let skipped = self.next.saturating_sub(log.dropped);
                let new: Vec<LogLine> = log.lines.iter().skip(skipped).cloned().collect();
                self.next = log.dropped + log.lines.len();
                (new, log.ended)
            };
            if !new.is_empty() {
                let mut out = Vec::new();
                new.iter().for_each(|line| write(line, self.timestamps, &mut out));
                return Some(out);
            }
            if ended || changed.changed().await.is_err() {
                return None;
            }
        }
    }
}

/// The container that is meant, in the words of the real server if that is not clear.
fn container(pod: &Value, query: &Query) -> Result<String, ApiError> {
    let names = |list: &str| -> Vec<String> {
        let all = pod["spec"][list].as_array().into_iter().flatten();
        all.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()
    };
    let (main, init) = (names("containers"), names("initContainers"));
    let pod_name = meta(pod, "name");
    match query.get("container") {
        Some(name) if main.iter().chain(&init).any(|known| known == name) => Ok(name.to_owned()),
        Some(name) => Err(ApiError::bad_request(format!("container {name} is not valid for pod {pod_name}"))),
        None => match main.as_slice() {
            [only] if init.is_empty() => Ok(only.clone()),
            _ => {
                let all = [init, main].concat().join(" ");
                let text = format!("a container name must be specified for pod {pod_name}, choose one of: [{all}]");
                Err(ApiError::bad_request(text))
            }
        },
    }
}
