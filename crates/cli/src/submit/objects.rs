//! Kubernetes objects that must be there before a task.

use anyhow::{Context, anyhow};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client};
use serde_json::Value;

/// Makes the objects of a task file, in their order. Those that belong into a namespace and name none get the task's.
pub async fn prepare(client: &Client, namespace: &str, objects: &[Value]) -> anyhow::Result<()> {
    if objects.is_empty() {
        return Ok(());
    }
    ensure_namespace(client, namespace).await?;
    for object in objects {
        let object: DynamicObject = serde_json::from_value(object.clone()).context("`objects` holds no object")?;
        let types = object.types.clone().unwrap_or_default();
        let name = object.metadata.name.clone().unwrap_or_default();
        let subject = format!("{} {name}", types.kind);
        let kind = GroupVersionKind::try_from(&types).map_err(|error| anyhow!("{subject}: {error}"))?;
        let found = pinned_kind(client, &kind).await;
        let (resource, capabilities) =
            found.with_context(|| format!("{subject}: the cluster does not know the kind"))?;
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(client.clone(), &resource),
            Scope::Namespaced => {
                let namespace = object.metadata.namespace.as_deref().unwrap_or(namespace);
                Api::namespaced_with(client.clone(), namespace, &resource)
            }
        };
        // Applied, so that submitting the same file again is no mistake.
        let applied = api.patch(&name, &PatchParams::apply("aileron").force(), &Patch::Apply(&object)).await;
        applied.with_context(|| format!("cannot make {subject}"))?;
    }
    Ok(())
}

/// Makes a namespace that is not there yet, as the control plane does.
pub(super) async fn ensure_namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match namespaces.get_opt(name).await {
        Ok(None) => {}
        // Who may not look at namespaces has one already, or learns about it from what comes next.
        Ok(Some(_)) | Err(kube::Error::Api(_)) => return Ok(()),
        Err(error) => return Err(error).context("cannot reach the cluster"),
    }
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    match namespaces.create(&PostParams::default(), &namespace).await {
        Ok(_) => Ok(()),
        // Somebody was faster.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot make namespace {name}")),
    }
}
