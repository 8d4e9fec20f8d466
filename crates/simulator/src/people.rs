//! Users and administrators who change things while tasks run.

use std::time::Duration;

use aileron_action::TaskAction;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::sleep;

pub use aileron_history::traces::Traces;

use crate::operator;
use crate::workload::{NAMESPACES, Planned};
use aileron_testkit::simulation::history::History;
use aileron_testkit::simulation::random::Random;

/// The finalizer of another controller.
const HOLD: &str = "example.org/hold";

/// People with a client of their own.
pub struct People {
    /// Their client.
    pub client: kube::Client,
    /// The history.
    pub history: History,
    /// What they changed.
    pub traces: Traces,
    /// Their random decisions.
    pub random: Random,
}

impl People {
    /// Does random things until the time is up. `limit` bounds how many.
    pub async fn run(&self, tasks: &[Planned], until: Duration, limit: u64) {
        for _ in 0..self.random.below(limit + 1) {
            sleep(self.random.millis(0, u64::try_from(until.as_millis()).unwrap_or(u64::MAX) / limit.max(1))).await;
            let Some(planned) = self.random.pick(tasks) else { return };
            self.act(planned).await;
        }
    }

    async fn act(&self, planned: &Planned) {
        let (namespace, name) = (planned.namespace, planned.task.name.as_str());
        let actions: Api<TaskAction> = Api::namespaced(self.client.clone(), namespace);
        match self.random.below(10) {
            0 => {
                self.history.note(format!("a user aborts {namespace}/{name}"));
                self.traces.disturb(namespace, name);
                let _ = actions.delete(name, &DeleteParams::default()).await;
            }
            1 => {
                self.history.note(format!("a user aborts {namespace}/{name} and submits it again"));
                self.traces.disturb(namespace, name);
                let _ = actions.delete(name, &DeleteParams::default()).await;
                sleep(self.random.millis(0, 6_000)).await;
                let again = planned.task.build(namespace, crate::workload::DATA);
                let _ = actions.create(&PostParams::default(), &again).await;
            }
            2 | 3 => self.delete_pod(namespace, name).await,
            4 => {
                self.history.note(format!("a user labels {namespace}/{name}"));
                let patch = Patch::Merge(json!({"metadata": {"labels": {"owner": "somebody"}}}));
                let _ = actions.patch(name, &PatchParams::default(), &patch).await;
            }
            5 => self.occupy_name(namespace, name).await,
            6 => self.change_quota().await,
            7 => self.replace_definition().await,
            8 => self.hold(&actions, name).await,
            _ => {
                self.history.note(format!("a user annotates the pods of {namespace}/{name}"));
                for pod in self.pods(namespace, name).await {
                    let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
                    let patch = Patch::Merge(json!({"metadata": {"annotations": {"edited": "yes"}}}));
                    let _ = pods
                        .patch(pod.metadata.name.as_deref().unwrap_or_default(), &PatchParams::default(), &patch)
                        .await;
                }
            }
        }
    }

    /// Another controller keeps an action from being deleted for a while, by a finalizer of its own.
    async fn hold(&self, actions: &Api<TaskAction>, name: &str) {
        self.history.note(format!("another controller holds {name} with a finalizer"));
        let set = async |finalizers: &dyn Fn(Vec<String>) -> Vec<String>| {
            // Both the controller and the executor write the list, so the controller repeats a write that conflicts.
            for _ in 0..10 {
                let Ok(Some(mut action)) = actions.get_opt(name).await else { return };
                action.metadata.finalizers = Some(finalizers(action.metadata.finalizers.unwrap_or_default()));
                if actions.replace(name, &PostParams::default(), &action).await.is_ok() {
                    return;
                }
            }
        };
        set(&|all| all.into_iter().chain([HOLD.to_owned()]).collect()).await;
        sleep(self.random.millis(0, 20_000)).await;
        set(&|all| all.into_iter().filter(|finalizer| finalizer != HOLD).collect()).await;
    }

    async fn pods(&self, namespace: &str, action: &str) -> Vec<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let all = pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        let owned = |pod: &Pod| {
            pod.metadata
                .owner_references
                .iter()
                .flatten()
                .any(|owner| owner.kind == "TaskAction" && owner.name == action)
        };
        all.into_iter().filter(owned).collect()
    }

    async fn delete_pod(&self, namespace: &str, action: &str) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        for pod in self.pods(namespace, action).await {
            let name = pod.metadata.name.unwrap_or_default();
            self.history.note(format!("a user deletes pod {namespace}/{name}"));
            self.traces.disturb(namespace, action);
            let _ = pods.delete(&name, &DeleteParams::default()).await;
        }
    }

    /// Creates a pod under the name that the next attempt will use.
    async fn occupy_name(&self, namespace: &str, action: &str) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let name = format!("{action}-{}", self.random.below(3));
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "foreign"}], "schedulerName": "nobody"},
        });
        let Ok(pod) = serde_json::from_value::<Pod>(pod) else { return };
        if let Ok(created) = pods.create(&PostParams::default(), &pod).await {
            self.history.note(format!("a user creates a pod of their own, {namespace}/{name}"));
            self.traces.disturb(namespace, action);
            self.traces.add_foreign(&created.metadata.uid.unwrap_or_default());
        }
    }

    async fn change_quota(&self) {
        let quotas: Api<ResourceQuota> = Api::namespaced(self.client.clone(), NAMESPACES[1]);
        let pods = 1 + self.random.below(4);
        self.history.note(format!("an administrator sets the quota of {} to {pods} pods", NAMESPACES[1]));
        let patch = Patch::Merge(json!({"spec": {"hard": {"pods": pods.to_string()}}}));
        let _ = quotas.patch("quota", &PatchParams::default(), &patch).await;
    }

    /// Uninstalls the custom kind, with all its objects, and installs it again.
    async fn replace_definition(&self) {
        let Ok(definition) = operator::definition() else { return };
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let name = definition.metadata.name.clone().unwrap_or_default();
        self.history.note("an administrator replaces the definition of SimJob");
        self.traces.disturb("*", "simjob");
        let _ = definitions.delete(&name, &DeleteParams::default()).await;
        sleep(self.random.millis(0, 20_000)).await;
        while definitions.create(&PostParams::default(), &definition).await.is_err() {
            sleep(Duration::from_millis(200)).await;
        }
    }
}
