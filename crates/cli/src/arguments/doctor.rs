//! The arguments of `aileron doctor`.

use clap::Args;

use super::configuration::ConfigArguments;
use super::format::ReportFormat;
use super::run::ClusterArguments;

pub const DOCTOR_EXAMPLES: &str = "\
Checks the API server and its clock, the definition of TaskAction, every permission, the object store, the events service \
and the cache service, the lease, mutating webhooks for pods, and the kinds of plugins. Each check is made even if \
another one fails. A check that needs a failed one is skipped.

It changes nothing but this: it writes one small object `doctor-<random>` into storage.container, reads it, and \
deletes it.

Examples:
  aileron doctor --config config.yaml
  aileron doctor --config config.yaml --as system:serviceaccount:flyte:executor
  aileron doctor --config config.yaml --task-namespace team-a --task-namespace team-b

The cluster and the configuration are those that `aileron run` would use with the same arguments. Permissions are those of \
the user of the kubeconfig; --as asks for those of a service account.

Exit codes: 0 nothing failed (there may be warnings), 1 a check failed, 2 wrong command line or configuration.";

/// What to check.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    #[command(flatten)]
    pub config: ConfigArguments,
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// Namespace of the executor, instead of POD_NAMESPACE and `flyte`
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Namespace of tasks. Without any, permissions for tasks are needed in all namespaces
    #[arg(long = "task-namespace", value_name = "NAME")]
    pub task_namespaces: Vec<String>,
    /// User to impersonate, such as system:serviceaccount:flyte:executor
    #[arg(long = "as", value_name = "USER")]
    pub impersonate: Option<String>,
    /// Seconds that each request may take
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=300))]
    pub timeout: u64,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: ReportFormat,
}
