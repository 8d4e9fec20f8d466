//! The tasks of a run, what happens to their pods, and how each task must end.

use std::time::Duration;

use aileron_executor::storage::MemoryStore;
use aileron_idl::flyteidl2::core::resources::ResourceName;
use aileron_parity::suite::{ATTEMPTS, Task, duration_inputs};
use kube::api::ObjectMeta;

pub use aileron_history::plan::Expected;

use aileron_testkit::simulation::random::Random;

/// Namespaces of tasks. The second one has a quota.
pub const NAMESPACES: [&str; 2] = ["team-a", "team-b"];
/// Where inputs and outputs are.
pub const DATA: &str = "mem://data";

/// A task of the run.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The task.
    pub task: Task,
    /// Its namespace, which is also the name of its run.
    pub namespace: &'static str,
    /// When it is submitted.
    pub at: Duration,
    /// How it ends if nobody interferes.
    pub expected: Expected,
}

/// The tasks of a seed.
#[must_use]
pub fn tasks(seed: u64, store: &MemoryStore) -> Vec<Planned> {
    let random = Random::new(seed, "workload");
    (0..2 + random.below(6)).map(|number| task(&random, number, store)).collect()
}

/// One task of each kind, for systematic patterns.
#[must_use]
pub fn one_of_each(store: &MemoryStore) -> Vec<Planned> {
    let at = Duration::from_millis(500);
    let planned = |task: Task, expected| Planned { task, namespace: NAMESPACES[0], at, expected };
    let sleep = Task::sleep("sleep");
    store.insert(input_uri(NAMESPACES[0], "sleep"), duration_inputs(Duration::from_secs(3)));
    vec![
        planned(Task::container("good").attempts(&["succeed@2000"]), Expected::Success(1)),
        planned(Task::container("again").retries(1).attempts(&["fail:1@1000", "succeed@1000"]), Expected::Success(2)),
        planned(Task::container("bad").attempts(&["error:Broken:permanent@500"]), Expected::Failure(1)),
        planned(Task::container("job").task_type("simjob").attempts(&["succeed"]), Expected::Success(1)),
        planned(Task::container("licensed").task_type("licensed").attempts(&["succeed@500"]), Expected::Success(1)),
        planned(Task::container("cached").cached("shared", true).attempts(&["succeed@700"]), Expected::Success(1)),
        planned(sleep, Expected::Success(1)),
    ]
}

fn task(random: &Random, number: u64, store: &MemoryStore) -> Planned {
    let name = format!("t{number}");
    let namespace = *random.pick(&NAMESPACES).unwrap_or(&NAMESPACES[0]);
    let retries = u32::try_from(random.below(3)).unwrap_or_default();
    let words: Vec<String> = (0..=retries).map(|_| word(random)).collect();
    let (mut task, mut expected) = (Task::container(&name), Expected::of_attempts(&words));
    match random.below(10) {
        0 | 1 => {
            task = task.task_type("simjob");
            expected = as_job(&words);
        }
        2 => task = task.task_type("licensed"),
        3 => task = task.cached(if random.chance(0.5) { "shared" } else { "shared-too" }, random.chance(0.7)),
        4 => {
            store.insert(input_uri(namespace, &name), duration_inputs(random.millis(0, 20_000)));
            task = Task::sleep(&name);
            expected = Expected::Success(1);
        }
        _ => {}
    }
    task = task.retries(retries).with_resource(ResourceName::Cpu, "100m");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Planned { task: task.attempts(&words), namespace, at: random.millis(0, 15_000), expected }
}

/// What happens to the pod of one attempt.
fn word(random: &Random) -> String {
    let millis = random.millis(0, 12_000).as_millis();
    let word = match random.below(8) {
        0 => "fail:1",
        1 => "fail:137:OOMKilled",
        2 => "error:Broken:recoverable",
        3 => "error:Broken:permanent",
        _ => "succeed",
    };
    format!("{word}@{millis}")
}

/// The operator knows success and failure only.
fn as_job(words: &[String]) -> Expected {
    let success = (1..).zip(words).find(|(_, word)| word.starts_with("succeed"));
    match success {
        Some((attempt, _)) => Expected::Success(attempt),
        None => Expected::Failure(u32::try_from(words.len()).unwrap_or(u32::MAX)),
    }
}

fn input_uri(namespace: &str, name: &str) -> String {
    format!("{DATA}/{namespace}/{name}/inputs.pb")
}

/// What happens in the attempt that an object was made for.
#[must_use]
pub fn word_of_attempt(metadata: &ObjectMeta) -> String {
    let label = metadata.labels.as_ref().and_then(|labels| labels.get("attempt"));
    let attempt: usize = label.and_then(|text| text.parse().ok()).unwrap_or(1);
    let words = metadata.annotations.as_ref().and_then(|all| all.get(ATTEMPTS)).map_or("", String::as_str);
    let words: Vec<&str> = words.split(';').collect();
    words.get(attempt.saturating_sub(1)).or_else(|| words.last()).copied().unwrap_or_default().to_owned()
}
