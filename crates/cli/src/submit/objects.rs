//! Kubernetes objects that a task file needs.

use anyhow::{Context, anyhow};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client};
use serde_json::Value;

/// Creates the objects of a task file, in their order. A namespaced object without a namespace gets that of the task.
pub async fn create_objects(client: &Client, namespace: &str, objects: &[Value]) -> anyhow::Result<()> {
    if objects.is_empty() {
        return Ok(());
    }
    ensure_namespace(client, namespace).await?;
    for object in objects {
        let object: DynamicObject =
            serde_json::from_value(object.clone()).context("`objects` contains a value that is not an object")?;
        let types = object.types.clone().unwrap_or_default();
        let name = object.metadata.name.clone().unwrap_or_default();
        let subject = format!("{} {name}", types.kind);
        let kind = GroupVersionKind::try_from(&types).map_err(|error| anyhow!("{subject}: {error}"))?;
        let found = pinned_kind(client, &kind).await;
        let (resource, capabilities) =
            found.with_context(|| format!("{subject}: the cluster does not serve the kind"))?;
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(client.clone(), &resource),
            Scope::Namespaced => {
                let namespace = object.metadata.namespace.as_deref().unwrap_or(namespace);
                Api::namespaced_with(client.clone(), namespace, &resource)
            }
        };
        // Server-side apply: submitting the same file twice is not an error.
        let applied = api.patch(&name, &PatchParams::apply("aileron").force(), &Patch::Apply(&object)).await;
        applied.with_context(|| format!("cannot create {subject}"))?;
    }
    Ok(())
}

/// Creates a namespace unless it exists, as the control plane does.
pub(super) async fn ensure_namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match namespaces.get_opt(name).await {
        Ok(None) => {}
        // A user without permission to read namespaces most likely has one. If not, the next request fails.
        Ok(Some(_)) | Err(kube::Error::Api(_)) => return Ok(()),
        Err(error) => return Err(error).context("cannot reach the cluster"),
    }
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    match namespaces.create(&PostParams::default(), &namespace).await {
        Ok(_) => Ok(()),
        // Another client has created the namespace in the meantime.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot create namespace {name}")),
    }
}
