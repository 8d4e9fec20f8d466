//! What the launcher in each pod finds in its environment.

use aileron_idl::flyteidl2::plugins::{ClusteredTaskSpec, RdzvBackend, runtime};
use k8s_openapi::api::core::v1::{Container, EnvVar};

use aileron_machinery::pod::env_var;

/// Where rank 0 listens for the others: torch's own default.
const MASTER_PORT: &str = "29500";

/// Sets what launchers need, over what the task says about the same variables: of two with one name, Kubernetes does
/// not promise which one a container sees. The rank itself is in `JOB_COMPLETION_INDEX`, which indexed jobs set.
///
/// Mirrors `clustered.injectTorchRunEnv`.
pub(super) fn set_launcher_variables(container: &mut Container, spec: &ClusteredTaskSpec) {
    let env = container.env.get_or_insert_default();
    for variable in launcher_variables(spec) {
        match env.iter_mut().rfind(|present| present.name == variable.name) {
            Some(present) => *present = variable,
            None => env.push(variable),
        }
    }
}

fn launcher_variables(spec: &ClusteredTaskSpec) -> [EnvVar; 8] {
    let max_restarts = spec.failure_policy.as_ref().map_or(0, |policy| policy.max_restarts);
    [
        env_var::text("NNODES", spec.replicas.to_string()),
        env_var::text("NPROC_PER_NODE", spec.nproc_per_node.to_string()),
        env_var::text("MASTER_PORT", MASTER_PORT),
        env_var::text("RDZV_BACKEND", rendezvous(spec)),
        // Only the last launch may leave an error document, so the launcher has to know which one is the last.
        env_var::text("JOBSET_MAX_RESTARTS", max_restarts.to_string()),
        env_var::pod_field("JOBSET_NAME", "metadata.labels['jobset.sigs.k8s.io/jobset-name']"),
        env_var::pod_field("JOBSET_RESTART_ATTEMPT", "metadata.annotations['jobset.sigs.k8s.io/restart-attempt']"),
        env_var::pod_field("POD_NAMESPACE", "metadata.namespace"),
    ]
}

fn rendezvous(spec: &ClusteredTaskSpec) -> &'static str {
    let backend = match spec.runtime.as_ref().and_then(|runtime| runtime.kind.as_ref()) {
        Some(runtime::Kind::Torchrun(torchrun)) => torchrun.rdzv_backend(),
        None => RdzvBackend::Static,
    };
    match backend {
        RdzvBackend::Static => "static",
        RdzvBackend::C10d => "c10d",
    }
}
