//! The arguments of `aileron run`, and of the commands that list what an executor would use.

use std::path::PathBuf;

use clap::Args;

use super::configuration::ConfigArguments;
use super::format::{ListFormat, LogFormat};

pub const RUN_EXAMPLES: &str = "\
Configuration keys as flags:
  --executor.maxSystemFailures 5
  --executor.healthProbeBindAddress=127.0.0.1:8081
  --plugins.k8s.default-cpus 500m
  --executor.leaderElect                    a boolean needs no value
  `aileron config example` lists all keys.

Precedence of values, highest first:
  flags, environment variables (EXECUTOR.CLUSTER=east), files (a later file wins), defaults.
  Without --config: ./config.yaml and /etc/flyte/config/config.yaml, if they exist.

The cluster is the first of these that exists:
  --kubeconfig, KUBECONFIG, the pod in which the executor runs, ~/.kube/config.

Signals: after the first SIGTERM or SIGINT the executor finishes its current work and stops; after the second it stops \
at once.";

pub const PLUGINS_EXAMPLES: &str = "\
Examples:
  aileron plugins
  aileron plugins -o wide --config config.yaml
  aileron plugins -o json --kubeconfig ~/.kube/config
  aileron plugins --tasks.task-plugins.enabled-plugins container,sidecar

STATUS `unavailable`: the cluster does not serve the kind of the plugin. Most likely the operator is not installed. Tasks \
of the plugin wait until the kind exists, at most for executor.missingKindTimeout.

The cluster is that of --kubeconfig or KUBECONFIG, else the running sandbox, else the cluster that `aileron run` would \
use.";

pub const POOLS_EXAMPLES: &str = "\
Examples:
  aileron pools --config config.yaml
  aileron pools -o wide                also the tasks that hold a token
  aileron pools -o json                for other programs

The sizes of the pools come from the configuration (tasks.pools). The tasks that hold or wait for a token come from the \
cluster: that of --kubeconfig or KUBECONFIG, else the running sandbox, else the cluster that `aileron run` would use.";

/// How to run the executor.
#[derive(Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub config: ConfigArguments,
    /// Refuse sections that neither this executor nor another part of Flyte has, and rules that name a plugin of Flyte that
    /// does not exist here
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// Which log records are written, instead of `logger.level`: error, warn, info, debug, trace, or a filter such as
    /// `info,kube=debug`
    #[arg(long, value_name = "LEVEL", env = "RUST_LOG", hide_env_values = true)]
    pub log_level: Option<String>,
    /// Format of log records, instead of `logger.formatter.type`. On a terminal the default is `text`, unless that key is
    /// set
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
    /// Number of worker threads. More threads help only when thousands of tasks change at the same time
    #[arg(long, value_name = "N", env = "AILERON_WORKER_THREADS", hide_env_values = true, default_value_t = 2,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub worker_threads: u16,
}

/// What to list, from the configuration and from the cluster.
#[derive(Debug, Args)]
pub struct ListArguments {
    #[command(flatten)]
    pub config: ConfigArguments,
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: ListFormat,
}

/// The cluster.
#[derive(Debug, Args)]
pub struct ClusterArguments {
    /// Kubeconfig file
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig file, instead of its current context
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}
