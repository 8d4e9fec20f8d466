//! Everybody but the executor: the operator that moves objects through their lives, and people who interfere.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use aileron_action::TaskAction;
use aileron_history::traces::Traces;
use futures::StreamExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use serde_json::json;
use tokio::time::sleep;

use super::{ACTION, NAMESPACE};
use crate::life::Life;
use crate::simulation::executors::Executors;
use crate::simulation::network::{Network, Shared};

/// Between two states of an object. Long enough for the executor to see each of them in a run without faults.
const BETWEEN_STATES: Duration = Duration::from_secs(2);

/// What somebody does once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interference {
    /// The executor is killed. It starts again by itself.
    Restart,
    /// A user deletes the object.
    DeleteObject,
    /// A user deletes the action.
    Abort,
    /// Another controller adds a label and an annotation to the object.
    Edit,
}

/// Everybody but the executor.
#[derive(Clone)]
pub(super) struct Others {
    pub shared: Arc<Shared>,
    pub executors: Arc<Executors>,
    pub traces: Traces,
    /// Before which state of the first object something happens; after the last state if there is none of this number.
    /// For a task without an object: after how many seconds.
    pub interference: Option<(usize, Interference)>,
}

impl Others {
    /// Moves each new object through its life.
    pub async fn operate(self, kind: ApiResource, lives: Vec<Life>) {
        let client = Network::of_other(&self.shared, "operator");
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        let mut events = std::pin::pin!(watcher::watcher(all, watcher::Config::default()).default_backoff());
        let mut seen = HashSet::new();
        while let Some(event) = events.next().await {
            let Ok(Event::Apply(object) | Event::InitApply(object)) = event else { continue };
            if !seen.insert(object.metadata.uid.clone().unwrap_or_default()) {
                continue;
            }
            let number = seen.len() - 1;
            let Some(life) = lives.get(number).or_else(|| lives.last()).cloned() else { continue };
            let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &kind);
            tokio::spawn(self.clone().live(objects, object, life, number == 0));
        }
    }

    async fn live(self, objects: Api<DynamicObject>, object: DynamicObject, life: Life, is_first: bool) {
        let name = object.metadata.name.clone().unwrap_or_default();
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let document = serde_json::to_value(&object).unwrap_or_default();
        let place = self.interference.map(|(place, _)| place.min(life.steps().len())).filter(|_| is_first);
        for number in 0..=life.steps().len() {
            if place == Some(number) {
                self.interfere(Some((&objects, &object))).await;
            }
            let Some(step) = life.steps().get(number) else { break };
            sleep(BETWEEN_STATES).await;
            let patch = json!([
                {"op": "test", "path": "/metadata/uid", "value": uid},
                {"op": "add", "path": "/status", "value": step.status(&document)},
            ]);
            let Ok(patch) = serde_json::from_value::<json_patch::Patch>(patch) else { return };
            let patch: Patch<()> = Patch::Json(patch);
            // A kind without a status subresource has its status in the object itself.
            if let Err(kube::Error::Api(status)) = objects.patch_status(&name, &PatchParams::default(), &patch).await
                && status.code == 404
            {
                let _ = objects.patch(&name, &PatchParams::default(), &patch).await;
            }
        }
    }

    /// For a task without an object: interferes after some seconds.
    pub async fn interfere_by_time(self) {
        let Some((seconds, _)) = self.interference else { return };
        sleep(Duration::from_secs(u64::try_from(seconds).unwrap_or_default())).await;
        self.interfere(None).await;
    }

    async fn interfere(&self, object: Option<(&Api<DynamicObject>, &DynamicObject)>) {
        let Some((_, interference)) = self.interference else { return };
        self.shared.history.note(format!("interference: {interference:?}"));
        match (interference, object) {
            (Interference::Restart, _) => self.executors.kill(0),
            (Interference::Abort, _) => {
                self.traces.disturb(NAMESPACE, ACTION);
                let actions: Api<TaskAction> = Api::namespaced(Network::of_other(&self.shared, "user"), NAMESPACE);
                let _ = actions.delete(ACTION, &DeleteParams::default()).await;
            }
            (Interference::DeleteObject, Some((objects, object))) => {
                self.traces.disturb(NAMESPACE, ACTION);
                let preconditions = Preconditions { uid: object.metadata.uid.clone(), resource_version: None };
                let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                let _ = objects.delete(object.metadata.name.as_deref().unwrap_or_default(), &parameters).await;
            }
            (Interference::Edit, Some((objects, object))) => {
                let mark = json!({"example.org/edited": "yes"});
                let patch = Patch::Merge(json!({"metadata": {"labels": mark, "annotations": mark}}));
                let name = object.metadata.name.as_deref().unwrap_or_default();
                let _ = objects.patch(name, &PatchParams::default(), &patch).await;
            }
            (Interference::DeleteObject | Interference::Edit, None) => {}
        }
    }
}
