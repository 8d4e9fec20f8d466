//! The cluster and the services of a run, the load, and the check of tasks that have ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aileron_action::TaskAction;
use aileron_history::check::{Evidence, has_ended};
use aileron_history::history::{Entry, What};
use aileron_history::plan::PlannedTask;
use aileron_history::traces::Traces;
use anyhow::{Context, Result};
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use super::workload::{self, FREE, LICENSED, LIMITED, Planned, QUOTA};
use crate::cluster::{self, Cluster, Server, User, create_namespace, install_crd};
use crate::events_stub::EventsStub;
use crate::kubelet::{self, Kubelet};
use crate::recorder::{Conclusion, POOL_LIMIT, Part, Recorder};
use crate::storage_stub::StorageStub;
use crate::suite::{Settings, script};

/// The audit log is renamed when it has so many megabytes, and this many old ones are kept.
const AUDIT_FLAGS: [&str; 2] = ["--audit-log-maxsize=50", "--audit-log-maxbackup=2"];
/// Pause between two looks at the load.
const LOAD_INTERVAL: Duration = Duration::from_millis(100);
/// Pause between two tries of a request to an API server that is away.
const RETRY_EVERY: Duration = Duration::from_millis(200);
/// How long before the last examined event a task must have ended to be checked. An event may be recorded twice.
const CHECKED_AFTER: SignedDuration = SignedDuration::from_secs(10);
/// After everything has ended, executors must write nothing for this long.
const QUIET_FOR: Duration = Duration::from_secs(5);

/// The broken rules of a run, and what happened.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

/// Everything around the executors. Fields are dropped in order: the cluster ends last.
pub(super) struct World {
    pub recorder: Arc<Recorder>,
    kubelet: Kubelet,
    pub stub: EventsStub,
    pub storage: StorageStub,
    client: Client,
    tasks: Mutex<Tasks>,
    pub cluster: Cluster,
}

#[derive(Debug)]
struct Tasks {
    random: Rng,
    submitted: u64,
    /// Tasks that ended and were checked.
    checked: u64,
    /// Tasks that were not checked yet, by namespace and name.
    open: BTreeMap<(String, String), Open>,
    /// Tasks with tokens of the last check: their pods may have run beside those of the next check.
    carried: (Vec<PlannedTask>, Vec<Entry>),
}

#[derive(Debug)]
struct Open {
    planned: Planned,
    submitted: Instant,
    /// The user has deleted the action.
    aborted: bool,
    /// Since when the task has ended and nothing is left of it.
    done: Option<Timestamp>,
}

impl World {
    pub async fn start(server: Server, seed: u64) -> Result<Self> {
        crate::init();
        let options = cluster::Options {
            server,
            controllers: true,
            recorded: true,
            namespaces: ["flyte", FREE, LIMITED].map(str::to_owned).to_vec(),
            apiserver_flags: AUDIT_FLAGS.map(str::to_owned).to_vec(),
            ..cluster::Options::default()
        };
        let cluster = Cluster::start(options).await?;
        let client = cluster.client(User::Admin).await?;
        install_crd(&client, &aileron_action::crd::crd()?).await?;
        create_namespace(&client, LIMITED).await?;
        let quota = json!({"metadata": {"name": "pods"}, "spec": {"hard": {"pods": QUOTA.to_string()}}});
        let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), LIMITED);
        quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await.context("creating the quota")?;
        let (stub, storage) = (EventsStub::start().await?, StorageStub::start(&cluster.dir().join("storage")).await?);
        let recorder = Arc::new(Recorder::start(&cluster, &stub).await?);
        let settings = kubelet::Settings::default().decide(script).store(storage.writer());
        let kubelet = Kubelet::start(cluster.client(User::Sim).await?, settings);
        let tasks = Mutex::new(Tasks {
            random: Rng::with_seed(seed),
            submitted: 0,
            checked: 0,
            open: BTreeMap::new(),
            carried: Default::default(),
        });
        Ok(Self { recorder, kubelet, stub, storage, client, tasks, cluster })
    }

    /// The configuration of the executors.
    pub fn settings(&self) -> Settings {
        Settings::new(&self.stub.url(), Path::new("unused"))
            .with(&["executor", "leaderElect"], true)
            .with_storage(&self.storage)
            .with(&["plugins", "k8s", "inject-finalizer"], true)
            .with(&["tasks", "pools"], json!({"licences": {"quota": POOL_LIMIT, "task-types": [LICENSED]}}))
    }

    /// Submits tasks and aborts some of them, until dropped. `most` tasks are open at the same time, and there is a pause
    /// between two of them.
    pub async fn load(&self, most: usize, pause: Duration) {
        loop {
            let (running, due) = self.look();
            for (namespace, name) in due {
                self.abort(&namespace, &name).await;
            }
            if running < most {
                self.submit().await;
                tokio::time::sleep(pause).await;
            } else {
                tokio::time::sleep(LOAD_INTERVAL).await;
            }
        }
    }

    /// How many tasks have not ended, and which ones users abort now.
    fn look(&self) -> (usize, Vec<(String, String)>) {
        self.update();
        let tasks = self.tasks();
        let running = tasks.open.values().filter(|open| open.done.is_none()).count();
        let is_due = |open: &Open| {
            let after = open.planned.aborted_after;
            !open.aborted && after.is_some_and(|after| open.submitted.elapsed() > after)
        };
        (running, tasks.open.iter().filter(|(_, open)| is_due(open)).map(|(key, _)| key.clone()).collect())
    }

    /// Notices which tasks have ended.
    fn update(&self) {
        let existing = self.recorder.existing();
        let text =
            |object: &Value, path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = |object: &Value| (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        let actions: BTreeMap<_, _> = existing.actions.iter().map(|action| (key(action), action)).collect();
        let at_work = existing.work.iter().map(|(_, pod)| pod).filter(|pod| {
            let phase = text(pod, "/status/phase");
            phase != "Succeeded" && phase != "Failed" || !text(pod, "/metadata/deletionTimestamp").is_empty()
        });
        let left: std::collections::BTreeSet<_> = at_work
            .chain(&existing.leases)
            .map(|object| (text(object, "/metadata/namespace"), text(object, "/metadata/ownerReferences/0/name")))
            .collect();
        let now = Timestamp::now();
        for (key, open) in &mut self.tasks().open {
            let ended = actions.get(key).map_or(open.aborted, |action| has_ended(action));
            let done = ended && !left.contains(key);
            open.done = done.then(|| open.done.unwrap_or(now));
        }
    }

    async fn submit(&self) {
        let planned = {
            let mut tasks = self.tasks();
            let number = tasks.submitted;
            tasks.submitted += 1;
            workload::task(&mut tasks.random, number)
        };
        let (namespace, base) = (planned.plan.namespace.clone(), self.storage.base());
        let action = planned.task.build(&namespace, &base);
        if let Some(inputs) = &planned.inputs
            && let Err(error) = self.storage.insert(&action.spec.input_uri, inputs)
        {
            // The task then fails, and the check at the end says so.
            tracing::error!(%error, "the inputs of a task cannot be written");
        }
        let key = (namespace.clone(), planned.plan.name.clone());
        let open = Open { planned, submitted: Instant::now(), aborted: false, done: None };
        self.tasks().open.insert(key, open);
        let actions: Api<TaskAction> = Api::namespaced(self.client.clone(), &namespace);
        // A task of its own: the load ends by being dropped, and a task that is open must be submitted all the same.
        let created = tokio::spawn(async move {
            loop {
                match actions.create(&PostParams::default(), &action).await {
                    // An earlier try may have been carried out.
                    Err(kube::Error::Api(status)) if status.code == 409 => return,
                    Ok(_) => return,
                    Err(_) => tokio::time::sleep(RETRY_EVERY).await,
                }
            }
        });
        let _ = created.await;
    }

    async fn abort(&self, namespace: &str, name: &str) {
        let actions: Api<TaskAction> = Api::namespaced(self.client.clone(), namespace);
        match actions.delete(name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(_) => return, // tried again at the next look
        }
        if let Some(open) = self.tasks().open.get_mut(&(namespace.to_owned(), name.to_owned())) {
            open.aborted = true;
        }
    }

    /// Checks the tasks that ended a while ago, and removes them from the cluster and from the memory.
    ///
    /// # Errors
    /// A rule is broken ([`Failure`]), or the history is not complete.
    pub async fn check_ended(&self) -> Result<()> {
        let examined = self.recorder.examine()? - CHECKED_AFTER;
        self.update();
        let ended: BTreeMap<_, _> = {
            let mut tasks = self.tasks();
            let is_old = |open: &Open| open.done.is_some_and(|done| done < examined);
            tasks.open.extract_if(.., |_, open| is_old(open)).collect()
        };
        let part = self.recorder.take(&|namespace, name| ended.contains_key(&(namespace.to_owned(), name.to_owned())));
        self.recorder.retire(ended.keys().cloned());
        self.judge(ended.values(), part, Vec::new())?;
        self.stub.forget_events();
        for (namespace, name) in ended.into_keys() {
            let actions: Api<TaskAction> = Api::namespaced(self.client.clone(), &namespace);
            // Without an API server the object stays. It only takes space.
            let _ = actions.delete(&name, &DeleteParams::background()).await;
        }
        Ok(())
    }

    /// Waits until all tasks have ended, and checks everything that was not checked yet.
    ///
    /// # Errors
    /// A rule is broken ([`Failure`]), or the history is not complete.
    pub async fn settle(&self, within: Duration, mut meanwhile: impl AsyncFnMut() -> Result<()>) -> Result<()> {
        let begin = Instant::now();
        loop {
            self.recorder.check_complete()?;
            let (running, due) = self.look();
            if running == 0 || begin.elapsed() > within {
                break;
            }
            for (namespace, name) in due {
                self.abort(&namespace, &name).await;
            }
            meanwhile().await?;
            tokio::time::sleep(LOAD_INTERVAL).await;
        }
        let (part, writes_after) = self.recorder.finish(QUIET_FOR).await?;
        let open = std::mem::take(&mut self.tasks().open);
        self.judge(open.values(), part, writes_after)?;
        self.kubelet.check()
    }

    fn judge<'a>(&self, ended: impl Iterator<Item = &'a Open>, part: Part, writes_after: Vec<Entry>) -> Result<()> {
        let mut tasks = self.tasks();
        let (mut plans, mut entries) = std::mem::take(&mut tasks.carried);
        let traces = Traces::default();
        // The actions of carried tasks do not exist any more. Their pods count, their ends were checked before.
        plans.iter().for_each(|plan| traces.disturb(&plan.namespace, &plan.name));
        for open in ended {
            tasks.checked += 1;
            let plan = &open.planned.plan;
            if open.planned.aborted_after.is_some() {
                traces.disturb(&plan.namespace, &plan.name);
            }
            if plan.task_type == LICENSED {
                tasks.carried.0.push(plan.clone());
            }
            plans.push(plan.clone());
        }
        let is_licensed = |entry: &&Entry| match &entry.what {
            What::Changed { resource: "pods", object, .. } => tasks.carried.0.iter().any(|plan| {
                object["metadata"]["namespace"] == plan.namespace.as_str()
                    && object["metadata"]["ownerReferences"][0]["name"] == plan.name.as_str()
            }),
            _ => false,
        };
        let carried = part.entries.iter().filter(is_licensed).cloned().collect();
        tasks.carried.1 = carried;
        entries.extend(part.entries);
        let evidence = Evidence {
            tasks: plans,
            traces,
            api_faults: true,
            pool_limit: POOL_LIMIT,
            settled: part.end.actions.iter().all(|action| has_ended(action)),
            writes_after,
            end: part.end,
            ..Evidence::default()
        };
        let conclusion = Conclusion::of(entries, evidence);
        if conclusion.violations.is_empty() { Ok(()) } else { Err(Failure(conclusion.explain()).into()) }
    }

    /// How many tasks were submitted, and how many of them ended and were checked.
    pub fn counts(&self) -> (u64, u64) {
        let tasks = self.tasks();
        (tasks.submitted, tasks.checked)
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
