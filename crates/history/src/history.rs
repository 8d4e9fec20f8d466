//! What happened in a run, in the order of the API server's revisions.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

/// How the remark about a list or a read from an older state begins.
pub const STALE_ANSWER: &str = "stale answer";

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When, since the start of the run.
    pub at: Duration,
    /// The revision of the API server at that time: what was written before has this revision or a lower one.
    pub revision: u64,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum What {
    /// A write left a process. It may still be lost or refused.
    Sent {
        /// The process.
        process: Arc<str>,
        /// The request.
        request: RequestLine,
        /// Whether this process holds the leader lease at this moment, as the API server sees it.
        leads: bool,
    },
    /// The API server answered a write.
    Answered {
        /// Who sent it: a process, or a person or component outside.
        who: Arc<str>,
        /// The request.
        request: RequestLine,
        /// The HTTP status.
        code: u16,
        /// The UID of the object, if the answer has one.
        uid: Option<String>,
        /// The resource version of the object after the write.
        version: Option<u64>,
    },
    /// An object was created, changed or deleted.
    Changed {
        /// Plural and group, for example `pods`.
        resource: &'static str,
        /// How.
        change: Change,
        /// The object, in its last state if it was deleted.
        object: Arc<Value>,
    },
    /// The events service accepted an event.
    Event {
        /// The process that sent it.
        process: Arc<str>,
        /// The event.
        event: ActionEvent,
        /// Whether this process holds the leader lease at this moment, as the API server sees it.
        leads: bool,
    },
    /// Something happened to a process: start, end, kill, pause.
    Process {
        /// The process.
        process: Arc<str>,
        /// What.
        text: String,
    },
    /// A fault was injected, or a person did something.
    Note(String),
}

/// How an object changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was created.
    Created,
    /// It was changed.
    Modified,
    /// It is gone.
    Deleted,
}

/// The parts of an action event that are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionEvent {
    /// Name of the run.
    pub run: String,
    /// Name of the action.
    pub action: String,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Number of the phase.
    pub phase: i32,
}

/// A request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLine {
    /// `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`.
    pub verb: &'static str,
    /// Plural, with the subresource if there is one: `taskactions/status`.
    pub resource: String,
    /// The namespace; empty for all.
    pub namespace: String,
    /// The name; empty for a collection.
    pub name: String,
}

impl RequestLine {
    /// Whether the request changes something.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self.verb, "create" | "update" | "patch" | "delete")
    }

    /// Reads method and path.
    #[must_use]
    pub fn read(method: &http::Method, uri: &http::Uri) -> Self {
        let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
        let root = if parts.first() == Some(&"api") { 2 } else { 3 };
        let rest = parts.get(root..).unwrap_or_default();
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let mut resource = rest.first().copied().unwrap_or_default().to_owned();
        let name = rest.get(1).copied().unwrap_or_default().to_owned();
        if let Some(subresource) = rest.get(2) {
            resource = format!("{resource}/{subresource}");
        }
        let is_watch = uri.query().is_some_and(|query| query.contains("watch=true"));
        let verb = match *method {
            http::Method::POST => "create",
            http::Method::PUT => "update",
            http::Method::PATCH => "patch",
            http::Method::DELETE => "delete",
            _ if is_watch => "watch",
            _ if name.is_empty() => "list",
            _ => "get",
        };
        // The client library names Kubernetes events by the time of day, which is not simulated.
        let name = if resource == "events" { String::new() } else { name };
        Self { verb, resource, namespace: namespace.to_owned(), name }
    }
}

impl fmt::Display for RequestLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}/{}", self.verb, self.resource, self.namespace, self.name)
    }
}

/// Returns the time since the start of the run and the revision of the API server.
type Now = dyn Fn() -> (Duration, u64) + Send + Sync;

/// The history of a run. Clones share it.
#[derive(Clone)]
pub struct History {
    now: Arc<Now>,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl History {
    /// An empty history. `now` returns the time since the start of the run and the revision of the API server.
    #[must_use]
    pub fn new(now: impl Fn() -> (Duration, u64) + Send + Sync + 'static) -> Self {
        Self { now: Arc::new(now), entries: Arc::default() }
    }

    /// Adds what happened just now.
    pub fn add(&self, what: What) {
        let (at, revision) = (self.now)();
        let entry = Entry { at, revision, what };
        tracing::debug!("{entry}");
        self.lock().push(entry);
    }

    /// Adds a remark.
    pub fn note(&self, text: impl Into<String>) {
        self.add(What::Note(text.into()));
    }

    /// All entries so far.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().clone()
    }

    /// A number that is equal for equal histories.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.lock().iter().fold(0xcbf2_9ce4_8422_2325, |hash, entry| {
            entry.to_string().bytes().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").field("entries", &self.lock().len()).finish_non_exhaustive()
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.3}s r{:<5} ", self.at.as_secs_f64(), self.revision)?;
        match &self.what {
            What::Sent { process, request, leads } => {
                write!(f, "{process} sends {request}{}", if *leads { "" } else { " (does not lead)" })
            }
            What::Answered { who, request, code, version, .. } => {
                write!(f, "{who} got {code} for {request}")?;
                version.map_or(Ok(()), |version| write!(f, " -> r{version}"))
            }
            What::Changed { resource, change, object } => {
                write!(f, "{change:?} {resource} {}", summary(resource, object))
            }
            What::Event { process, event, .. } => {
                let ActionEvent { run, action, attempt, phase } = event;
                write!(f, "{process} recorded event {run}/{action} attempt {attempt} phase {phase}")
            }
            What::Process { process, text } => write!(f, "{process} {text}"),
            What::Note(text) => f.write_str(text),
        }
    }
}

/// One line about an object.
fn summary(resource: &str, object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let mut line = format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"));
    if !text("/metadata/deletionTimestamp").is_empty() {
        line.push_str(" deleting");
    }
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array).map_or(0, Vec::len);
    if finalizers > 0 {
        line.push_str(&format!(" finalizers={finalizers}"));
    }
    match resource {
        "taskactions" => {
            let attempts = object.pointer("/status/attempts").and_then(Value::as_u64).unwrap_or_default();
            let failures = object.pointer("/status/systemFailures").and_then(Value::as_u64).unwrap_or_default();
            line.push_str(&format!(" attempt={attempts} failures={failures} phase={}", text("/status/pluginPhase")));
            for condition in object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten() {
                if condition["status"] == "True" {
                    let (kind, reason) = (&condition["type"], &condition["reason"]);
                    line.push_str(&format!(" {}={}", kind.as_str().unwrap_or("?"), reason.as_str().unwrap_or("?")));
                }
            }
        }
        "leases" => line.push_str(&format!(" holder={}", text("/spec/holderIdentity"))),
        _ => line.push_str(&format!(" {}{}", text("/status/phase"), text("/status/state"))),
    }
    line
}
