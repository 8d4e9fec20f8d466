//! The arguments of the commands that show actions and abort them.

use std::path::PathBuf;

use clap::Args;

use super::format::{DescriptionFormat, ListFormat};

pub const GET_EXAMPLES: &str = "\
Examples:
  aileron get                          all actions of the namespace
  aileron get -A -o wide               all namespaces, more columns
  aileron get hello retries -o json    two actions, for other programs
  aileron get -l team=blue -w          actions with a label; watch until Ctrl-C
  aileron abort $(aileron get -o name -l team=blue)

ATTEMPT shows the current attempt and the number of attempts that the task may have. REASON shows the error with its code, \
or what the task waits for: `Quota`, `Unschedulable`, `ImagePull` and so on (docs/running.md lists all codes).

Without --kubeconfig and KUBECONFIG the cluster is the running sandbox (`aileron sandbox`).";

pub const DESCRIBE_EXAMPLES: &str = "\
Shows the task, the current phase and what the action waits for, the history of phases with times, the error, the objects \
that were created for the action, their Kubernetes events, and where the outputs are.

Examples:
  aileron describe hello
  aileron describe hello -o json       the same as one JSON object
  aileron describe -n team-a run7-a0 --kubeconfig ~/.kube/config";

pub const LOGS_EXAMPLES: &str = "\
Examples:
  aileron logs hello                   the log of its pod so far
  aileron logs hello -f                wait for the pod, and follow it to its end
  aileron logs hello --tail 20 --container main
  aileron logs hello --attempt 2       one attempt, while its pod exists

With -f the logs of later attempts follow. If there are several containers, each line begins with the name of its \
container. Kubernetes deletes a log together with its pod, and the executor deletes the pod of an attempt before the next \
attempt begins.";

pub const ABORT_EXAMPLES: &str = "\
Deletes the TaskAction. The executor then stops its pods and other objects, reports the abort, and removes its finalizer. \
An action that has already ended is not changed.

Examples:
  aileron abort hello
  aileron abort hello retries --wait   wait until all their objects are deleted
  aileron abort --all                  all actions of the namespace that have not ended";

/// The cluster and the namespace.
#[derive(Clone, Debug, Default, Args)]
pub struct ConnectionArguments {
    /// Kubeconfig file. Without it the file that KUBECONFIG names, else that of the running sandbox
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig file, instead of its current context
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Namespace, instead of that of the context
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
}

/// Which actions to list.
#[derive(Debug, Args)]
pub struct GetArguments {
    /// Names of actions. Without any, all actions of the namespace
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    /// Only actions with these labels
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "names")]
    pub selector: Option<String>,
    /// Actions of all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["names", "namespace"])]
    pub all_namespaces: bool,
    /// Keep running and show changes, until Ctrl-C
    #[arg(short, long)]
    pub watch: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: ListFormat,
}

/// Which action to describe.
#[derive(Debug, Args)]
pub struct DescribeArguments {
    /// Name of the action
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: DescriptionFormat,
}

/// Which logs to print.
#[derive(Debug, Args)]
pub struct LogsArguments {
    /// Name of the action
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    /// Wait for the pod, and follow the log until the action has ended
    #[arg(short, long)]
    pub follow: bool,
    /// Only this attempt, counted from 1, instead of the current attempt
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempt: Option<u32>,
    /// Only this container
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// The log of the container before its last restart in the same pod
    #[arg(long, conflicts_with = "follow")]
    pub previous: bool,
    /// Only the last lines of each container
    #[arg(long, value_name = "LINES")]
    pub tail: Option<u32>,
    /// Begin each line with its time
    #[arg(long)]
    pub timestamps: bool,
}

/// Which actions to abort.
#[derive(Debug, Args)]
pub struct AbortArguments {
    /// Names of actions
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    pub names: Vec<String>,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    /// All actions of the namespace that have not ended
    #[arg(long)]
    pub all: bool,
    /// Wait until the actions and all objects that were created for them are deleted
    #[arg(long)]
    pub wait: bool,
}
