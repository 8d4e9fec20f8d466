//! The arguments of commands that look at actions and stop them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub const GET_EXAMPLES: &str = "\
Examples:
  aileron get                          all actions of the namespace
  aileron get -A -o wide               of all namespaces, with more columns
  aileron get hello retries -o json    these two, for other programs
  aileron get -l team=blue -w          those with a label, until Ctrl-C
  aileron abort $(aileron get -o name -l team=blue)

ATTEMPT is the current one of those the task may have. REASON is the error with its code, or what the task waits for: \
`Quota`, `Unschedulable`, `ImagePull` and so on (docs/running.md has all codes).

Without --kubeconfig and KUBECONFIG the cluster is the sandbox that runs (`aileron sandbox`).";

pub const DESCRIBE_EXAMPLES: &str = "\
Shows what was asked for, where it stands, what it waits for, how it got there with times, its error, the objects made \
for it, what Kubernetes says about them, and where its outputs are.

Examples:
  aileron describe hello
  aileron describe hello -o json       the same as one object
  aileron describe -n team-a run7-a0 --kubeconfig ~/.kube/config";

pub const LOGS_EXAMPLES: &str = "\
Examples:
  aileron logs hello                   what its pod wrote so far
  aileron logs hello -f                wait for it, and go on to its end
  aileron logs hello --tail 20 --container main
  aileron logs hello --attempt 2       of one attempt, as long as its pod exists

With -f later attempts are shown as well. Lines of several containers begin with the name of theirs. Kubernetes removes \
logs together with their pod, and a pod goes when the next attempt begins.";

pub const ABORT_EXAMPLES: &str = "\
Deletes the TaskAction: the executor stops what runs for it, reports the end, and lets it go. One that has ended is left \
as it is.

Examples:
  aileron abort hello
  aileron abort hello retries --wait   until all made for them is gone
  aileron abort --all                  all of the namespace that run or wait";

/// Which cluster and which namespace.
#[derive(Clone, Debug, Default, Args)]
pub struct ConnectionArguments {
    /// Kubeconfig file; else the one KUBECONFIG names, else the sandbox that runs
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig file, instead of its current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Namespace, instead of that of the context
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
}

/// Which actions to list, and how.
#[derive(Debug, Args)]
pub struct GetArguments {
    /// Names; all of the namespace if none is given
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    /// Only those with these labels
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "names")]
    pub selector: Option<String>,
    /// Of all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["names", "namespace"])]
    pub all_namespaces: bool,
    /// Go on and show changes, until Ctrl-C
    #[arg(short, long)]
    pub watch: bool,
    /// Format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: ActionListing,
}

/// Which action to describe.
#[derive(Debug, Args)]
pub struct DescribeArguments {
    /// Name of the action
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    /// Format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Description,
}

/// Whose logs.
#[derive(Debug, Args)]
pub struct LogsArguments {
    /// Name of the action
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    /// Wait for the pod, and go on until the action has ended
    #[arg(short, long)]
    pub follow: bool,
    /// Only this attempt, from 1; else the current one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempt: Option<u32>,
    /// Only this container
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// What a container wrote before it was started again in the same pod
    #[arg(long, conflicts_with = "follow")]
    pub previous: bool,
    /// Only the last lines of each container
    #[arg(long, value_name = "LINES")]
    pub tail: Option<u32>,
    /// Put the time before each line
    #[arg(long)]
    pub timestamps: bool,
}

/// What to stop.
#[derive(Debug, Args)]
pub struct AbortArguments {
    /// Names of actions
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    pub names: Vec<String>,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    /// Every action of the namespace that has not ended
    #[arg(long)]
    pub all: bool,
    /// Wait until they and everything made for them are gone
    #[arg(long)]
    pub wait: bool,
}

/// How a list of actions is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ActionListing {
    /// A table
    #[default]
    Table,
    /// A table with more columns, and reasons in full
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Names alone, one on a line
    Name,
}

/// How a description is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Description {
    /// For people
    #[default]
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
}
