//! Installs a custom resource definition and waits until it is served.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::conditions;
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt};

/// Limit for a definition to become established. The server normally needs less than a second.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(120);

/// Applies `crd` and waits until the API server serves it. Applying the same definition again changes nothing.
///
/// # Errors
/// The API server refuses the definition, or does not establish it in time.
pub async fn install_crd(client: &Client, crd: &CustomResourceDefinition) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = crd.name_any();
    crds.patch(&name, &PatchParams::apply("aileron-parity").force(), &Patch::Apply(crd))
        .await
        .with_context(|| format!("applying CRD {name}"))?;
    let established = await_condition(crds, &name, conditions::is_crd_established());
    tokio::time::timeout(ESTABLISH_TIMEOUT, established)
        .await
        .with_context(|| format!("CRD {name} not established within {ESTABLISH_TIMEOUT:?}"))?
        .with_context(|| format!("waiting for CRD {name}"))?;
    Ok(())
}
