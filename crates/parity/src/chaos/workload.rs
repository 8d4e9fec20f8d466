//! The tasks of a run, what happens to their pods, and how each task must end.

use std::time::Duration;

use aileron_history::plan::{Expected, PlannedTask};
use aileron_idl::flyteidl2::core::resources::ResourceName;
use fastrand::Rng;

use crate::suite::{Task, duration_inputs};

/// A namespace without a quota.
pub(super) const FREE: &str = "free";
/// A namespace with a quota for [`QUOTA`] pods.
pub(super) const LIMITED: &str = "limited";
/// Pods that run at the same time in [`LIMITED`].
pub(super) const QUOTA: u32 = 3;
/// The task type whose tasks need the one token of a pool. The rules know it by this name.
pub(super) const LICENSED: &str = "licensed";

/// Longest running time of a pod, so that a task does not end between two kills.
const LONGEST_RUN_MS: u64 = 3_000;
/// Tasks that share an entry of the cache have numbers close to each other.
const TASKS_PER_ENTRY: u64 = 40;

/// A task to submit.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub task: Task,
    pub plan: PlannedTask,
    /// Its inputs, if it has any.
    pub inputs: Option<Vec<u8>>,
    /// A user deletes the action after this time.
    pub aborted_after: Option<Duration>,
}

/// The task with this number.
pub(super) fn task(random: &mut Rng, number: u64) -> Planned {
    let name = format!("t{number}");
    let namespace = if random.u8(..4) == 0 { LIMITED } else { FREE };
    let retries = random.u32(..3);
    let mut words: Vec<String> = (0..=retries).map(|_| word(random)).collect();
    let (mut task, mut inputs, mut aborted_after, mut is_cached) = (Task::container(&name), None, None, false);
    match random.u8(..10) {
        0 => task = task.task_type(LICENSED),
        1 | 2 => {
            task = task.cached(&format!("entry-{}", number / TASKS_PER_ENTRY), random.bool());
            is_cached = true;
        }
        3 => {
            task = Task::sleep(&name);
            inputs = Some(duration_inputs(Duration::from_millis(random.u64(..LONGEST_RUN_MS))));
            words = vec!["succeed".to_owned()];
        }
        4 => {
            words = vec!["run".to_owned()];
            aborted_after = Some(Duration::from_millis(random.u64(..8_000)));
        }
        _ => {}
    }
    let plan = PlannedTask {
        namespace: namespace.to_owned(),
        name,
        task_type: task.task_type.clone(),
        is_cached,
        expected: Expected::of_attempts(&words),
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let task = task.retries(retries).with_resource(ResourceName::Cpu, "100m").attempts(&words);
    Planned { task, plan, inputs, aborted_after }
}

/// What happens to the pod of one attempt.
fn word(random: &mut Rng) -> String {
    let word = match random.u8(..8) {
        0 => "fail:1",
        1 => "fail:137:OOMKilled",
        2 => "error:Broken:recoverable",
        3 => "error:Broken:permanent",
        _ => "succeed",
    };
    format!("{word}@{}", random.u64(..LONGEST_RUN_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_tasks_of_all_kinds() {
        let tasks = |seed: u64| {
            let mut random = Rng::with_seed(seed);
            (0..200).map(|number| task(&mut random, number)).collect::<Vec<_>>()
        };
        let (one, other) = (tasks(7), tasks(7));
        assert!(one.iter().zip(&other).all(|(one, other)| one.task.annotations == other.task.annotations));
        let has = |wanted: fn(&Planned) -> bool| one.iter().any(wanted);
        assert!(has(|planned| planned.plan.namespace == LIMITED) && has(|planned| planned.plan.task_type == LICENSED));
        assert!(has(|planned| planned.plan.is_cached) && has(|planned| planned.inputs.is_some()));
        assert!(has(|planned| planned.aborted_after.is_some()));
    }
}
