//! What the stand-in does with actions while it leads: a pod for each, and the statuses that the Go executor writes.
//!
//! The content of a status comes from the code of this repository that recorded cases compare with the Go executor. The
//! requests are those of the Go executor: whole objects are replaced, where Aileron sends patches.

use std::collections::BTreeMap;

use aileron_action::conditions::{condition, reason};
use aileron_action::events::action_event;
use aileron_action::labels::{COMPLETED_TIME, TERMINATED, TERMINATION_STATUS, are_terminal, completed_time};
use aileron_action::{ACTION_FINALIZER, Action, TaskAction, TaskActionStatus};
use aileron_config::Config;
use aileron_executor::manager::gob::{K8sPluginState, ManagerPhase, PluginState};
use aileron_executor::manager::state;
use aileron_executor::services::events::{EventTransport, EventsClient};
use aileron_idl::flyteidl2::core::{LiteralMap, TaskTemplate};
use aileron_machinery::{Phase, PhaseInfo, StoredState, TaskInfo};
use aileron_preview::render::Offline;
use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use prost::Message;
use serde_json::json;

/// What the Go executor says about an attempt whose pod it has created.
const SUBMITTED: &str = "task submitted to K8s";

/// Drives actions that run one pod which succeeds.
pub(super) struct Rounds {
    pub client: Client,
    pub config: Config,
    pub events: EventsClient,
}

impl Rounds {
    /// One round of every action that has not ended and is not being deleted.
    pub async fn all(&self) -> Result<()> {
        let actions: Api<TaskAction> = Api::all(self.client.clone());
        for action in actions.list(&ListParams::default()).await?.items {
            let name = action.name_any();
            match self.one(action).await {
                Err(error) if is_transient(&error) => {}
                outcome => outcome.with_context(|| format!("the round of {name}"))?,
            }
        }
        Ok(())
    }

    async fn one(&self, mut action: TaskAction) -> Result<()> {
        let (namespace, name) = (action.namespace().unwrap_or_default(), action.name_any());
        let actions: Api<TaskAction> = Api::namespaced(self.client.clone(), &namespace);
        let status = action.status.clone().unwrap_or_default();
        if action.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        if status.is_terminal() {
            return label(&actions, &action, &status).await;
        }
        if !action.finalizers().iter().any(|finalizer| finalizer == ACTION_FINALIZER) {
            action.finalizers_mut().push(ACTION_FINALIZER.to_owned());
            actions.replace(&name, &PostParams::default(), &action).await?;
            return Ok(());
        }
        let now = Timestamp::now();
        let Some(phase) = self.phase(&action, &status, now).await? else { return Ok(()) };
        let next = status_with(&action, &phase, now)?;
        if next.plugin_phase == status.plugin_phase && next.plugin_phase_version == status.plugin_phase_version {
            return Ok(());
        }
        let event = action_event(&Action::new(action.clone(), None), &next, &phase, "suite", now);
        self.events.record(vec![event]).await.context("recording an event")?;
        action.status = Some(next.clone());
        let written = actions.replace_status(&name, &PostParams::default(), &action).await?;
        if next.is_terminal() { label(&actions, &written, &next).await } else { Ok(()) }
    }

    /// The phase of an attempt. Creates its pod if the plugin state says that there is none yet; a pod that exists all the
    /// same is taken for it.
    async fn phase(&self, action: &TaskAction, status: &TaskActionStatus, now: Timestamp) -> Result<Option<PhaseInfo>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &action.namespace().unwrap_or_default());
        let pod = self.pod(action, now)?;
        if plugin_state(status)?.phase == ManagerPhase::NotStarted {
            match pods.create(&PostParams::default(), &pod).await {
                Err(kube::Error::Api(answer)) if answer.is_already_exists() => {}
                outcome => drop(outcome.context("creating the pod")?),
            }
            return Ok(Some(PhaseInfo::queued(SUBMITTED, TaskInfo::at(now))));
        }
        let pod = pods.get(&pod.name_any()).await.context("the pod of an attempt that has started")?;
        let reached = pod.status.and_then(|status| status.phase).unwrap_or_default();
        ensure!(reached != "Failed", "the stand-in knows only pods that succeed");
        Ok(match reached.as_str() {
            "Running" => Some(PhaseInfo::running(TaskInfo::at(now)).with_version(1)),
            "Succeeded" => Some(PhaseInfo::success(TaskInfo::at(now))),
            _ => None,
        })
    }

    /// The pod of the current attempt. Recorded cases show that it is the pod of the Go executor.
    fn pod(&self, action: &TaskAction, now: Timestamp) -> Result<Pod> {
        let rendered = Offline {
            action: action.clone(),
            template: TaskTemplate::decode(action.spec.task_template.0.as_slice())?,
            config: self.config.clone(),
            plugins: aileron_plugins::builtin(),
            pod_templates: Vec::new(),
            inputs: Some(LiteralMap::default()),
            environment: BTreeMap::new(),
            executor_namespace: "flyte".to_owned(),
            now,
        }
        .render()?;
        serde_json::from_value(rendered.object).context("the rendered object is no pod")
    }
}

/// The next round may succeed: somebody else has changed the object since it was listed, or the API server is busy, for example
/// because it has just begun to serve the definition. The Go executor tries again, too.
pub(super) fn is_transient(error: &anyhow::Error) -> bool {
    match error.downcast_ref() {
        Some(kube::Error::Api(answer)) => answer.code == 409 || answer.code == 429 || answer.code >= 500,
        _ => false,
    }
}

fn plugin_state(status: &TaskActionStatus) -> Result<PluginState> {
    let stored = StoredState { bytes: status.plugin_state.0.clone(), version: status.plugin_state_version };
    state::read(&stored).context("the plugin state of another executor")
}

/// The status after a round with this phase.
fn status_with(action: &TaskAction, phase: &PhaseInfo, now: Timestamp) -> Result<TaskActionStatus> {
    let mut status = action.status.clone().unwrap_or_default();
    let mut stored = plugin_state(&status)?;
    stored.phase = ManagerPhase::Started;
    stored.k8s = K8sPluginState {
        phase: phase.phase().number(),
        phase_version: phase.version(),
        reason: phase.reason().to_owned(),
    };
    let written = state::write(&stored);
    show_phase(&mut status, phase, now);
    status.plugin_state = ByteString(written.bytes);
    status.plugin_state_version = written.version;
    status.plugin_phase = phase.phase().as_str().to_owned();
    status.plugin_phase_version = phase.version();
    status.attempts = status.observed_attempt();
    status.system_failures = 0;
    let id = format!("{}/{}", action.spec.run_name, action.spec.action_name);
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    status.state_json = json!({"actionId": id, "phase": phase.phase().as_str(), "timestamp": time}).to_string();
    Ok(status)
}

/// Writes a phase into conditions and history. Conditions that only Aileron has stay as they are.
fn show_phase(status: &mut TaskActionStatus, phase: &PhaseInfo, now: Timestamp) {
    let (reason, message) = match phase.phase() {
        Phase::Running => (reason::EXECUTING, phase.reason()),
        Phase::Success => (reason::COMPLETED, "TaskAction completed successfully"),
        _ => (reason::QUEUED, phase.reason()),
    };
    if phase.phase() == Phase::Success {
        status.set_condition(condition::PROGRESSING, false, reason, "TaskAction has completed", now);
        status.set_condition(condition::SUCCEEDED, true, reason, message, now);
    } else {
        status.set_condition(condition::PROGRESSING, true, reason, message, now);
    }
    status.append_history(reason, message, now);
}

/// Writes the labels of an ended action.
async fn label(actions: &Api<TaskAction>, action: &TaskAction, status: &TaskActionStatus) -> Result<()> {
    if are_terminal(action.metadata.labels.as_ref()) {
        return Ok(());
    }
    let ended = status.ended_at().context("an ended action without a time")?;
    let labels = json!({TERMINATION_STATUS: TERMINATED, COMPLETED_TIME: completed_time(ended)});
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    actions.patch(&action.name_any(), &PatchParams::default(), &patch).await?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::vectors::case::Case;

    /// The statuses of a task that succeeds, as the Go executor wrote them.
    #[test]
    fn statuses_are_those_of_the_recorded_case() {
        let case = Case::committed("reconcile/happy-no-cluster").unwrap();
        let mut action: TaskAction = serde_json::from_value(case.input("taskAction").clone()).unwrap();
        let phases = [
            PhaseInfo::queued(SUBMITTED, TaskInfo::at(case.now)),
            PhaseInfo::running(TaskInfo::at(case.now)).with_version(1),
            PhaseInfo::success(TaskInfo::at(case.now)),
        ];
        for (step, phase) in phases.iter().enumerate() {
            let status = status_with(&action, phase, case.now).unwrap();
            let mut ours = serde_json::to_value(&status).unwrap();
            ours["stateJson"] = serde_json::from_str(&status.state_json).unwrap();
            // The first recorded round adds the finalizer.
            let mut theirs = case.expected["steps"][step + 1]["taskAction"]["status"].clone();
            theirs.as_object_mut().unwrap().remove("pluginStateDecoded");
            assert_eq!(ours, theirs, "{:?}", phase.phase());
            action.status = Some(status);
        }
    }
}
