//! Counts requests from the API server's audit log. This is exact and independent of the client under test.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::User;
use super::journal::Journal;

pub(super) const POLICY_FILE: &str = "audit-policy.json";
pub(super) const LOG_FILE: &str = "audit.log";

/// One request, as the API server saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// The plural name, e.g. `pods`; empty for paths such as `/version`.
    pub resource: String,
    /// E.g. `status`; empty for the object itself.
    pub subresource: String,
    /// Empty for requests across namespaces.
    pub namespace: String,
    /// Empty for lists, and for creations with a generated name.
    pub name: String,
    /// The HTTP status of the answer.
    pub code: u16,
    /// Path and query.
    pub uri: String,
}

/// A request with its sender and its times, by the clock of the API server.
#[derive(Debug, Clone)]
pub struct TimedRequest {
    /// Who sent it.
    pub user: User,
    /// When the API server received it.
    pub received: Timestamp,
    /// When the API server had answered it.
    pub completed: Timestamp,
    /// The request and its answer.
    pub record: AuditRecord,
}

/// Reads requests in the order of their answers, each once.
#[derive(Debug)]
pub struct RequestReader {
    users: Vec<User>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Log(LogReader),
    Journal { journal: Arc<Journal>, read: usize },
}

/// Reads a growing log file. The API server may rename it and begin a new one; the renamed file is read to its end first.
#[derive(Debug)]
struct LogReader {
    path: PathBuf,
    file: Option<File>,
    /// A line whose end is not written yet.
    rest: Vec<u8>,
    /// Watches that are open: the API server logs their begin and their end.
    open: HashSet<String>,
}

/// The fields of `audit.k8s.io/v1` Event that we read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    #[serde(default)]
    stage: String,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: EventUser,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
}

#[derive(Deserialize)]
struct EventUser {
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

/// The API server logs a watch twice, at its start and at its end. [`parse`] keeps the first, so that open watches count.
pub(super) fn write_policy(dir: &Path, users: &[User]) -> Result<()> {
    let users: Vec<_> = users.iter().map(|user| user.username()).collect();
    let mut rules = vec![json!({"level": "None"})];
    if !users.is_empty() {
        rules.insert(0, json!({"level": "Metadata", "users": users})); // an empty list of users would match all users
    }
    let policy =
        json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules});
    fs::write(dir.join(POLICY_FILE), serde_json::to_vec(&policy)?).context("writing the audit policy")
}

pub(super) fn read(dir: &Path, user: User) -> Result<Vec<AuditRecord>> {
    match fs::read_to_string(dir.join(LOG_FILE)) {
        Ok(log) => parse(&log, &user.username()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()), // no request yet
        Err(error) => Err(error).context("reading the audit log"),
    }
}

impl RequestReader {
    pub(super) fn of_log(dir: &Path, users: &[User]) -> Self {
        let log = LogReader { path: dir.join(LOG_FILE), file: None, rest: Vec::new(), open: HashSet::new() };
        Self { users: users.to_vec(), source: Source::Log(log) }
    }

    pub(super) fn of_journal(journal: Arc<Journal>, users: &[User]) -> Self {
        Self { users: users.to_vec(), source: Source::Journal { journal, read: 0 } }
    }

    /// The requests that were answered since the last call. Requests that an API server had not logged when it was killed
    /// are missing.
    ///
    /// # Errors
    /// The audit log is unreadable.
    pub fn read(&mut self) -> Result<Vec<TimedRequest>> {
        let users = &self.users;
        match &mut self.source {
            Source::Journal { journal, read } => {
                let new = journal.since(*read);
                *read += new.len();
                Ok(new.into_iter().filter(|request| users.contains(&request.user)).collect())
            }
            Source::Log(log) => log.read(users),
        }
    }
}

impl LogReader {
    fn read(&mut self, users: &[User]) -> Result<Vec<TimedRequest>> {
        let mut bytes = std::mem::take(&mut self.rest);
        self.read_to_end(&mut bytes)?;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        self.rest = bytes.split_off(end);
        let mut requests = Vec::new();
        for line in String::from_utf8_lossy(&bytes).lines() {
            // A killed API server may leave an incomplete line in front of the first line of its successor.
            let line = line.rfind("{\"kind\":\"Event\"").map_or(line, |begin| &line[begin..]);
            let event: Event = serde_json::from_str(line).with_context(|| format!("not an audit event: {line}"))?;
            let Some(user) = users.iter().find(|user| user.username() == event.user.username) else { continue };
            let is_end_of_watch = event.stage != "ResponseStarted" && self.open.remove(&event.audit_id);
            if is_end_of_watch {
                continue;
            }
            if event.stage == "ResponseStarted" {
                self.open.insert(event.audit_id.clone());
            }
            let (received, completed) = (event.request_received_timestamp, event.stage_timestamp);
            requests.push(TimedRequest { user: *user, received, completed, record: event.into_record() });
        }
        Ok(requests)
    }

    fn read_to_end(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        loop {
            if self.file.is_none() {
                match File::open(&self.path) {
                    Ok(file) => self.file = Some(file),
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()), // no request yet
                    Err(error) => return Err(error).context("opening the audit log"),
                }
            }
            let Some(file) = &mut self.file else { return Ok(()) };
            // Asked before reading: what is written to a file after it was renamed is nothing.
            let current = fs::metadata(&self.path).ok().map(|meta| meta.ino());
            file.read_to_end(bytes).context("reading the audit log")?;
            if current.is_none() || current == Some(file.metadata()?.ino()) {
                return Ok(());
            }
            self.file = None;
        }
    }
}

impl Event {
    fn into_record(self) -> AuditRecord {
        let ObjectRef { resource, subresource, namespace, name } = self.object_ref;
        let (verb, uri, code) = (self.verb, self.request_uri, self.response_status.code);
        AuditRecord { verb, resource, subresource, namespace, name, code, uri }
    }
}

fn parse(log: &str, username: &str) -> Result<Vec<AuditRecord>> {
    // The server may still be writing the last line.
    let complete = log.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let mut seen = HashSet::new();
    let mut records = Vec::new();
    for line in complete.lines() {
        let event: Event = serde_json::from_str(line).with_context(|| format!("not an audit event: {line}"))?;
        if event.user.username == username && seen.insert(event.audit_id.clone()) {
            records.push(event.into_record());
        }
    }
    Ok(records)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn line(id: &str, user: &str, stage: &str) -> String {
        let event = json!({
            "auditID": id, "stage": stage, "verb": "watch", "requestURI": "/api/v1/pods?watch=1",
            "requestReceivedTimestamp": "2026-01-01T00:00:00.100000Z", "stageTimestamp": "2026-01-01T00:00:00.200000Z",
            "user": {"username": user}, "objectRef": {"resource": "pods"}, "responseStatus": {"code": 200},
        });
        // As the API server writes it, with the kind first.
        format!("{{\"kind\":\"Event\",{}\n", &event.to_string()[1..])
    }

    #[test]
    fn a_watch_counts_once_and_other_users_do_not_count() {
        let log = line("1", "a", "ResponseStarted")
            + &line("2", "b", "ResponseComplete")
            + &line("1", "a", "ResponseComplete");
        let records = parse(&log, "a").unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!((records[0].resource.as_str(), records[0].code), ("pods", 200));
    }

    #[test]
    fn a_reader_reads_each_request_once_also_when_the_log_is_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let (log, renamed) = (dir.path().join(LOG_FILE), dir.path().join("audit-old.log"));
        let user = User::Executor.username();
        let mut reader = RequestReader::of_log(dir.path(), &[User::Executor]);
        assert!(reader.read().unwrap().is_empty());
        fs::write(&log, line("1", &user, "ResponseStarted") + "{\"auditID\":").unwrap();
        assert_eq!(reader.read().unwrap().len(), 1);
        // The rest of a line that was cut off stays in front of the next one.
        let more = line("1", &user, "ResponseStarted") + "{\"auditID\":" + &line("2", &user, "ResponseComplete");
        fs::write(&log, more).unwrap();
        let next = reader.read().unwrap();
        assert_eq!(next.len(), 1);
        assert_eq!((next[0].completed - next[0].received).get_milliseconds(), 100);
        fs::rename(&log, &renamed).unwrap();
        fs::write(&log, line("1", &user, "ResponseComplete") + &line("3", &user, "ResponseComplete")).unwrap();
        assert_eq!(reader.read().unwrap().len(), 1, "the end of a watch is not another request");
        assert!(reader.read().unwrap().is_empty());
    }

    #[test]
    fn an_incomplete_last_line_is_ignored() {
        let log = line("1", "a", "ResponseComplete") + "{\"auditID\":\"2\",\"ve";
        assert_eq!(parse(&log, "a").unwrap().len(), 1);
    }
}
