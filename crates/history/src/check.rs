//! The promises of the executor, checked on the history of a run and on its final state.
//!
//! Each rule is a function from `Facts` to violations. A rule about the end of a task applies only to tasks that
//! nobody interfered with.

mod attempts;
mod ends;
mod memory;
mod objects;
mod writers;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aileron_action::TaskActionStatus;
use serde_json::Value;

use crate::history::{ActionEvent, Change, Entry, What};
use crate::plan::PlannedTask;
use crate::traces::Traces;

/// The name, in a history, of the objects of a plugin under test, whatever their kind is.
pub const WORK: &str = "objects";

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Violation {
    /// The rule.
    pub rule: String,
    /// What happened.
    pub text: String,
}

/// What checks need beside the history.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The tasks.
    pub tasks: Vec<PlannedTask>,
    /// What people did.
    pub traces: Traces,
    /// Requests to the API server failed, and the executor may have used its budget of system failures.
    pub api_faults: bool,
    /// How many tasks of type `licensed` may run at the same time.
    pub pool_limit: usize,
    /// Statuses with which the work of an object has ended, besides those with the usual phases. An object with more fields
    /// than such a status has ended too.
    pub end_statuses: Vec<Value>,
    /// Every action ended in time.
    pub settled: bool,
    /// What happened after everything had ended.
    pub writes_after: Vec<Entry>,
    /// The objects at the end.
    pub end: FinalState,
    /// After all actions were deleted: what each process that still ran kept in memory for actions, by data structure.
    pub memory: Vec<(String, BTreeMap<String, usize>)>,
}

/// The objects at the end of a run.
#[derive(Debug, Default)]
pub struct FinalState {
    /// All actions.
    pub actions: Vec<Arc<Value>>,
    /// The objects that do the work of actions, each with its resource, for example `pods`.
    pub work: Vec<(String, Arc<Value>)>,
    /// All leases, tokens of pools among them.
    pub leases: Vec<Arc<Value>>,
}

/// The history in the form that rules need.
struct Facts<'a> {
    entries: Vec<Entry>,
    /// Changes by resource and UID, in the order of their revisions.
    objects: BTreeMap<(&'static str, String), Vec<Version>>,
    /// Accepted events, each with the revision at that time.
    events: Vec<(u64, ActionEvent)>,
    evidence: &'a Evidence,
}

/// One state of an object.
#[derive(Clone, Debug)]
struct Version {
    revision: u64,
    change: Change,
    object: Arc<Value>,
}

type Rule = (&'static str, fn(&Facts<'_>) -> Vec<String>);

/// All rules.
const RULES: [Rule; 19] = [
    ("every action ends in time after the last fault", ends::in_time),
    ("the final state stays", ends::stays),
    ("a task ends as its attempts say", ends::as_expected),
    ("the last event says how the action ended", ends::last_event),
    ("an event is recorded before the status that follows from it", ends::event_before_status),
    ("an end is recorded once and never changed", ends::once),
    ("an abort is reported before the action goes away", ends::abort_reported),
    ("attempts and failures are charged one by one", attempts::rise),
    ("the end of an attempt is reported before the next one begins", attempts::end_reported),
    ("faults of the platform are not charged to a task", attempts::not_charged),
    ("at most one object of an action is at work", objects::one_at_work),
    ("finished work is not done again", objects::not_again),
    ("nothing is left behind", objects::no_orphans),
    ("objects of others are not touched", objects::foreign),
    ("labels, annotations and finalizers of others stay", writers::fields_of_others),
    ("one process writes at a time", writers::one),
    ("events come from the process that leads", writers::events),
    ("a pool never has too many holders", objects::tokens),
    ("nothing of deleted actions stays in memory", memory::nothing_left),
];

/// Checks all rules.
#[must_use]
pub fn all(entries: Vec<Entry>, evidence: &Evidence) -> Vec<Violation> {
    let facts = Facts::new(entries, evidence);
    let check = |(rule, check): &Rule| -> Vec<Violation> {
        check(&facts).into_iter().map(|text| Violation { rule: (*rule).to_owned(), text }).collect()
    };
    RULES.iter().flat_map(check).collect()
}

impl<'a> Facts<'a> {
    fn new(entries: Vec<Entry>, evidence: &'a Evidence) -> Self {
        let mut objects: BTreeMap<(&'static str, String), Vec<Version>> = BTreeMap::new();
        let mut events = Vec::new();
        for entry in &entries {
            match &entry.what {
                What::Changed { resource, change, object } => {
                    let revision = text(object, "/metadata/resourceVersion").parse().unwrap_or_default();
                    let version = Version { revision, change: *change, object: Arc::clone(object) };
                    objects.entry((resource, text(object, "/metadata/uid").to_owned())).or_default().push(version);
                }
                What::Event { event, .. } => events.push((entry.revision, event.clone())),
                _ => {}
            }
        }
        Self { entries, objects, events, evidence }
    }

    /// The states of every action, by UID.
    fn actions(&self) -> impl Iterator<Item = (&str, &[Version])> {
        self.of("taskactions")
    }

    fn of(&self, resource: &'static str) -> impl Iterator<Item = (&str, &[Version])> {
        self.objects
            .iter()
            .filter(move |((kind, _), _)| *kind == resource)
            .map(|((_, uid), all)| (uid.as_str(), all.as_slice()))
    }

    /// Whether an event of this action was recorded before this revision.
    fn has_event_before(&self, action: &Value, revision: u64, wanted: impl Fn(&ActionEvent) -> bool) -> bool {
        let (run, name) = (text(action, "/spec/runName"), text(action, "/spec/actionName"));
        self.events
            .iter()
            .any(|(at, event)| *at < revision && event.run == run && event.action == name && wanted(event))
    }

    /// The objects at work for actions: pods and jobs, with their owner.
    fn work(&self) -> impl Iterator<Item = (Owner, &[Version])> {
        let objects = ["pods", "simjobs", WORK].into_iter().flat_map(|resource| self.of(resource));
        objects.filter_map(|(_, versions)| Some((Owner::of(&versions.first()?.object)?, versions)))
    }

    /// Whether the work of an object has ended.
    fn work_ended(&self, object: &Value) -> bool {
        ["Succeeded", "Failed"].contains(&text(object, "/status/phase"))
            || ["Succeeded", "Failed"].contains(&text(object, "/status/state"))
            || self.evidence.end_statuses.iter().any(|status| contains(&object["status"], status))
    }

    /// Whether people changed how an action ends.
    fn is_disturbed(&self, namespace: &str, name: &str) -> bool {
        let traces = &self.evidence.traces;
        let is_job = self.planned(namespace, name).is_some_and(|planned| planned.task_type == "simjob");
        traces.is_disturbed(namespace, name) || (is_job && traces.is_disturbed("*", "simjob"))
    }

    fn final_action(&self, namespace: &str, name: &str) -> Option<&Value> {
        let fits =
            |action: &Value| text(action, "/metadata/namespace") == namespace && text(action, "/metadata/name") == name;
        self.evidence.end.actions.iter().map(Arc::as_ref).find(|action| fits(action))
    }

    fn planned(&self, namespace: &str, name: &str) -> Option<&PlannedTask> {
        self.evidence.tasks.iter().find(|planned| planned.namespace == namespace && planned.name == name)
    }
}

/// The action and the attempt that an object was made for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    uid: String,
    namespace: String,
    name: String,
    attempt: u32,
}

impl Owner {
    fn of(object: &Value) -> Option<Self> {
        let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
        let owner = owners.iter().find(|owner| owner["kind"] == "TaskAction")?;
        Some(Self {
            uid: owner["uid"].as_str()?.to_owned(),
            namespace: text(object, "/metadata/namespace").to_owned(),
            name: owner["name"].as_str()?.to_owned(),
            attempt: text(object, "/metadata/labels/attempt").parse().unwrap_or(1),
        })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} attempt {}", self.namespace, self.name, self.attempt)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.text)
    }
}

/// Whether an action has ended for good: its status says so, its labels too, and nobody deletes it.
#[must_use]
pub fn has_ended(action: &Value) -> bool {
    text(action, "/metadata/deletionTimestamp").is_empty()
        && text(action, "/metadata/labels/flyte.org~1termination-status") == "terminated"
        && status(action).is_terminal()
}

fn status(action: &Value) -> TaskActionStatus {
    serde_json::from_value(action["status"].clone()).unwrap_or_default()
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string)
}

/// Whether a value has all the members of another one, with the same values.
fn contains(value: &Value, part: &Value) -> bool {
    match part {
        Value::Object(part) => part.iter().all(|(key, part)| value.get(key).is_some_and(|value| contains(value, part))),
        part => value == part,
    }
}
