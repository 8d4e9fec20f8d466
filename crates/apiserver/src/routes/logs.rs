//! GET of `pods/log`.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures::stream;
use http::{StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::call::Call;
use crate::errors::ApiError;
use crate::kinds::Kind;
use crate::object::{Key, meta};
use crate::request::Query;
use crate::state::ServerState;
use crate::state::logs::{LogFollower, LogLine};

/// The parameters of the request.
struct LogOptions {
    since: Option<Timestamp>,
    tail_lines: Option<usize>,
    limit_bytes: Option<usize>,
    timestamps: bool,
    previous: bool,
    follow: bool,
}

/// What is still to be sent.
struct LogStream {
    /// The lines that existed when the request came; `None` once they are sent.
    first: Option<Vec<u8>>,
    /// Set if the request follows the log.
    follower: Option<LogFollower>,
    timestamps: bool,
}

impl LogOptions {
    fn read(query: &Query, state: &ServerState) -> Result<Self, ApiError> {
        let size = |count: u64| usize::try_from(count).ok();
        let since = query.number("sinceSeconds")?.and_then(|seconds| i64::try_from(seconds).ok());
        let since = since.and_then(|seconds| state.now().checked_sub(SignedDuration::from_secs(seconds)).ok());
        let previous = query.flag("previous");
        Ok(Self {
            since: since.or_else(|| query.get("sinceTime").and_then(|text| text.parse().ok())),
            tail_lines: query.number("tailLines")?.and_then(size),
            limit_bytes: query.number("limitBytes")?.and_then(size),
            timestamps: query.flag("timestamps"),
            previous,
            follow: query.flag("follow") && !previous,
        })
    }
}

/// Answers a GET of `pods/log`.
pub(super) fn answer(call: &Call<'_>, kind: &Kind, key: &Key) -> Result<Response, ApiError> {
    let pod = call.state.store.lock().find(kind, key)?.object(kind);
    let container = container_name(&pod, &call.query)?;
    if pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let options = LogOptions::read(&call.query, call.state)?;
    let (logs, uid) = (&call.state.logs, meta(&pod, "uid"));
    let (lines, follower) = if options.follow {
        let (lines, follower) = logs.follow(uid, &container);
        (lines, Some(follower))
    } else if options.previous {
        let lines = logs.previous_lines(uid, &container).ok_or_else(|| {
            let text = format!("previous terminated container \"{container}\" in pod \"{}\" not found", key.name);
            ApiError::bad_request(text)
        })?;
        (lines, None)
    } else {
        (logs.lines(uid, &container), None)
    };
    let stream = LogStream { first: Some(select(&lines, &options)), follower, timestamps: options.timestamps };
    let body = Body::from_stream(stream::unfold(stream, |mut stream| async move {
        let chunk = stream.next_chunk().await?;
        Some((Ok::<_, Infallible>(Bytes::from(chunk)), stream))
    }));
    Ok(([(header::CONTENT_TYPE, "text/plain")], body).into_response())
}

/// The existing lines that the request asks for.
fn select(lines: &[LogLine], options: &LogOptions) -> Vec<u8> {
    let recent: Vec<_> = lines.iter().filter(|line| options.since.is_none_or(|since| line.time >= since)).collect();
    let from = recent.len() - options.tail_lines.unwrap_or(recent.len()).min(recent.len());
    let mut out = Vec::new();
    recent[from..].iter().for_each(|line| write(line, options.timestamps, &mut out));
    if let Some(limit) = options.limit_bytes {
        out.truncate(limit);
    }
    out
}

fn write(line: &LogLine, timestamps: bool, out: &mut Vec<u8>) {
    if timestamps {
        out.extend_from_slice(format!("{:.9} ", line.time).as_bytes());
    }
    out.extend_from_slice(line.text.as_bytes());
    out.push(b'\n');
}

impl LogStream {
    async fn next_chunk(&mut self) -> Option<Vec<u8>> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let lines = self.follower.as_mut()?.next().await?;
        let mut out = Vec::new();
        lines.iter().for_each(|line| write(line, self.timestamps, &mut out));
        Some(out)
    }
}

/// The container that the request names, or the only one of the pod. The error texts are those of kube-apiserver.
fn container_name(pod: &Value, query: &Query) -> Result<String, ApiError> {
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
