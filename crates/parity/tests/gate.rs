//! The launch gate at work: an executor, a server that counts quota, and more tasks than there is room for.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aileron_executor::action::TaskAction;
use aileron_executor::action::labels::{TERMINATED, TERMINATION_STATUS};
use aileron_executor::config::{Config, Sources};
use aileron_executor::run::{RunOptions, run};
use aileron_executor::serve::Readiness;
use aileron_idl::flyteidl2::common::ActionPhase;
use aileron_idl::flyteidl2::core::resources::ResourceName;
use aileron_idl::json_to_struct;
use aileron_parity::cluster::{create_namespace, install_crd};
use aileron_parity::events_stub::EventsStub;
use aileron_parity::kubelet::{self, Kubelet, Store};
use aileron_parity::suite::{LOOK_EVERY, Logs, Settings, Shown, Task, most_times_ideal, script};
use aileron_plugins::builtin::PluginConfigs;
use aileron_sandbox::{ApiServer, Fault, Match, Options};
use anyhow::{Context, Result, bail};
use axum::extract::Request;
use axum::middleware::{self, Next};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How many run at a time, and how many there are. The sandbox counts a namespace anew at every write, which without
/// optimisation limits the size; the ratio is what matters.
const ROOM: usize = 10;
const TASKS: usize = 60;
const LIFE: Duration = Duration::from_millis(1000);
const PATIENCE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "limited";

/// What the executor asked: method, path and the code of the answer.
type Requests = Arc<Mutex<Vec<(String, String, u16)>>>;

struct Bench {
    admin: Client,
    kubelet: Kubelet,
    stub: EventsStub,
    requests: Requests,
    data: TempDir,
    _stop: DropGuard,
}

impl Bench {
    /// Everything, with these quotas and faults in place before the executor starts.
    async fn start(quota: Value, prepare: impl FnOnce(&ApiServer)) -> Result<Self> {
        aileron_parity::init();
        Logs::keep();
        let server = ApiServer::new(Options::default());
        let admin = server.client();
        for namespace in ["flyte", NAMESPACE, "free"] {
            create_namespace(&admin, namespace).await?;
        }
        install_crd(&admin, &aileron_executor::action::crd::crd()?).await?;
        // A quota in which there is room for everybody makes the server count as much as one that is full.
        for (namespace, hard) in [(NAMESPACE, quota), ("free", json!({"pods": "10000"}))] {
            let quotas: Api<ResourceQuota> = Api::namespaced(admin.clone(), namespace);
            let object = json!({"metadata": {"name": "team"}, "spec": {"hard": hard}});
            quotas.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        }
        prepare(&server);

        let data = TempDir::new()?;
        let nodes = kubelet::Settings::default().decide(script).store(Store::Local(data.path().to_owned()));
        let kubelet = Kubelet::start(admin.clone(), nodes);
        let stub = EventsStub::start().await?;
        let settings = Settings::new(&stub.url(), data.path());
        let config = Config::load(&Sources::file("gate.yaml", &settings.text()))?;
        let configs: PluginConfigs = (&config.plugins).into();
        let requests = Requests::default();
        let readiness = Readiness::new();
        let options = RunOptions {
            plugins: aileron_plugins::builtin(&configs),
            spark_pod_templates: configs.spark_pod_templates,
            config,
            client: counted(&server, &requests),
            namespace: "flyte".to_owned(),
            identity: "gate".to_owned(),
            readiness: readiness.clone(),
        };
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(tidy(admin.clone())));
        let executor = tokio::spawn(run(options, stop.clone()));
        let begin = Instant::now();
        while !readiness.is_ready() {
            if executor.is_finished() {
                bail!("the executor ended: {:?}", executor.await);
            }
            if begin.elapsed() > PATIENCE {
                bail!("the executor is not ready: {:?}", readiness.checks());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(Self { admin, kubelet, stub, requests, data, _stop: stop.drop_guard() })
    }

    fn actions(&self, namespace: &str) -> Api<TaskAction> {
        Api::namespaced(self.admin.clone(), namespace)
    }

    async fn submit(&self, namespace: &str, task: &Task) -> Result<()> {
        let object = task.build(namespace, &format!("file://{}", self.data.path().display()));
        self.actions(namespace).create(&PostParams::default(), &object).await?;
        Ok(())
    }

    async fn submit_all(&self, namespace: &str, count: usize, task: impl Fn(&str) -> Task) -> Result<()> {
        for number in 0..count {
            self.submit(namespace, &task(&format!("t{number:04}"))).await?;
        }
        Ok(())
    }

    async fn until_ended(&self, namespace: &str, count: usize) -> Result<Vec<TaskAction>> {
        let begin = Instant::now();
        let ended = ListParams::default().labels(&format!("{TERMINATION_STATUS}={TERMINATED}"));
        let api = self.actions(namespace);
        loop {
            // Only metadata: looking must not be the most expensive part of it all.
            let found = api.list_metadata(&ended).await?.items.len();
            if found == count {
                return Ok(api.list(&ListParams::default()).await?.items);
            }
            if begin.elapsed() > PATIENCE {
                let open = api.list(&ListParams::default()).await?.items;
                let one = open.iter().find(|action| action.outcome().is_none());
                let one = one.map(|action| format!("{}: {}", action.name_any(), action.summary()));
                let log = Logs::keep().about(namespace, 60);
                bail!("{found} of {count} have ended, but not {one:?}\n{log}");
            }
            tokio::time::sleep(LOOK_EVERY * 2).await;
        }
    }

    /// How many creates of a kind the server refused.
    fn refused(&self, plural: &str) -> usize {
        let requests = self.requests.lock().unwrap();
        requests
            .iter()
            .filter(|(method, path, code)| method == "POST" && path.ends_with(plural) && *code >= 400)
            .count()
    }

    /// How long as many tasks take as there is room for at a time.
    async fn one_round(&self, task: impl Fn(&str) -> Task) -> Result<Duration> {
        let begin = Instant::now();
        self.submit_all("free", ROOM, task).await?;
        self.until_ended("free", ROOM).await?;
        Ok(begin.elapsed())
    }

    /// Every task ran once and ended well.
    fn check(&self, actions: &[TaskAction]) -> Result<()> {
        for action in actions {
            let status = action.shown();
            let outcome = action.outcome().context("it has ended")?;
            assert_eq!(
                (outcome.0.as_str(), status.attempts, status.system_failures),
                ("Succeeded", 1, 0),
                "{}",
                action.summary()
            );
        }
        self.kubelet.check()
    }
}

/// Deletes pods some time after their end, as somebody does in any cluster.
async fn tidy(admin: Client) {
    let finished = ListParams::default().labels(&format!("{TERMINATION_STATUS}={TERMINATED}"));
    let mut gone = BTreeSet::new();
    loop {
        for namespace in [NAMESPACE, "free"] {
            let pods: Api<Pod> = Api::namespaced(admin.clone(), namespace);
            let actions: Api<TaskAction> = Api::namespaced(admin.clone(), namespace);
            let ended = actions.list_metadata(&finished).await.map(|list| list.items).unwrap_or_default();
            for name in ended.iter().map(ResourceExt::name_any) {
                if gone.insert((namespace, name.clone())) {
                    let _ = pods.delete(&format!("{name}-0"), &DeleteParams::default().grace_period(0)).await;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// A client of the executor's own, whose requests are written down.
fn counted(server: &ApiServer, requests: &Requests) -> Client {
    let requests = Arc::clone(requests);
    let count = middleware::from_fn(move |request: Request, next: Next| {
        let requests = Arc::clone(&requests);
        async move {
            let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
            let answer = next.run(request).await;
            requests.lock().unwrap().push((method, path, answer.status().as_u16()));
            answer
        }
    });
    Client::new(server.router().layer(count), "default")
}

fn container(name: &str) -> Task {
    Task::container(name).attempts(&[&format!("succeed@{}", LIFE.as_millis())])
}

/// Many tasks through a quota that is seen: none refused, none lost, the oldest first, and no time wasted.
async fn all_pass(quota: Value, task: impl Fn(&str) -> Task) -> Result<()> {
    let bench = Bench::start(quota, |_| {}).await?;
    let round = bench.one_round(&task).await?;
    let begin = Instant::now();
    bench.submit_all(NAMESPACE, TASKS, &task).await?;
    let actions = bench.until_ended(NAMESPACE, TASKS).await?;
    let time = begin.elapsed();
    bench.check(&actions)?;
    assert_eq!(bench.refused("/pods"), 0);
    let started: Vec<_> = bench.kubelet.runs().into_iter().filter(|run| run.namespace == NAMESPACE).collect();
    assert_eq!(started.len(), TASKS);
    for (place, run) in started.iter().enumerate() {
        let number: usize = run.name[1..5].parse()?;
        // Those that run at the same time may change places.
        assert!(place.abs_diff(number) <= 2 * ROOM, "{} started as number {place}", run.name);
    }
    let ideal = round * u32::try_from(TASKS / ROOM)?;
    println!("{TASKS} tasks took {time:?}; one round takes {round:?}, so {ideal:?} is ideal");
    assert!(time < ideal.mul_f64(most_times_ideal()), "{time:?} is far more than {ideal:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_of_pods_lets_all_tasks_through() -> Result<()> {
    all_pass(json!({"pods": ROOM.to_string()}), container).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_of_requested_cpus_lets_all_tasks_through() -> Result<()> {
    all_pass(json!({"requests.cpu": "5"}), |name| container(name).asking(ResourceName::Cpu, "500m")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_of_memory_limits_lets_all_tasks_through() -> Result<()> {
    all_pass(json!({"limits.memory": "640Mi"}), |name| container(name).asking(ResourceName::Memory, "64Mi")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_of_accelerators_lets_all_tasks_through() -> Result<()> {
    all_pass(json!({"requests.nvidia.com/gpu": "10"}), |name| container(name).asking(ResourceName::Gpu, "1")).await
}

/// Finished objects of an operator count until they are deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_of_operator_objects_lets_all_tasks_through() -> Result<()> {
    const JOBS: usize = 40;
    let resource = ApiResource {
        group: "sparkoperator.k8s.io".into(),
        version: "v1beta2".into(),
        api_version: "sparkoperator.k8s.io/v1beta2".into(),
        kind: "SparkApplication".into(),
        plural: "sparkapplications".into(),
    };
    let bench = Bench::start(json!({"count/sparkapplications.sparkoperator.k8s.io": "10"}), |_| {}).await?;
    install_crd(&bench.admin, &serde_json::from_value(definition(&resource))?).await?;
    let jobs: Api<DynamicObject> = Api::namespaced_with(bench.admin.clone(), NAMESPACE, &resource);
    let actions = bench.actions(NAMESPACE);
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let operator = tokio::spawn(async move {
        let mut done = BTreeSet::new();
        loop {
            let all = jobs.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
            seen.fetch_max(all.len(), Ordering::Relaxed);
            for job in all {
                let name = job.name_any();
                let status = json!({"status": {"applicationState": {"state": "COMPLETED"},
                    "executionAttempts": 1, "lastSubmissionAttemptTime": "2026-01-01T00:00:00Z"}});
                if done.insert(name.clone()) {
                    let _ = jobs.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
                }
                let ended =
                    actions.get(name.trim_end_matches("-0")).await.is_ok_and(|action| action.outcome().is_some());
                if ended {
                    let _ = jobs.delete(&name, &DeleteParams::default()).await;
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    });
    let task = |name: &str| {
        let mut task = Task::container(name).task_type("spark");
        task.template.custom = json_to_struct(&json!({"mainApplicationFile": "local:///main.py"})).ok();
        task.template.interface = None;
        task
    };
    bench.submit_all(NAMESPACE, JOBS, task).await?;
    let actions = bench.until_ended(NAMESPACE, JOBS).await?;
    operator.abort();
    bench.check(&actions)?;
    assert_eq!(bench.refused("/sparkapplications"), 0);
    let most = most.load(Ordering::Relaxed);
    assert!(most <= ROOM && most > ROOM / 2, "{most} at a time");
    Ok(())
}

fn definition(resource: &ApiResource) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", resource.plural, resource.group)},
        "spec": {
            "group": resource.group,
            "names": {"kind": resource.kind, "plural": resource.plural},
            "scope": "Namespaced",
            "versions": [{
                "name": resource.version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                "subresources": {"status": {}},
            }],
        },
    })
}

/// Where quotas may not be listed, refusals tell, and there are few of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_permission_to_see_quotas_few_creates_are_refused() -> Result<()> {
    const SOME: usize = 50;
    let bench = Bench::start(json!({"pods": "10"}), |server| {
        for verb in ["list", "watch"] {
            server.faults().add(Fault::Times(Match::of(verb, "resourcequotas"), 403, usize::MAX));
        }
    })
    .await?;
    let begin = Instant::now();
    bench.submit_all(NAMESPACE, SOME, container).await?;
    let actions = bench.until_ended(NAMESPACE, SOME).await?;
    bench.check(&actions)?;
    let refused = bench.refused("/pods");
    println!("{SOME} tasks took {:?} and {refused} refusals", begin.elapsed());
    assert!(refused > 0 && refused <= 4 * ROOM, "{refused} creates were refused");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overloaded_server_costs_no_attempt() -> Result<()> {
    const SOME: usize = 30;
    let bench = Bench::start(json!({"configmaps": "1"}), |server| {
        server.faults().add(Fault::Times(Match::of("create", "pods"), 429, 2));
        server.faults().add(Fault::Times(Match::of("create", "pods"), 503, 1));
    })
    .await?;
    bench.submit_all(NAMESPACE, SOME, container).await?;
    let actions = bench.until_ended(NAMESPACE, SOME).await?;
    bench.check(&actions)?;
    assert_eq!(bench.refused("/pods"), 3);
    let waited = |name: &str| {
        bench.stub.events_of(name).iter().any(|recorded| {
            recorded.event.phase() == ActionPhase::WaitingForResources
                && recorded
                    .event
                    .cluster_events
                    .iter()
                    .any(|event| event.message.starts_with("waiting for the API server: "))
        })
    };
    assert!(actions.iter().any(|action| waited(&action.name_any())));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_never_fit_fails_at_once_and_what_just_fits_waits() -> Result<()> {
    let bench = Bench::start(json!({"requests.cpu": "4"}), |_| {}).await?;
    let sized = |name: &str, cpu: &str| container(name).asking(ResourceName::Cpu, cpu).retries(3);
    bench.submit(NAMESPACE, &sized("small", "1")).await?;
    bench.submit(NAMESPACE, &sized("whole", "4")).await?;
    bench.submit(NAMESPACE, &sized("larger", "4001m")).await?;
    let actions: BTreeMap<_, _> =
        bench.until_ended(NAMESPACE, 3).await?.into_iter().map(|action| (action.name_any(), action)).collect();
    for name in ["small", "whole"] {
        assert_eq!(actions[name].outcome().unwrap().0, "Succeeded", "{}", actions[name].summary());
    }
    let larger = &actions["larger"];
    assert_eq!((larger.outcome().unwrap().0.as_str(), larger.shown().attempts), ("Failed", 1), "{}", larger.summary());
    let error = larger.shown().error_state.unwrap();
    assert_eq!((error.code.as_str(), error.kind.as_str()), ("ResourceRequestsExceedLimits", "USER"));
    assert!(error.message.contains("quota team: requested requests.cpu=4001m"), "{}", error.message);
    assert_eq!(bench.refused("/pods"), 0);
    Ok(())
}

/// A namespace that is full: its tasks say so, ask nothing of anybody, leave when deleted, and go when there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_costs_nothing() -> Result<()> {
    const WAITING: usize = 1000;
    let bench = Bench::start(json!({"pods": "1"}), |_| {}).await?;
    let pods: Api<Pod> = Api::namespaced(bench.admin.clone(), NAMESPACE);
    let foreign = json!({"metadata": {"name": "foreign", "annotations": {"kubelet.aileron.test/end": "run"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(foreign)?).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    bench.submit_all(NAMESPACE, WAITING, |name| Task::container(name).attempts(&["succeed"])).await?;
    let begin = Instant::now();
    loop {
        let actions = bench.actions(NAMESPACE).list(&ListParams::default()).await?.items;
        let waiting = |action: &&TaskAction| action.shown().plugin_phase == "PhaseWaitingForResources";
        if actions.iter().filter(waiting).count() == WAITING {
            let conditions = actions[7].shown().conditions;
            let shown = conditions.iter().find(|condition| condition.type_ == "Progressing").unwrap();
            assert_eq!((shown.status.as_str(), shown.reason.as_str()), ("True", "Queued"));
            assert_eq!(shown.message, "waiting for quota team: requested pods=1, used pods=1, limited pods=1");
            break;
        }
        if begin.elapsed() > PATIENCE {
            bail!("not all wait");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // What is under way is done soon.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = bench.requests.lock().unwrap().len();
    // Usage that flickers is no news to them.
    let extra = |name: &str| json!({"metadata": {"name": name}, "spec": {"hard": {"pods": "1"}}});
    let quotas: Api<ResourceQuota> = Api::namespaced(bench.admin.clone(), NAMESPACE);
    quotas.create(&PostParams::default(), &serde_json::from_value(extra("second"))?).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let asked = bench.requests.lock().unwrap()[before..].to_vec();
    assert!(asked.is_empty(), "{} requests while all wait: {:?}", asked.len(), &asked[..asked.len().min(5)]);
    assert_eq!(bench.refused("/pods"), 0);

    // The oldest of them is deleted, and room appears: the next one goes, and only that one.
    bench.actions(NAMESPACE).delete("t0000", &DeleteParams::default()).await?;
    while bench.actions(NAMESPACE).get_opt("t0000").await?.is_some() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    pods.delete("foreign", &DeleteParams::default()).await?;
    let begin = Instant::now();
    while !bench.kubelet.runs().iter().any(|run| run.name == "t0001-0") {
        assert!(begin.elapsed() < Duration::from_secs(20), "nobody goes although there is room");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    assert_eq!(bench.refused("/pods"), 0);
    Ok(())
}

/// A quota in which there is room for everybody slows nobody down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_with_room_costs_little() -> Result<()> {
    const MANY: usize = 200;
    let bench = Bench::start(json!({"configmaps": "1"}), |_| {}).await?;
    let mut times = Vec::new();
    for namespace in [NAMESPACE, "free"] {
        let begin = Instant::now();
        bench.submit_all(namespace, MANY, container).await?;
        bench.check(&bench.until_ended(namespace, MANY).await?)?;
        times.push(begin.elapsed());
    }
    println!("{MANY} tasks took {:?} without a quota of pods and {:?} with one", times[0], times[1]);
    assert!(times[1] < times[0].mul_f64(2.0 * most_times_ideal()), "{times:?}");
    Ok(())
}
