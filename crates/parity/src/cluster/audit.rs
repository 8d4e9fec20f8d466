//! Counts requests from the API server's audit log. This is exact and independent of the client under test.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::User;

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

/// The fields of `audit.k8s.io/v1` Event that we read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
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
        Ok(log) => parse(&log, user.username()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()), // no request yet
        Err(error) => Err(error).context("reading the audit log"),
    }
}

fn parse(log: &str, username: &str) -> Result<Vec<AuditRecord>> {
    // The server may still be writing the last line.
    let complete = log.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let mut seen = HashSet::new();
    let mut records = Vec::new();
    for line in complete.lines() {
        let event: Event = serde_json::from_str(line).with_context(|| format!("not an audit event: {line}"))?;
        if event.user.username == username && seen.insert(event.audit_id) {
            let ObjectRef { resource, subresource, namespace, name } = event.object_ref;
            let (verb, uri, code) = (event.verb, event.request_uri, event.response_status.code);
            records.push(AuditRecord { verb, resource, subresource, namespace, name, code, uri });
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
            "user": {"username": user}, "objectRef": {"resource": "pods"}, "responseStatus": {"code": 200},
        });
        format!("{event}\n")
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
    fn an_incomplete_last_line_is_ignored() {
        let log = line("1", "a", "ResponseComplete") + "{\"auditID\":\"2\",\"ve";
        assert_eq!(parse(&log, "a").unwrap().len(), 1);
    }
}
