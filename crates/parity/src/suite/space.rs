//! A namespace of one suite: submitting, waiting, and telling what is there when waiting was in vain.

use std::fmt::Write as _;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aileron_action::{TaskAction, TaskActionStatus};
use aileron_idl::flyteidl2::common::ActionPhase;
use aileron_idl::flyteidl2::workflow::ActionEvent;
use anyhow::{Context, Result, bail};
use futures::{StreamExt, pin_mut};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Bench, LOOK_EVERY, Logs, PATIENCE, Task};
use crate::cluster::{AuditRecord, Server, User, create_namespace};
use crate::events_stub::Recorded;
use crate::kubelet::Run;

/// How much of a log a failure shows.
const LOG_LINES: usize = 60;

/// A namespace on a bench.
#[derive(Clone)]
pub struct Space<'a> {
    /// The bench.
    pub bench: &'a Bench,
    /// The namespace, which is also the name of the run.
    pub namespace: String,
    /// A client with all rights.
    pub admin: Client,
    /// Its actions.
    pub actions: Api<TaskAction>,
    /// Its pods.
    pub pods: Api<Pod>,
}

/// One state of an action, and when a watch showed it.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// When.
    pub at: Timestamp,
    /// The action.
    pub action: TaskAction,
}

/// All states that a watch shows, until dropped.
pub struct Sightings {
    seen: Arc<Mutex<Vec<Sighting>>>,
    _stop: DropGuard,
}

/// What an action shows to others.
pub trait Shown {
    /// Its status, empty if there is none.
    fn shown(&self) -> TaskActionStatus;
    /// Reason of `Progressing`.
    fn reason(&self) -> String;
    /// The type and reason of the condition that says it ended.
    fn outcome(&self) -> Option<(String, String)>;
    /// Its history.
    fn history(&self) -> Vec<String>;
    /// Code of its error.
    fn error_code(&self) -> String;
    /// Code and words of what it waits for.
    fn pending(&self) -> Option<(String, String)>;
    /// Bears the labels of an ended one.
    fn is_labelled(&self) -> bool;
    /// Attempt, phase and reason in a line.
    fn summary(&self) -> String;
}

impl<'a> Space<'a> {
    pub(super) async fn new(bench: &'a Bench, namespace: &str) -> Result<Self> {
        let admin = bench.cluster.client(User::Admin).await?;
        create_namespace(&admin, namespace).await?;
        Ok(Self {
            bench,
            namespace: namespace.to_owned(),
            actions: Api::namespaced(admin.clone(), namespace),
            pods: Api::namespaced(admin.clone(), namespace),
            admin,
        })
    }

    /// The object of a task here.
    pub fn object(&self, task: &Task) -> TaskAction {
        task.build(&self.namespace, &format!("file://{}", self.bench.data().display()))
    }

    /// Submits a task.
    ///
    /// # Errors
    /// The API server objects.
    pub async fn submit(&self, task: &Task) -> Result<TaskAction> {
        self.create(&self.object(task)).await
    }

    /// Submits an object as it is.
    ///
    /// # Errors
    /// The API server objects.
    pub async fn create(&self, action: &TaskAction) -> Result<TaskAction> {
        let created = self.actions.create(&PostParams::default(), action).await;
        created.with_context(|| format!("submitting {}", action.name_any()))
    }

    /// Leaves the inputs of a task.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write_inputs(&self, task: &Task, inputs: &[u8]) -> Result<()> {
        let dir = self.bench.data().join(&self.namespace).join(&task.name);
        fs::create_dir_all(&dir)?;
        Ok(fs::write(dir.join("inputs.pb"), inputs)?)
    }

    /// Deletes an action.
    ///
    /// # Errors
    /// The API server objects.
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.actions.delete(name, &DeleteParams::default()).await.with_context(|| format!("deleting {name}"))?;
        Ok(())
    }

    /// Waits until an action is as wanted.
    ///
    /// # Errors
    /// It never is; the error tells everything about it.
    pub async fn until(&self, name: &str, what: &str, done: impl Fn(&TaskAction) -> bool) -> Result<TaskAction> {
        self.within(PATIENCE, name, what, done).await
    }

    /// As [`Self::until`], with a limit of one's own.
    ///
    /// # Errors
    /// As there.
    pub async fn within(
        &self,
        limit: Duration,
        name: &str,
        what: &str,
        done: impl Fn(&TaskAction) -> bool,
    ) -> Result<TaskAction> {
        let begin = Instant::now();
        loop {
            // The API server may be away; then the next look tells.
            if let Ok(Some(action)) = self.actions.get_opt(name).await
                && done(&action)
            {
                return Ok(action);
            }
            if begin.elapsed() > limit {
                bail!("{name} was not {what} within {limit:?}\n{}", self.dump(name).await);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until an action has ended and is labelled so.
    ///
    /// # Errors
    /// It never is.
    pub async fn until_ended(&self, name: &str) -> Result<TaskAction> {
        self.until(name, "ended", |action| action.outcome().is_some() && action.is_labelled()).await
    }

    /// Waits until all these have ended.
    ///
    /// # Errors
    /// One of them never does.
    pub async fn until_all_ended(&self, count: usize, limit: Duration) -> Result<Vec<TaskAction>> {
        let begin = Instant::now();
        loop {
            let listed = self.actions.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
            let open = listed.iter().find(|action| action.outcome().is_none() || !action.is_labelled());
            if open.is_none() && listed.len() >= count {
                return Ok(listed);
            }
            if begin.elapsed() > limit {
                let name = open.map(ResourceExt::name_any).unwrap_or_default();
                let still = listed.iter().filter(|action| action.outcome().is_none() || !action.is_labelled()).count();
                bail!(
                    "{still} of {count} had not ended within {limit:?}, among them {name}\n{}",
                    self.dump(&name).await
                );
            }
            tokio::time::sleep(LOOK_EVERY * 4).await;
        }
    }

    /// Waits until an action is gone.
    ///
    /// # Errors
    /// It stays.
    pub async fn until_gone(&self, name: &str) -> Result<()> {
        let begin = Instant::now();
        while !matches!(self.actions.get_opt(name).await, Ok(None)) {
            if begin.elapsed() > PATIENCE {
                bail!("{name} stayed\n{}", self.dump(name).await);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Waits until exactly these pods are here, in any order.
    ///
    /// # Errors
    /// They never are.
    pub async fn until_pods(&self, names: &[&str]) -> Result<()> {
        let begin = Instant::now();
        loop {
            let mut found = self.pod_names().await.unwrap_or_default();
            found.sort();
            let mut wanted = names.to_vec();
            wanted.sort_unstable();
            if found == wanted {
                return Ok(());
            }
            if begin.elapsed() > PATIENCE {
                bail!("the pods are {found:?}, not {wanted:?}\n{}", self.dump("").await);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The names of all pods here.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn pod_names(&self) -> Result<Vec<String>> {
        Ok(self.pods.list(&ListParams::default()).await?.items.iter().map(ResourceExt::name_any).collect())
    }

    /// The events of one action of this namespace, doubles included.
    pub fn recorded(&self, name: &str) -> Vec<Recorded> {
        let mut events = self.bench.stub.events_of(name);
        let run = |event: &ActionEvent| event.id.as_ref().and_then(|id| id.run.as_ref()).map(|run| run.name.clone());
        events.retain(|recorded| run(&recorded.event).as_deref() == Some(&self.namespace));
        events
    }

    /// The same as `(attempt, phase)`, without repetitions.
    pub fn phases(&self, name: &str) -> Vec<(u32, ActionPhase)> {
        let mut phases: Vec<_> =
            self.recorded(name).iter().map(|recorded| (recorded.event.attempt, recorded.event.phase())).collect();
        phases.dedup();
        phases
    }

    /// The pods of this namespace that were started.
    pub fn runs(&self) -> Vec<Run> {
        self.bench.kubelet.runs().into_iter().filter(|run| run.namespace == self.namespace).collect()
    }

    /// What executors asked of the API server about this namespace.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn requests(&self) -> Result<Vec<AuditRecord>> {
        let mut requests = self.bench.cluster.requests(User::Executor)?;
        requests.retain(|request| request.namespace == self.namespace);
        Ok(requests)
    }

    /// Follows the actions here from now on.
    pub fn sightings(&self) -> Sightings {
        let seen = Arc::<Mutex<Vec<Sighting>>>::default();
        let stop = CancellationToken::new();
        let (actions, sink) = (self.actions.clone(), Arc::clone(&seen));
        let follow = async move {
            let events = watcher(actions, watcher::Config::default()).default_backoff();
            pin_mut!(events);
            while let Some(event) = events.next().await {
                if let Ok(Event::Apply(action) | Event::InitApply(action)) = event {
                    let sighting = Sighting { at: Timestamp::now(), action };
                    sink.lock().unwrap_or_else(PoisonError::into_inner).push(sighting);
                }
            }
        };
        tokio::spawn(stop.clone().run_until_cancelled_owned(follow));
        Sightings { seen, _stop: stop.drop_guard() }
    }

    /// The server it is on.
    #[must_use]
    pub fn server(&self) -> Server {
        self.bench.cluster.server()
    }

    /// Everything about an action that helps to see what went wrong.
    pub async fn dump(&self, name: &str) -> String {
        let mut text = String::new();
        let mut say = |line: String| {
            let _ = writeln!(text, "{line}");
        };
        match self.actions.get_opt(name).await {
            Ok(Some(mut action)) => {
                action.metadata.managed_fields = None;
                action.spec = Default::default();
                say(format!("action: {}", serde_json::to_string_pretty(&action).unwrap_or_default()));
            }
            other => say(format!("action {name}: {:?}", other.map(|_| "none"))),
        }
        for pod in self.pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
            if !pod.name_any().starts_with(name) {
                continue;
            }
            let status = pod.status.as_ref();
            let meta = &pod.metadata;
            say(format!(
                "pod {}: {:?} {:?}, deleted at {:?}, finalizers {:?}",
                pod.name_any(),
                status.and_then(|status| status.phase.as_deref()),
                status.and_then(|status| status.conditions.as_ref()).and_then(|all| all.last()),
                meta.deletion_timestamp,
                meta.finalizers,
            ));
        }
        say(format!("events: {:?}", self.phases(name)));
        let runs = self.runs();
        let runs: Vec<_> = runs.iter().filter(|run| run.name.starts_with(name)).map(|run| &run.name).collect();
        say(format!("started pods: {runs:?}"));
        say(format!("log:\n{}", Logs::keep().about(&self.namespace, LOG_LINES)));
        for file in fs::read_dir(self.bench.cluster.dir()).into_iter().flatten().flatten() {
            let path = file.path();
            let is_program = path.extension().is_some_and(|end| end == "log") && path.with_extension("yaml").exists();
            if is_program {
                let log = fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<_> = log.lines().collect();
                let tail = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
                say(format!("{}:\n{tail}", path.display()));
            }
        }
        text
    }
}

impl Sightings {
    /// What was seen of one action so far.
    pub fn of(&self, name: &str) -> Vec<Sighting> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|sighting| sighting.action.name_any() == name).cloned().collect()
    }
}

impl Shown for TaskAction {
    fn shown(&self) -> TaskActionStatus {
        self.status.clone().unwrap_or_default()
    }

    fn reason(&self) -> String {
        let status = self.shown();
        let progressing = status.conditions.iter().find(|condition| condition.type_ == "Progressing");
        progressing.map(|condition| condition.reason.clone()).unwrap_or_default()
    }

    fn outcome(&self) -> Option<(String, String)> {
        let conditions = self.shown().conditions;
        let ended = conditions.into_iter().find(|condition| {
            ["Succeeded", "Failed"].contains(&condition.type_.as_str()) && condition.status == "True"
        });
        ended.map(|condition| (condition.type_, condition.reason))
    }

    fn history(&self) -> Vec<String> {
        self.shown().phase_history.into_iter().map(|line| line.phase).collect()
    }

    fn error_code(&self) -> String {
        self.shown().error_state.map(|error| error.code).unwrap_or_default()
    }

    fn pending(&self) -> Option<(String, String)> {
        let status = self.shown();
        status.pending().map(|pending| (pending.reason.clone(), pending.message.clone()))
    }

    fn is_labelled(&self) -> bool {
        aileron_action::labels::are_terminal(self.metadata.labels.as_ref())
    }

    fn summary(&self) -> String {
        let status = self.shown();
        format!("attempt {} {} {} {:?}", status.attempts, status.plugin_phase, self.reason(), self.outcome())
    }
}
