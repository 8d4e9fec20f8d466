//! Manifests: renders them, applies them to a cluster, and compares the permissions in them with requests.

mod executor_roles;
mod helm;
mod kubectl;
mod permissions;

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, ValidationDirective};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::cluster::install_crd;

pub use self::executor_roles::executor_roles;
pub use self::helm::{helm, helm_template};
pub use self::kubectl::{find_kubectl, kustomize};
pub use self::permissions::Grants;

/// The objects of a text with YAML documents. Empty documents are left out.
///
/// # Errors
/// The text is not YAML.
pub fn objects(text: &str) -> Result<Vec<Value>> {
    let mut documents: Vec<Value> = serde_saphyr::from_multiple(text).context("reading YAML documents")?;
    documents.retain(|document| !document.is_null());
    Ok(documents)
}

/// Applies objects in their order. The API server refuses fields that it does not know, and values that it would drop.
/// Kinds that a CustomResourceDefinition among them defines are served when the next object is applied.
///
/// # Errors
/// The API server refuses an object, or does not serve its kind.
pub async fn apply(client: &Client, objects: &[Value]) -> Result<()> {
    for object in objects {
        apply_object(client, object).await?;
    }
    Ok(())
}

async fn apply_object(client: &Client, object: &Value) -> Result<()> {
    let dynamic: DynamicObject = serde_json::from_value(object.clone()).context("not an object of Kubernetes")?;
    let (name, namespace) = (dynamic.name_any(), dynamic.namespace());
    let kind = GroupVersionKind::try_from(dynamic.types.as_ref().context("an object without kind")?)?;
    let what = format!("{} {name}", kind.kind);
    let (resource, capabilities) = pinned_kind(client, &kind).await.with_context(|| format!("{what}: its kind"))?;
    let api: Api<DynamicObject> = match (capabilities.scope, &namespace) {
        (Scope::Cluster, None) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client.clone(), namespace, &resource),
        (scope, _) => anyhow::bail!("{what} has the namespace {namespace:?}, but its kind is {scope:?}"),
    };
    let parameters = PatchParams {
        force: true,
        field_manager: Some("aileron-parity".to_owned()),
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    let applied =
        api.patch(&name, &parameters, &Patch::Apply(object)).await.with_context(|| format!("applying {what}"))?;
    ensure!(applied.name_any() == name, "{what} was applied as {}", applied.name_any());
    if kind.kind == "CustomResourceDefinition" {
        install_crd(client, &serde_json::from_value::<CustomResourceDefinition>(object.clone())?).await?;
    }
    Ok(())
}
