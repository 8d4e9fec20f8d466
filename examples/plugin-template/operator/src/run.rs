//! Watches jobs and pods, and carries the decisions out.

use std::sync::Arc;
use std::time::Duration;

use aileron_plugin_batch::BatchJob;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::Controller;
use kube::runtime::controller::Action;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::decide::{Decision, decide};

/// A failed request is repeated after this time. Jobs that run are looked at again when one of their pods changes.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// A request of the operator failed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("BatchJob {namespace}/{name}: {source}")]
    Request { namespace: String, name: String, source: kube::Error },
}

/// Runs jobs until the process ends.
pub async fn run(client: Client) {
    let jobs: Api<BatchJob> = Api::all(client.clone());
    let pods: Api<Pod> = Api::all(client.clone());
    Controller::new(jobs, watcher::Config::default())
        .owns(pods, watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(RETRY_AFTER), Arc::new(client))
        .for_each(|outcome| async move {
            if let Err(error) = outcome {
                tracing::warn!(%error, "a request for a BatchJob failed; retrying");
            }
        })
        .await;
}

async fn reconcile(job: Arc<BatchJob>, client: Arc<Client>) -> Result<Action, Error> {
    let (namespace, name) = (job.namespace().unwrap_or_default(), job.name_any());
    match reconcile_job(&job, &namespace, &name, &client).await {
        Ok(()) => Ok(Action::await_change()),
        Err(source) => Err(Error::Request { namespace, name, source }),
    }
}

async fn reconcile_job(job: &BatchJob, namespace: &str, name: &str, client: &Client) -> kube::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let all = pods.list(&ListParams::default()).await?.items;
    let own = |pod: &Pod| pod.owner_references().iter().any(|owner| Some(&owner.uid) == job.metadata.uid.as_ref());
    let own: Vec<_> = all.into_iter().filter(own).collect();
    let Decision { create, delete, status } = decide(job, &own);
    for pod in delete {
        match pods.delete(&pod, &DeleteParams::default()).await {
            Err(kube::Error::Api(refused)) if refused.code == 404 => {}
            deleted => drop(deleted?),
        }
    }
    for pod in create {
        match pods.create(&PostParams::default(), &pod).await {
            // Another round has created this pod since the list.
            Err(kube::Error::Api(refused)) if refused.code == 409 => {}
            created => drop(created?),
        }
    }
    if let Some(status) = status {
        let jobs: Api<BatchJob> = Api::namespaced(client.clone(), namespace);
        jobs.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
    }
    Ok(())
}
