//! Bringing a custom resource definition into use.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::conditions;
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt};

/// The server establishes a definition within a second; a refused one never becomes established.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(20);

/// Applies `crd` and waits until the API server serves it. Applying the same definition again is fine.
///
/// # Errors
/// A definition that the API server refuses, or that it does not establish in time.
pub async fn install_crd(client: &Client, crd: &CustomResourceDefinition) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = crd.name_any();
    crds.patch(&name, &PatchParams::apply("aileron-parity").force(), &Patch::Apply(crd))
        .await
        .with_context(|| format!("applying CRD {name}"))?;
    let established = await_condition(crds, &name, conditions::is_crd_established());
    tokio::time::timeout(ESTABLISHED_WITHIN, established)
        .await
        .with_context(|| format!("CRD {name} not established within {ESTABLISHED_WITHIN:?}"))?
        .with_context(|| format!("waiting for CRD {name}"))?;
    Ok(())
}
