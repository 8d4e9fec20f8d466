//! The end of a run: everything must end, stay as it is, and leave nothing behind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aileron_action::TaskAction;
use aileron_action::object_identity::OBJECT_FINALIZER;
use aileron_apiserver::ApiServer;
use aileron_history::check::{FinalState, has_ended};
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::Value;
use tokio::time::sleep;

use super::clock::SimulatedClock;
use super::executors::Executors;
use super::history::Entry;
use super::network::{Network, Shared};
use super::process::Process;

/// How long after the last fault every task must have ended. The longest waits on the way: the lease of a killed leader
/// (15 s), a request that hangs (65 s), the longest pause between two tries (30 s) a few times, a clock that was wrong
/// (150 s), and tasks that run one after the other. It is shorter than the time after which safety rounds look for changes
/// that nobody reported (600 s): those must not hide a lost wake-up.
const SETTLES_WITHIN: Duration = Duration::from_secs(500);
/// How long after the end of all actions executors may take to remove their finalizer from the objects. The longest waits on
/// the way: a request of a process that starts hangs (65 s), another process starts, and the lease expires (15 s).
const RELEASED_WITHIN: Duration = Duration::from_secs(120);
/// How long after that executors may still clean up: they look for objects that were left behind every
/// 2 s, a pod with side containers is left alone for 10 s, and if the leader was killed at the end, another one begins when
/// the lease has expired, within 15 s.
const CLEANED_UP_WITHIN: Duration = Duration::from_secs(30);
/// How long the final state must stay as it is.
const STABLE_FOR: Duration = Duration::from_secs(60);
/// How long after the deletion of all actions nothing of them may be in memory. Objects are deleted within seconds; the
/// executor counts its memory every 10 s, and forgets its own writes that no watch showed after 30 s.
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(60);

/// How a run ended.
#[derive(Debug)]
pub struct Conclusion {
    /// Every action ended in time.
    pub settled: bool,
    /// What happened after everything had ended.
    pub writes_after: Vec<Entry>,
    /// The objects before all actions were deleted.
    pub end: FinalState,
    /// What each process kept in memory after all actions were deleted.
    pub memory: Vec<(String, BTreeMap<String, usize>)>,
}

/// Where the actions of a run are, and which objects do their work.
#[derive(Clone, Copy, Debug)]
pub struct Extent<'a> {
    /// The namespaces of actions.
    pub namespaces: &'a [&'a str],
    /// The kinds of the objects that do the work, as the API server's store names them: `pods`, `rayjobs.ray.io`.
    pub work: &'a [&'a str],
    /// When the last action is submitted.
    pub last_submission: Duration,
}

/// Waits for the end of a run in which no more faults happen.
pub async fn conclude(
    shared: &Arc<Shared>,
    executors: &Executors,
    clock: &SimulatedClock,
    extent: Extent<'_>,
) -> Conclusion {
    let settled = settle(&shared.server, clock, extent).await;
    let mut writes_after = Vec::new();
    if settled {
        shared.history.note("everything has ended");
        let count = shared.history.entries().len();
        sleep(STABLE_FOR).await;
        writes_after = shared.history.entries().split_off(count);
    }
    let end = final_state(&shared.server, extent.work);
    let memory = if settled { delete_everything(shared, executors, extent.namespaces).await } else { Vec::new() };
    Conclusion { settled, writes_after, end, memory }
}

/// Waits until every action has ended and bears the labels of its end. False if that takes too long.
async fn settle(server: &ApiServer, clock: &SimulatedClock, extent: Extent<'_>) -> bool {
    let begin = clock.elapsed();
    loop {
        sleep(Duration::from_secs(1)).await;
        let actions = server.store().objects("taskactions.flyte.org");
        if clock.elapsed() > extent.last_submission && actions.iter().all(has_ended) {
            let ended = clock.elapsed();
            while clock.elapsed() - ended < RELEASED_WITHIN && has_own_finalizer(server, extent.work) {
                sleep(Duration::from_secs(1)).await;
            }
            sleep(CLEANED_UP_WITHIN).await;
            return true;
        }
        if clock.elapsed() - begin > SETTLES_WITHIN {
            return false;
        }
    }
}

/// Whether an object still has the finalizer of the executor.
fn has_own_finalizer(server: &ApiServer, work: &[&str]) -> bool {
    let mut objects = work.iter().flat_map(|resource| server.store().objects(resource));
    objects.any(|object| {
        let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
        finalizers.into_iter().flatten().any(|finalizer| finalizer == OBJECT_FINALIZER)
    })
}

/// The objects of the cluster now.
fn final_state(server: &ApiServer, work: &[&str]) -> FinalState {
    let store = server.store();
    let objects = |resource: &str| store.objects(resource).into_iter().map(Into::into).collect::<Vec<_>>();
    FinalState {
        actions: objects("taskactions.flyte.org"),
        work: work
            .iter()
            .flat_map(|resource| objects(resource).into_iter().map(move |object| ((*resource).to_owned(), object)))
            .collect(),
        leases: objects("leases.coordination.k8s.io"),
    }
}

/// Deletes all actions, as the control plane does with old runs. Returns what each process keeps in memory afterwards.
async fn delete_everything(
    shared: &Arc<Shared>,
    executors: &Executors,
    namespaces: &[&str],
) -> Vec<(String, BTreeMap<String, usize>)> {
    shared.history.note("all actions are deleted");
    let client = Network::of_other(shared, "control-plane");
    for namespace in namespaces {
        let actions: Api<TaskAction> = Api::namespaced(client.clone(), namespace);
        let _ = actions.delete_collection(&DeleteParams::default(), &ListParams::default()).await;
    }
    sleep(FORGOTTEN_WITHIN).await;
    let entries = |process: Arc<Process>| {
        let entries = process.memory.entries();
        (process.name.to_string(), entries.into_iter().map(|(name, count)| (name.to_owned(), count)).collect())
    };
    executors.alive().into_iter().map(entries).collect()
}
