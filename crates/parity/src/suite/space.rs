//! The namespace of one suite: submits tasks, waits for states, and prints details when a wait fails.

use std::fmt::Write as _;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use aileron_action::{TaskAction, TaskActionStatus};
use aileron_idl::flyteidl2::common::ActionPhase;
use aileron_idl::flyteidl2::workflow::ActionEvent;
use anyhow::{Context, Result, bail};
use futures::{StreamExt, pin_mut};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Bench, Logs, POLL_INTERVAL, Progress, Task, WAIT_TIMEOUT};
use crate::cluster::{AuditRecord, Server, User, create_namespace};
use crate::events_stub::Recorded;
use crate::kubelet::{Document, Run, Store, status};

/// How many lines of a log a failure shows.
const LOG_LINES: usize = 60;

/// A namespace on a bench.
#[derive(Clone)]
pub struct Space<'a> {
    /// The bench.
    pub bench: &'a Bench,
    /// The name of the namespace, which is also the name of the run.
    pub namespace: String,
    /// A client with all rights.
    pub admin: Client,
    /// The actions of the namespace.
    pub actions: Api<TaskAction>,
    /// The pods of the namespace.
    pub pods: Api<Pod>,
}

/// One state of an action, and when the watch delivered it.
#[derive(Clone, Debug)]
pub struct Observation {
    /// When the watch delivered it.
    pub at: Timestamp,
    /// The action in that state.
    pub action: TaskAction,
}

/// All states of actions that a watch delivers, until dropped.
pub struct Observations {
    seen: Arc<Mutex<Vec<Observation>>>,
    deleted: Arc<Mutex<Vec<TaskAction>>>,
    /// Whether the watch has listed what was there at its begin.
    ready: watch::Receiver<bool>,
    _stop: DropGuard,
}

/// Reads the status of an action.
pub trait StatusView {
    /// The status, empty if there is none.
    fn status_or_default(&self) -> TaskActionStatus;
    /// The reason of the condition `Progressing`.
    fn reason(&self) -> String;
    /// The type and reason of the condition `Succeeded` or `Failed`, if the action has ended.
    fn outcome(&self) -> Option<(String, String)>;
    /// The phases of the phase history.
    fn history(&self) -> Vec<String>;
    /// The code of the error.
    fn error_code(&self) -> String;
    /// The pending reason and its message.
    fn pending(&self) -> Option<(String, String)>;
    /// Whether the action has the labels of an ended action.
    fn has_terminal_labels(&self) -> bool;
    /// Attempt, phase, reason and outcome in one line.
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

    /// The TaskAction for a task in this namespace.
    pub fn object(&self, task: &Task) -> TaskAction {
        task.build(&self.namespace, &format!("file://{}", self.bench.data().display()))
    }

    /// Submits a task.
    ///
    /// # Errors
    /// The API server refuses the TaskAction.
    pub async fn submit(&self, task: &Task) -> Result<TaskAction> {
        self.create(&self.object(task)).await
    }

    /// Creates a TaskAction as given.
    ///
    /// # Errors
    /// The API server refuses the TaskAction.
    pub async fn create(&self, action: &TaskAction) -> Result<TaskAction> {
        let created = self.actions.create(&PostParams::default(), action).await;
        created.with_context(|| format!("submitting {}", action.name_any()))
    }

    /// Writes the inputs of a task.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_inputs(&self, task: &Task, inputs: &[u8]) -> Result<()> {
        let dir = self.bench.data().join(&self.namespace).join(&task.name);
        fs::create_dir_all(&dir)?;
        Ok(fs::write(dir.join("inputs.pb"), inputs)?)
    }

    /// Deletes an action.
    ///
    /// # Errors
    /// The API server refuses the request.
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.actions.delete(name, &DeleteParams::default()).await.with_context(|| format!("deleting {name}"))?;
        Ok(())
    }

    /// Waits until `done` returns true for an action. `what` describes that state in the error.
    ///
    /// # Errors
    /// The wait timed out. The error has the details of [`dump`](Self::dump).
    pub async fn until(&self, name: &str, what: &str, done: impl Fn(&TaskAction) -> bool) -> Result<TaskAction> {
        let begin = Instant::now();
        loop {
            // An error is ignored: the API server may be restarting.
            if let Ok(Some(action)) = self.actions.get_opt(name).await
                && done(&action)
            {
                return Ok(action);
            }
            if begin.elapsed() > WAIT_TIMEOUT {
                bail!("{name} was not {what} within {WAIT_TIMEOUT:?}\n{}", self.dump(name).await);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until an action has ended and has the labels of an ended action.
    ///
    /// # Errors
    /// The wait timed out.
    pub async fn until_ended(&self, name: &str) -> Result<TaskAction> {
        self.until(name, "ended", |action| action.outcome().is_some() && action.has_terminal_labels()).await
    }

    /// Waits until there are at least `count` actions and all have ended, for as long as actions make progress.
    ///
    /// # Errors
    /// Nothing changed for [`WAIT_TIMEOUT`]. The error has the details of an action that has not ended.
    pub async fn until_all_ended(&self, count: usize) -> Result<Vec<TaskAction>> {
        let mut progress = Progress::start();
        loop {
            let listed = self.actions.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
            let is_open = |action: &&TaskAction| action.outcome().is_none() || !action.has_terminal_labels();
            let open: Vec<_> = listed.iter().filter(is_open).collect();
            if open.is_empty() && listed.len() >= count {
                return Ok(listed);
            }
            // Other clients may change labels and annotations all the time. Only what the executor writes is progress.
            let state: Vec<_> = open.iter().map(|action| (action.name_any(), action.summary())).collect();
            if progress.has_stopped(state) {
                let name = open.first().map(|action| action.name_any()).unwrap_or_default();
                bail!(
                    "{} of {count} have not ended, and nothing changed for {WAIT_TIMEOUT:?}; among them {name}\n{}",
                    open.len(),
                    self.dump(&name).await
                );
            }
            tokio::time::sleep(POLL_INTERVAL * 4).await;
        }
    }

    /// Waits until an action is gone.
    ///
    /// # Errors
    /// The wait timed out.
    pub async fn until_gone(&self, name: &str) -> Result<()> {
        let begin = Instant::now();
        while !matches!(self.actions.get_opt(name).await, Ok(None)) {
            if begin.elapsed() > WAIT_TIMEOUT {
                bail!("{name} was not deleted\n{}", self.dump(name).await);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Waits until the namespace has exactly these pods, in any order.
    ///
    /// # Errors
    /// The wait timed out.
    pub async fn until_pods(&self, names: &[&str]) -> Result<()> {
        let begin = Instant::now();
        loop {
            let mut found = self.pod_names().await.unwrap_or_default();
            found.sort();
            let mut expected = names.to_vec();
            expected.sort_unstable();
            if found == expected {
                return Ok(());
            }
            if begin.elapsed() > WAIT_TIMEOUT {
                bail!("the pods are {found:?}, expected {expected:?}\n{}", self.dump("").await);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Ends a running pod with success, as its node would: its task has written one output. Its script is `run`, so that
    /// nothing else ends it.
    ///
    /// # Errors
    /// The pod does not exist, or the output cannot be written.
    pub async fn complete_pod(&self, name: &str) -> Result<()> {
        let pod = self.pods.get(name).await?;
        Store::Local(self.bench.data()).write(&pod, &Document::one_output())?;
        let ended = status::exit(&pod, 0, "Completed", "", &[], Timestamp::now());
        self.pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(ended)).await?;
        Ok(())
    }

    /// The names of all pods of the namespace.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn pod_names(&self) -> Result<Vec<String>> {
        Ok(self.pods.list(&ListParams::default()).await?.items.iter().map(ResourceExt::name_any).collect())
    }

    /// The events of one action of this namespace, duplicates included.
    pub fn recorded(&self, name: &str) -> Vec<Recorded> {
        let mut events = self.bench.stub.events_of(name);
        let run = |event: &ActionEvent| event.id.as_ref().and_then(|id| id.run.as_ref()).map(|run| run.name.clone());
        events.retain(|recorded| run(&recorded.event).as_deref() == Some(&self.namespace));
        events
    }

    /// The events of one action as `(attempt, phase)`, without consecutive duplicates.
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

    /// The requests of executors in this namespace.
    ///
    /// # Errors
    /// The audit log cannot be read.
    pub fn requests(&self) -> Result<Vec<AuditRecord>> {
        let mut requests = self.bench.cluster.requests(User::Executor)?;
        requests.retain(|request| request.namespace == self.namespace);
        Ok(requests)
    }

    /// Watches the actions of the namespace from now on.
    pub fn observe(&self) -> Observations {
        let (seen, deleted) = (Arc::<Mutex<Vec<Observation>>>::default(), Arc::<Mutex<Vec<TaskAction>>>::default());
        let (is_ready, ready) = watch::channel(false);
        let stop = CancellationToken::new();
        let (actions, states, ends) = (self.actions.clone(), Arc::clone(&seen), Arc::clone(&deleted));
        let follow = async move {
            let events = watcher(actions, watcher::Config::default()).default_backoff();
            pin_mut!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(action) | Event::InitApply(action)) => {
                        let observation = Observation { at: Timestamp::now(), action };
                        states.lock().unwrap_or_else(PoisonError::into_inner).push(observation);
                    }
                    Ok(Event::Delete(action)) => {
                        ends.lock().unwrap_or_else(PoisonError::into_inner).push(action);
                    }
                    Ok(Event::InitDone) => {
                        is_ready.send_replace(true);
                    }
                    Ok(Event::Init) | Err(_) => {}
                }
            }
        };
        tokio::spawn(stop.clone().run_until_cancelled_owned(follow));
        Observations { seen, deleted, ready, _stop: stop.drop_guard() }
    }

    /// The API server of this namespace.
    #[must_use]
    pub fn server(&self) -> Server {
        self.bench.cluster.server()
    }

    /// Details about an action for error messages: status, pods, events, log.
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

impl Observations {
    /// The states of one action so far.
    pub fn of(&self, name: &str) -> Vec<Observation> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|observation| observation.action.name_any() == name).cloned().collect()
    }

    /// Waits until the watch follows every change.
    ///
    /// # Errors
    /// The watch has ended.
    pub async fn until_ready(&self) -> Result<()> {
        self.ready.clone().wait_for(|is_ready| *is_ready).await?;
        Ok(())
    }

    /// Waits until the watch shows that an action is gone. Returns its last state.
    ///
    /// # Errors
    /// The wait timed out.
    pub async fn until_deleted(&self, name: &str) -> Result<TaskAction> {
        let begin = Instant::now();
        loop {
            let deleted = self.deleted.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(action) = deleted.into_iter().find(|action| action.name_any() == name) {
                return Ok(action);
            }
            if begin.elapsed() > WAIT_TIMEOUT {
                bail!("the watch does not show that {name} is gone");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

impl StatusView for TaskAction {
    fn status_or_default(&self) -> TaskActionStatus {
        self.status.clone().unwrap_or_default()
    }

    fn reason(&self) -> String {
        let status = self.status_or_default();
        let progressing = status.conditions.iter().find(|condition| condition.type_ == "Progressing");
        progressing.map(|condition| condition.reason.clone()).unwrap_or_default()
    }

    fn outcome(&self) -> Option<(String, String)> {
        let conditions = self.status_or_default().conditions;
        let ended = conditions.into_iter().find(|condition| {
            ["Succeeded", "Failed"].contains(&condition.type_.as_str()) && condition.status == "True"
        });
        ended.map(|condition| (condition.type_, condition.reason))
    }

    fn history(&self) -> Vec<String> {
        self.status_or_default().phase_history.into_iter().map(|line| line.phase).collect()
    }

    fn error_code(&self) -> String {
        self.status_or_default().error_state.map(|error| error.code).unwrap_or_default()
    }

    fn pending(&self) -> Option<(String, String)> {
        let status = self.status_or_default();
        status.pending().map(|pending| (pending.reason.clone(), pending.message.clone()))
    }

    fn has_terminal_labels(&self) -> bool {
        aileron_action::labels::are_terminal(self.metadata.labels.as_ref())
    }

    fn summary(&self) -> String {
        let status = self.status_or_default();
        format!("attempt {} {} {} {:?}", status.attempts, status.plugin_phase, self.reason(), self.outcome())
    }
}
