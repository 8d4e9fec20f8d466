//! One run: everything together, from an empty cluster to the verdict.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aileron_action::TaskAction;
use aileron_action::crd::crd;
use aileron_apiserver::{ApiServer, Clock, Options};
use aileron_machinery::time::clock::Clock as _;
use aileron_parity::kubelet::{Kubelet, Settings, Store};
use aileron_parity::suite::script;
use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, PostParams, WatchEvent, WatchParams};
use kube::core::GroupVersionKind;
use serde_json::json;
use tokio::time::sleep;

use crate::determinism::{Random, SimulatedClock};
use crate::executors::Executors;
use crate::faults::{Faults, Incident};
use crate::history::{self, Change, History, Renumbering, What};
use crate::network::{Network, Shared};
use crate::operator;
use crate::patterns::Pattern;
use crate::people::{People, Traces};
use crate::process::Process;
use crate::services::Services;
use crate::verdict::{self, Evidence, Violation};
use crate::workload::{self, DATA, NAMESPACES, Planned};

/// How long after the last fault every task must have ended. The longest waits on the way: the lease of a killed leader
/// (15 s), a request that hangs (65 s), the longest pause between two tries (30 s) a few times, a clock that was wrong
/// (150 s), and tasks that run one after the other. It is shorter than the time after which safety rounds look for changes
/// that nobody reported (600 s): those must not hide a lost wake-up.
const SETTLES_WITHIN: Duration = Duration::from_secs(500);
/// How long after the end of all actions executors may still clean up: they look for objects that were left behind every
/// 2 s, a pod with side containers is left alone for 10 s, and if the leader was killed at the end, another one begins when
/// the lease has expired, within 15 s.
const CLEANED_UP_WITHIN: Duration = Duration::from_secs(30);
/// How often all tasks of the runtime get their turn until none is ready any more. A few times are enough.
const READY_ROUNDS: usize = 1_000;
/// How long the final state must stay as it is.
const STABLE_FOR: Duration = Duration::from_secs(60);

/// How long after the deletion of all actions nothing of them may be in memory. Objects are deleted within seconds; the
/// executor counts its memory every 10 s, and forgets its own writes that no watch showed after 30 s.
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(60);

/// What a run consists of.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Tasks, people and faults of a seed.
    Random,
    /// One task of each kind and one disturbance.
    Pattern(Pattern),
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The history.
    pub history: History,
    /// Promises that were broken.
    pub violations: Vec<Violation>,
    /// Writes of executors.
    pub writes: u64,
    /// Changes that watches of executors delivered.
    pub changes: u64,
}

/// Runs a plan. Call it inside [`crate::determinism::simulate`] with the same seed.
///
/// # Errors
/// The simulated cluster could not be set up.
pub async fn run(seed: u64, plan: Plan) -> Result<Outcome> {
    let clock = SimulatedClock::start();
    let replicas = match plan {
        Plan::Random => usize::try_from(1 + Random::new(seed, "replicas").below(2)).unwrap_or(1),
        Plan::Pattern(_) => 1,
    };
    let (faults, pattern) = match plan {
        Plan::Random => (Faults::random(seed, replicas), Pattern::None),
        Plan::Pattern(pattern) => (Faults::none(seed), pattern),
    };
    let server = server(&clock);
    let renumbering = Arc::<Mutex<Renumbering>>::default();
    let history = history::empty(clock.clone(), server.clone(), Arc::clone(&renumbering));
    let shared = Arc::new(Shared::new(server.clone(), history.clone(), faults.clone(), pattern, renumbering));
    let services = Services::new(Arc::clone(&shared));
    let admin = Network::of_other(&shared, "admin");
    install(&admin).await?;
    observe(&shared);

    let tasks = match plan {
        Plan::Random => workload::tasks(seed, &services.store),
        Plan::Pattern(_) => workload::one_of_each(&services.store),
    };
    let _node = node(&shared, &services, &clock);
    let jobs = operator::run(
        Network::of_other(&shared, "operator"),
        Arc::clone(&services.store),
        Random::new(seed, "operator"),
    );
    tokio::spawn(jobs);
    let executors =
        Executors::new(Arc::clone(&shared), services.clone(), clock.clone(), Random::new(seed, "executors"), replicas);
    let executors = Arc::new(executors);
    executors.start();
    for planned in &tasks {
        tokio::spawn(submit(Network::of_other(&shared, "control-plane"), planned.clone()));
    }

    let traces = Traces::default();
    if matches!(plan, Plan::Random) {
        let people = People {
            client: Network::of_other(&shared, "people"),
            history: history.clone(),
            traces: traces.clone(),
            random: Random::new(seed, "people"),
        };
        let limit = if people.random.chance(0.6) { 5 } else { 0 };
        tokio::join!(people.run(&tasks, faults.end, limit), inject(&shared, &services, &executors));
    }
    faults.stop();
    services.restore();
    executors.correct_clocks();
    *shared.outage.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    history.note("faults end");

    let settled = settle(&server, &clock, &tasks).await;
    let api_faults = pattern != Pattern::None || faults.hit_the_api_server();
    let mut writes_after = Vec::new();
    if settled.is_some() {
        history.note("everything has ended");
        let count = history.entries().len();
        sleep(STABLE_FOR).await;
        writes_after = history.entries().split_off(count);
    }
    let end = verdict::final_state(&server);
    let memory = if settled.is_some() { delete_everything(&shared, &executors).await } else { Vec::new() };
    let tasks = tasks.iter().map(verdict::planned).collect();
    let evidence = Evidence {
        tasks,
        traces,
        api_faults,
        pool_limit: faults.pool_limit(),
        settled: settled.is_some(),
        writes_after,
        end,
        memory,
    };
    let violations = verdict::all(history.entries(), &evidence);
    let (writes, changes) = (shared.writes.load(Ordering::Relaxed), shared.changes.load(Ordering::Relaxed));
    Ok(Outcome { history, violations, writes, changes })
}

fn server(clock: &SimulatedClock) -> ApiServer {
    let clock = clock.clone();
    let namespaces = ["flyte", "default", "kube-system"].into_iter().chain(NAMESPACES).map(str::to_owned).collect();
    ApiServer::new(Options { namespaces, clock: Clock::from_fn(move || clock.now()), ..Options::default() })
}

async fn install(admin: &kube::Client) -> Result<()> {
    let create = PostParams::default();
    Api::all(admin.clone()).create(&create, &crd()?).await.context("the definition of TaskAction")?;
    Api::all(admin.clone()).create(&create, &operator::definition()?).await.context("the definition of SimJob")?;
    let quotas: Api<ResourceQuota> = Api::namespaced(admin.clone(), NAMESPACES[1]);
    let quota = json!({"metadata": {"name": "quota"}, "spec": {"hard": {"pods": "2", "requests.cpu": "1"}}});
    quotas.create(&create, &serde_json::from_value(quota)?).await.context("the quota")?;
    Ok(())
}

/// The node: runs pods as the annotation of their action says.
fn node(shared: &Arc<Shared>, services: &Services, clock: &SimulatedClock) -> Kubelet {
    let (store, clock) = (Arc::clone(&services.store), clock.clone());
    let write = move |uri: &str, bytes: &[u8]| {
        store.insert(uri, bytes.to_vec());
        Ok(())
    };
    let settings = Settings {
        decide: Arc::new(script),
        store: Store::Call(Arc::new(write)),
        termination: Duration::from_millis(300),
        now: Arc::new(move || clock.now()),
        ..Settings::default()
    };
    Kubelet::start(Network::of_other(shared, "node"), settings)
}

async fn submit(client: kube::Client, planned: Planned) {
    sleep(planned.at).await;
    let actions: Api<TaskAction> = Api::namespaced(client, planned.namespace);
    let action = planned.task.build(planned.namespace, DATA);
    let _ = actions.create(&PostParams::default(), &action).await;
}

/// Records every change of the objects that checks are about.
fn observe(shared: &Arc<Shared>) {
    let kinds = [
        ("pods", ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"))),
        ("taskactions", ApiResource::from_gvk(&GroupVersionKind::gvk("flyte.org", "v1", "TaskAction"))),
        ("leases", ApiResource::from_gvk(&GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease"))),
        ("simjobs", operator::resource()),
    ];
    for (resource, kind) in kinds {
        let shared = Arc::clone(shared);
        let mut revision = shared.server.store().revision().to_string();
        tokio::spawn(async move {
            let api: Api<DynamicObject> = Api::all_with(shared.server.client(), &kind);
            let mut renumbering = Renumbering::default();
            loop {
                let now = shared.renumbering();
                if std::mem::replace(&mut renumbering, now) != now {
                    revision = now.first.to_string();
                }
                let Ok(changes) = api.watch(&WatchParams::default(), &revision).await else {
                    // The kind is not served now.
                    sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let mut changes = changes.boxed();
                while let Ok(Some(change)) = changes.try_next().await {
                    let (change, object) = match change {
                        WatchEvent::Added(object) => (Change::Created, object),
                        WatchEvent::Modified(object) => (Change::Modified, object),
                        WatchEvent::Deleted(object) => (Change::Deleted, object),
                        WatchEvent::Bookmark(_) => continue,
                        WatchEvent::Error(_) => {
                            // The history was dropped, see `Incident::Compaction`. Nothing was missed.
                            revision = shared.server.store().revision().to_string();
                            break;
                        }
                    };
                    revision = object.metadata.resource_version.clone().unwrap_or_default();
                    let mut object = serde_json::to_value(object).unwrap_or_default();
                    let shown = revision.parse::<u64>().unwrap_or_default() + renumbering.offset;
                    object["metadata"]["resourceVersion"] = shown.to_string().into();
                    shared.history.add(What::Changed { resource, change, object: Arc::new(object) });
                }
            }
        });
    }
}

/// Lets the incidents happen.
async fn inject(shared: &Arc<Shared>, services: &Services, executors: &Arc<Executors>) {
    let begin = tokio::time::Instant::now();
    for (at, incident) in shared.faults.incidents.clone() {
        tokio::time::sleep_until(begin + at).await;
        match incident {
            Incident::Kill(slot) => executors.kill(slot),
            Incident::Stop(slot) => executors.stop(slot),
            Incident::Pause(slot, span) => {
                let executors = Arc::clone(executors);
                tokio::spawn(async move { executors.pause(slot, span).await });
            }
            Incident::Partition(slot, cut, span) => executors.partition(slot, cut, span),
            Incident::ClockJump(slot, seconds) => executors.jump(slot, seconds),
            Incident::ApiOutage(span) => {
                shared.history.note(format!("the API server is away for {span:?}"));
                let until = tokio::time::Instant::now() + span;
                *shared.outage.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(until);
                shared.server.faults().drop_watches();
            }
            Incident::PoolLimit(limit) => executors.set_pool_limit(limit),
            Incident::EventsOutage(span) => services.fail("events", span),
            Incident::CacheOutage(span) => services.fail("cache", span),
            Incident::StorageOutage(span) => services.fail("storage", span),
            Incident::RevisionsGoBack(span) => {
                shared.history.note("the revisions of the API server go backwards");
                // Time stands still while tasks are ready, so this lets the observers read all changes so far.
                for _ in 0..READY_ROUNDS {
                    tokio::task::yield_now().await;
                }
                shared.renumber();
                let executors = Arc::clone(executors);
                tokio::spawn(async move {
                    sleep(span).await;
                    executors.stop_all();
                });
            }
            Incident::Compaction => {
                shared.history.note("the API server forgets its history");
                shared.server.faults().drop_watches();
                shared.server.store().compact();
            }
        }
    }
    tokio::time::sleep_until(begin + shared.faults.end).await;
}

/// Deletes all actions, as the control plane does with old runs. Returns what each process keeps in memory afterwards.
async fn delete_everything(shared: &Arc<Shared>, executors: &Executors) -> Vec<(String, BTreeMap<String, usize>)> {
    shared.history.note("all actions are deleted");
    let client = Network::of_other(shared, "control-plane");
    for namespace in NAMESPACES {
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

/// Waits until every action has ended and bears the labels of its end. `None` if that takes too long.
async fn settle(server: &ApiServer, clock: &SimulatedClock, tasks: &[Planned]) -> Option<()> {
    let begin = clock.elapsed();
    let last = tasks.iter().map(|planned| planned.at).max().unwrap_or_default();
    loop {
        sleep(Duration::from_secs(1)).await;
        let actions = server.store().objects("taskactions.flyte.org");
        if clock.elapsed() > last && actions.iter().all(verdict::has_ended) {
            sleep(CLEANED_UP_WITHIN).await;
            return Some(());
        }
        if clock.elapsed() - begin > SETTLES_WITHIN {
            return None;
        }
    }
}
