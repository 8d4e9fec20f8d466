//! The functions of a plugin on plain values.

use aileron_action::object_identity::{complete, object_ref};
use aileron_machinery::{
    AnyResource, ObjectPlugin, ObservedPhase, Phase, PhaseContext, PhaseInfo, PluginError, ResourceKind, TaskContext,
};
use futures::executor::block_on;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::life::Life;
use crate::report::Check;

/// A field that no type knows.
const UNKNOWN_FIELD: &str = "fieldOfANewerVersion";

pub(super) fn check(plugin: &dyn ObjectPlugin, tasks: &[TaskContext], lives: &[Life]) -> Vec<Check> {
    let states = tasks.len() * lives.iter().map(|life| life.steps().len() + 1).sum::<usize>();
    let of_tasks = |promise: &str, check: fn(&dyn ObjectPlugin, &TaskContext) -> Vec<String>| {
        Check::new(promise, tasks.len(), tasks.iter().flat_map(|task| check(plugin, task)).collect())
    };
    let of_lives = |promise: &str, check: fn(&dyn ObjectPlugin, &TaskContext, &Life) -> Vec<String>| {
        let pairs = tasks.iter().flat_map(|task| lives.iter().map(move |life| (task, life)));
        Check::new(promise, states, pairs.flat_map(|(task, life)| check(plugin, task, life)).collect())
    };
    vec![
        of_tasks("build gives the same object each time", same_object),
        of_tasks("the object has the kind of the plugin and can be read back", same_kind),
        of_tasks("an abort can be repeated", same_abort),
        of_lives("phases are those of the lives, and only move forward", phases),
        of_lives("success never precedes the end of the object", success_after_end),
        of_lives("fields that the plugin does not know do no harm", unknown_fields),
    ]
}

/// The object of the task, as the manager creates it.
pub(super) fn built(plugin: &dyn ObjectPlugin, task: &TaskContext) -> Result<Box<dyn AnyResource>, PluginError> {
    let mut object = block_on(plugin.build(task))?;
    complete(task, &plugin.properties(), object.as_mut());
    Ok(object)
}

fn document(plugin: &dyn ObjectPlugin, task: &TaskContext) -> Result<Value, String> {
    let object = built(plugin, task).map_err(|error| format!("build: {error}"))?;
    object.to_json().map_err(|error| error.to_string())
}

fn same_object(plugin: &dyn ObjectPlugin, task: &TaskContext) -> Vec<String> {
    match (document(plugin, task), document(plugin, &task.clone())) {
        (Ok(one), Ok(other)) => {
            difference(&one, &other).map(|field| format!("{field} differs from call to call")).into_iter().collect()
        }
        (Err(error), _) | (_, Err(error)) => vec![error],
    }
}

fn same_kind(plugin: &dyn ObjectPlugin, task: &TaskContext) -> Vec<String> {
    let written = match document(plugin, task) {
        Ok(written) => written,
        Err(error) => return vec![error],
    };
    let kind = plugin.kind();
    let mut problems = Vec::new();
    if written["kind"] != *kind.kind || written["apiVersion"] != kind.api_version() {
        problems.push(format!(
            "the object is a {} {}, the kind of the plugin is {} {}",
            written["apiVersion"],
            written["kind"],
            kind.api_version(),
            kind.kind
        ));
    }
    match plugin.decode(written.clone()).and_then(|read| read.to_json()) {
        Ok(read) => {
            let field = difference(&written, &read);
            problems.extend(field.map(|field| format!("{field} is lost when the object is read")));
        }
        Err(error) => problems.push(format!("the object cannot be read back: {error}")),
    }
    problems
}

fn same_abort(plugin: &dyn ObjectPlugin, task: &TaskContext) -> Vec<String> {
    let object = object_ref(task, plugin.kind(), &plugin.properties());
    let abort = || block_on(plugin.on_abort(task, &object)).map_err(|error| error.to_string());
    match (abort(), abort()) {
        (Ok(one), Ok(other)) if one == other => Vec::new(),
        (Ok(one), Ok(other)) => vec![format!("first {one:?}, then {other:?}")],
        (Err(error), _) | (_, Err(error)) => vec![format!("on_abort: {error}")],
    }
}

/// What the plugin reads from each state of a life. The first state is a new object.
pub(super) fn read_life(
    plugin: &dyn ObjectPlugin,
    task: &TaskContext,
    life: &Life,
    edit: fn(&mut Value),
) -> Result<Vec<State>, String> {
    let mut built = document(plugin, task)?;
    // As the API server does.
    built["metadata"]["creationTimestamp"] = task.now.to_string().into();
    let statuses = std::iter::once(None).chain(life.steps().iter().map(Some));
    let is_pod = plugin.kind() == ResourceKind::of::<Pod>();
    let mut prior = ObservedPhase::default();
    let mut states = Vec::new();
    for (number, step) in statuses.enumerate() {
        let place = format!("life {:?}, state {number}", life.name());
        let mut object = built.clone();
        match step {
            Some(step) => object["status"] = step.status(&built),
            // The API server itself gives a new pod its first status.
            None if is_pod => object["status"] = json!({"phase": "Pending"}),
            None => {}
        }
        edit(&mut object);
        let object = plugin.decode(object).map_err(|error| format!("{place}: the status cannot be read: {error}"))?;
        let read = || block_on(plugin.phase(&PhaseContext::new(task, &prior), object.as_ref()));
        let info = read().map_err(|error| format!("{place}: phase: {error}"))?;
        if read().ok().as_ref() != Some(&info) {
            return Err(format!("{place}: phase gives different answers for the same object"));
        }
        let ended = block_on(plugin.ended(object.as_ref())).map_err(|error| format!("{place}: ended: {error}"))?;
        prior = ObservedPhase { phase: info.phase(), version: info.version(), reason: info.reason().to_owned() };
        let expected = step.map(crate::Step::phase);
        states.push(State {
            place,
            expected,
            info,
            has_ended: ended.is_some(),
            has_failed: ended.is_some_and(|end| end.failed),
        });
    }
    Ok(states)
}

/// What a plugin reads from one state of an object.
pub(super) struct State {
    place: String,
    expected: Option<Phase>,
    pub info: PhaseInfo,
    has_ended: bool,
    has_failed: bool,
}

fn phases(plugin: &dyn ObjectPlugin, task: &TaskContext, life: &Life) -> Vec<String> {
    let states = match read_life(plugin, task, life, |_| ()) {
        Ok(states) => states,
        Err(error) => return vec![error],
    };
    let mut problems = Vec::new();
    let mut furthest = Phase::Undefined;
    for State { place, expected, info, .. } in &states {
        let phase = info.phase();
        match expected {
            Some(expected) if *expected != phase => {
                problems.push(format!("{place}: expected {expected}, the plugin reads {phase} {:?}", info.reason()));
            }
            None if phase.is_terminal() => {
                problems.push(format!("{place}: an object without a status is read as {phase}"));
            }
            _ => {}
        }
        if phase != Phase::Undefined && rank(phase) < rank(furthest) {
            problems.push(format!("{place}: {phase} follows {furthest}"));
        }
        furthest = if rank(phase) > rank(furthest) { phase } else { furthest };
    }
    problems
}

/// The order of phases within an attempt.
fn rank(phase: Phase) -> u8 {
    match phase {
        Phase::Undefined => 0,
        Phase::NotReady | Phase::WaitingForResources | Phase::WaitingForCache => 1,
        Phase::Queued => 2,
        Phase::Initializing => 3,
        Phase::Running => 4,
        Phase::Success | Phase::RetryableFailure | Phase::PermanentFailure | Phase::Aborted => 5,
    }
}

fn success_after_end(plugin: &dyn ObjectPlugin, task: &TaskContext, life: &Life) -> Vec<String> {
    let Ok(states) = read_life(plugin, task, life, |_| ()) else { return Vec::new() };
    let problem = |state: State| {
        let State { place, info, has_ended, has_failed, .. } = state;
        match info.phase() {
            Phase::Success if !has_ended => Some(format!(
                "{place}: the phase is a success, but `ended` says that the object has not ended: it would never be cleaned up"
            )),
            Phase::Success if has_failed => {
                Some(format!("{place}: the phase is a success, but `ended` says that it failed"))
            }
            phase if has_ended && !phase.is_terminal() && phase != Phase::Undefined => {
                Some(format!("{place}: `ended` says that the object has ended, but the phase is {phase}"))
            }
            _ => None,
        }
    };
    states.into_iter().filter_map(problem).collect()
}

fn unknown_fields(plugin: &dyn ObjectPlugin, task: &TaskContext, life: &Life) -> Vec<String> {
    let add_unknown = |object: &mut Value| {
        for part in ["spec", "status"] {
            if let Some(Value::Object(members)) = object.get_mut(part) {
                members.insert(UNKNOWN_FIELD.to_owned(), json!({"any": ["thing"]}));
            }
        }
    };
    match (read_life(plugin, task, life, |_| ()), read_life(plugin, task, life, add_unknown)) {
        (Ok(known), Ok(unknown)) => known
            .iter()
            .zip(&unknown)
            .filter(|(known, unknown)| known.info.phase() != unknown.info.phase())
            .map(|(known, unknown)| format!("{}: {} becomes {}", known.place, known.info.phase(), unknown.info.phase()))
            .collect(),
        (Ok(_), Err(error)) => vec![format!("with an unknown field: {error}")],
        (Err(_), _) => Vec::new(),
    }
}

/// The path of the first field that differs.
fn difference(one: &Value, other: &Value) -> Option<String> {
    fn walk(one: &Value, other: &Value, path: &str) -> Option<String> {
        match (one, other) {
            (Value::Object(one), Value::Object(other)) => {
                let keys = one.keys().chain(other.keys().filter(|key| !one.contains_key(*key)));
                keys.into_iter().find_map(|key| {
                    let path = format!("{path}.{key}");
                    walk(one.get(key).unwrap_or(&Value::Null), other.get(key).unwrap_or(&Value::Null), &path)
                })
            }
            (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
                let pairs = one.iter().zip(other).enumerate();
                pairs.into_iter().find_map(|(index, (one, other))| walk(one, other, &format!("{path}[{index}]")))
            }
            (one, other) => (one != other).then(|| path.trim_start_matches('.').to_owned()),
        }
    }
    walk(one, other, "")
}
