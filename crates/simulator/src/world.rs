//! One run: everything together, from an empty cluster to the verdict.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aileron_action::TaskAction;
use aileron_action::crd::crd;
use aileron_apiserver::{ApiServer, Clock, Options};
use aileron_machinery::time::clock::Clock as _;
use aileron_parity::kubelet::{Kubelet, Settings, Store};
use aileron_parity::suite::script;
use aileron_testkit::simulation::clock::SimulatedClock;
use aileron_testkit::simulation::conclusion::{Conclusion, Extent, conclude};
use aileron_testkit::simulation::executors::Executors;
use aileron_testkit::simulation::faults::{Faults, Incident};
use aileron_testkit::simulation::history::{self, History, Renumbering};
use aileron_testkit::simulation::network::{Network, Shared};
use aileron_testkit::simulation::observation::{kinds_of_executor, observe};
use aileron_testkit::simulation::patterns::Pattern;
use aileron_testkit::simulation::random::Random;
use aileron_testkit::simulation::services::Services;
use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::{Api, ApiResource, PostParams};
use kube::core::GroupVersionKind;
use serde_json::json;
use tokio::time::sleep;

use crate::configuration::Configuration;
use crate::operator;
use crate::people::{People, Traces};
use crate::verdict::{self, Evidence, Violation};
use crate::workload::{self, DATA, NAMESPACES, Planned};

/// How often all tasks of the runtime get their turn until none is ready any more. A few times are enough.
const READY_ROUNDS: usize = 1_000;
/// The objects that do the work of actions.
const WORK: [&str; 2] = ["pods", "simjobs.simulation.aileron.test"];

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
    let kinds =
        [("pods", ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"))), ("simjobs", operator::resource())];
    observe(&shared, kinds.into_iter().chain(kinds_of_executor()));

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
    let configuration = Configuration::first()?;
    let configure = {
        let configuration = configuration.clone();
        Box::new(move || configuration.read())
    };
    let random = Random::new(seed, "executors");
    let executors = Executors::new(Arc::clone(&shared), services.clone(), clock.clone(), random, replicas, configure);
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
        tokio::join!(people.run(&tasks, faults.end, limit), inject(&shared, &services, &executors, &configuration));
    }
    faults.stop();
    services.restore();
    executors.correct_clocks();
    *shared.outage.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    history.note("faults end");

    let last_submission = tasks.iter().map(|planned| planned.at).max().unwrap_or_default();
    let extent = Extent { namespaces: &NAMESPACES, work: &WORK, last_submission };
    let Conclusion { settled, writes_after, end, memory } = conclude(&shared, &executors, &clock, extent).await;
    let api_faults = pattern != Pattern::None || faults.hit_the_api_server();
    let tasks = tasks.iter().map(verdict::planned).collect();
    let evidence = Evidence {
        tasks,
        traces,
        api_faults,
        pool_limit: faults.pool_limit(),
        settled,
        writes_after,
        end,
        memory,
        ..Evidence::default()
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

/// Lets the incidents happen.
async fn inject(shared: &Arc<Shared>, services: &Services, executors: &Arc<Executors>, configuration: &Configuration) {
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
            Incident::PoolLimit(limit) => configuration.set_pool_limit(limit, executors, &shared.history),
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
