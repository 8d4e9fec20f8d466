//! A custom kind: its definition, its plugin, and the operator that runs its objects.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use aileron_executor::storage::MemoryStore;
use aileron_machinery::{
    AnyResource, ErrorKind, ExecutionError, JsonObject, ObjectPlugin, PhaseContext, PhaseInfo, PluginEntry,
    PluginError, ResourceKind, TaskContext, TaskInfo,
};
use aileron_parity::kubelet::Document;
use async_trait::async_trait;
use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use serde_json::{Value, json};
use tokio::time::sleep;

use aileron_testkit::simulation::random::Random;

const GROUP: &str = "simulation.aileron.test";

/// The plugin of task type `simjob`.
pub struct SimJobs;

#[async_trait]
impl ObjectPlugin for SimJobs {
    fn entry(&self) -> PluginEntry {
        PluginEntry::new("simjob".to_owned(), &["simjob"])
    }

    fn kind(&self) -> ResourceKind {
        ResourceKind::new(GROUP.to_owned(), "v1", "SimJob", "simjobs")
    }

    async fn build(&self, task: &TaskContext) -> Result<Box<dyn AnyResource>, PluginError> {
        let spec = json!({"outputs": task.paths.output_prefix});
        Ok(Box::new(JsonObject::new(self.kind(), json!({"spec": spec}))?))
    }

    async fn phase(&self, cx: &PhaseContext<'_>, job: &dyn AnyResource) -> Result<PhaseInfo, PluginError> {
        let info = TaskInfo::at(cx.task.now);
        let failed = || ExecutionError { kind: ErrorKind::User, code: "JobFailed".into(), message: "it failed".into() };
        Ok(match job.to_json()?["status"]["state"].as_str() {
            None => PhaseInfo::queued("not seen by the operator", info),
            Some("Succeeded") => PhaseInfo::success(info),
            Some("Failed") => PhaseInfo::retryable_failure(failed(), info),
            Some(_) => PhaseInfo::running(info),
        })
    }
}

/// The definition of the kind.
///
/// # Errors
/// Never: the text is fixed.
pub fn definition() -> serde_json::Result<CustomResourceDefinition> {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    serde_json::from_value(json!({
        "metadata": {"name": format!("simjobs.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": "SimJob", "listKind": "SimJobList", "plural": "simjobs", "singular": "simjob"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": any, "status": any}}},
            }],
        },
    }))
}

/// The kind for dynamic clients.
#[must_use]
pub fn resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", "SimJob"), "simjobs")
}

/// Runs the jobs. The annotation of the attempts decides how each one ends.
pub async fn run(client: kube::Client, store: Arc<MemoryStore>, random: Random) {
    let jobs: Api<DynamicObject> = Api::all_with(client.clone(), &resource());
    let mut events = std::pin::pin!(watcher::watcher(jobs, watcher::Config::default()).default_backoff());
    let mut seen = HashSet::new();
    while let Some(event) = events.next().await {
        let Ok(Event::Apply(job) | Event::InitApply(job)) = event else { continue };
        let uid = job.metadata.uid.clone().unwrap_or_default();
        if seen.insert(uid) {
            tokio::spawn(live(client.clone(), job, Arc::clone(&store), random.millis(10, 8_000)));
        }
    }
}

async fn live(client: kube::Client, job: DynamicObject, store: Arc<MemoryStore>, run_for: Duration) {
    let namespace = job.metadata.namespace.clone().unwrap_or_default();
    let name = job.metadata.name.clone().unwrap_or_default();
    let jobs: Api<DynamicObject> = Api::namespaced_with(client, &namespace, &resource());
    let uid = job.metadata.uid.clone();
    let set = |state: &'static str| json!({"metadata": {"uid": uid}, "status": {"state": state}});
    let patch = |status: Value| {
        let (jobs, name) = (jobs.clone(), name.clone());
        async move {
            let _ = jobs.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
        }
    };
    sleep(run_for / 4).await;
    patch(set("Running")).await;
    sleep(run_for).await;
    let word = crate::workload::word_of_attempt(&job.metadata);
    if word.starts_with("succeed") {
        let prefix = job.data["spec"]["outputs"].as_str().unwrap_or_default().trim_end_matches('/').to_owned();
        if let Document::Outputs(bytes) = Document::one_output() {
            store.insert(format!("{prefix}/outputs.pb"), bytes);
        }
        patch(set("Succeeded")).await;
    } else {
        patch(set("Failed")).await;
    }
}
