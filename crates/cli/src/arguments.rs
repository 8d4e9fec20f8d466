//! The command line.

mod actions;
mod sandbox;
mod submit;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use actions::{ABORT_EXAMPLES, DESCRIBE_EXAMPLES, GET_EXAMPLES, LOGS_EXAMPLES};
pub use actions::{
    AbortArguments, ActionListing, ConnectionArguments, DescribeArguments, Description, GetArguments, LogsArguments,
};
use sandbox::{DEMO_EXAMPLES, SANDBOX_EXAMPLES};
pub use sandbox::{DemoArguments, NodeArguments, SandboxArguments};
use submit::{IO_EXAMPLES, SUBMIT_EXAMPLES};
pub use submit::{IoCommand, Submission, SubmitArguments};

const EXAMPLES: &str = "\
To try it, on this machine and without a cluster:
  aileron demo                         tasks that run, fail, wait, are aborted
  aileron sandbox                      a cluster of one process
  aileron submit task.yaml --follow    run a task and print its outputs
  aileron get -w                       actions and their changes

To run it in a cluster:
  aileron crd | kubectl apply -f -     teach the cluster what a TaskAction is
  aileron config example > c.yaml      every key, its meaning, its default
  aileron config check --config c.yaml all mistakes, with file and line
  aileron run --config c.yaml

To understand it:
  aileron render task.yaml             the object that a task becomes
  aileron explain task.yaml            where each of its fields comes from
  aileron plugins                      which plugin runs which task type
  aileron pools                        who holds and who waits for tokens

Any configuration key can be given as a flag: --section.key VALUE.
Exit codes: 0 success, 1 failure, 2 wrong command line or configuration, 128 + N ended by signal N.";

const RUN_EXAMPLES: &str = "\
Configuration keys as flags:
  --executor.maxSystemFailures 5
  --executor.healthProbeBindAddress=127.0.0.1:8081
  --plugins.k8s.default-cpus 500m
  --executor.leaderElect                    a boolean needs no value
  `aileron config example` lists all keys.

Where values come from, strongest first:
  flags, environment variables (EXECUTOR.CLUSTER=east), files (a later one wins), defaults.
  Without --config: ./config.yaml and /etc/flyte/config/config.yaml, if they exist.

Where the cluster comes from, first found:
  --kubeconfig, KUBECONFIG, the pod the executor runs in, ~/.kube/config.

Signals: the first SIGTERM or SIGINT ends in good order, the second at once.";

const CHECK_EXAMPLES: &str = "\
Examples:
  aileron config check --config '/etc/flyte/config/*.yaml'
  aileron config check --config config.yaml --executor.gc.interval 5m";

const SHOW_EXAMPLES: &str = "\
Examples:
  aileron config show --config config.yaml        only what somebody has set
  aileron config show --config config.yaml --all  defaults too
  aileron config show -o json                     for other programs";

const PLUGINS_EXAMPLES: &str = "\
Examples:
  aileron plugins
  aileron plugins -o wide --config config.yaml
  aileron plugins -o json --kubeconfig ~/.kube/config
  aileron plugins --tasks.task-plugins.enabled-plugins container,sidecar

STATUS: `unavailable` means that the cluster does not serve the kind, most likely because its operator is not installed. \
Tasks of such a plugin wait for it, up to executor.missingKindTimeout.

The cluster is the one of --kubeconfig or KUBECONFIG, else the sandbox that runs, else the one `aileron run` would take.";

const POOLS_EXAMPLES: &str = "\
Examples:
  aileron pools --config config.yaml
  aileron pools -o wide                who holds a token
  aileron pools -o json                for other programs

Sizes come from the configuration (tasks.pools), holders and those who wait from the cluster: the one of --kubeconfig or \
KUBECONFIG, else the sandbox that runs, else the one `aileron run` would take.";

const RENDER_EXAMPLES: &str = "\
FILE is a task file for people (docs/tasks.md), a TaskAction (YAML or JSON, spec.taskTemplate in base64 or written out), \
or a task template: a binary protobuf message, its JSON form, or the same as YAML. A template alone gets names that stand \
for those of a run.

Examples:
  aileron render task.yaml --config config.yaml
  aileron render task.pb --namespace team-a --plugins.k8s.default-cpus 500m
  aileron render task.yaml --pod-template base.yaml --pod-template gpu.yaml
  kubectl get taskaction my-run-a0 -o yaml | aileron render -";

const EXPLAIN_EXAMPLES: &str = "\
FILE and the options are those of `aileron render`.

For each field: its value, the layer that set it, what the value goes back to (task, action, PodTemplate, or \
configuration key with file and line), and in LOST the layers whose value does not stand.

Examples:
  aileron explain task.yaml --config config.yaml
  aileron explain task.yaml --field spec.tolerations
  aileron explain task.yaml --field 'spec.containers[0].resources' -o json";

/// Flyte's task executor: turns TaskActions into Kubernetes objects and follows them to their end.
#[derive(Debug, Parser)]
#[command(name = "aileron", version, after_help = EXAMPLES, max_term_width = 110)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the executor until it is told to stop
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArguments),
    /// Run a whole cluster in this process: API server, node, operators and executor
    #[command(after_help = SANDBOX_EXAMPLES)]
    Sandbox(SandboxArguments),
    /// Run the example tasks in a sandbox of their own, and check how they end
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(DemoArguments),
    /// Hand a task to a cluster or to the sandbox, and follow it to its end
    #[command(after_help = SUBMIT_EXAMPLES)]
    Submit(Box<SubmitArguments>),
    /// List actions, or watch them
    #[command(after_help = GET_EXAMPLES)]
    Get(GetArguments),
    /// Show everything about an action
    #[command(after_help = DESCRIBE_EXAMPLES)]
    Describe(DescribeArguments),
    /// Print what the containers of an action write
    #[command(after_help = LOGS_EXAMPLES)]
    Logs(LogsArguments),
    /// Stop actions
    #[command(after_help = ABORT_EXAMPLES)]
    Abort(AbortArguments),
    /// Read and write files of inputs, outputs and errors
    #[command(after_help = IO_EXAMPLES)]
    Io {
        #[command(subcommand)]
        command: IoCommand,
    },
    /// Check, explain and show the configuration
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// List the plugins, what they run, and whether the cluster is ready for them
    #[command(after_help = PLUGINS_EXAMPLES)]
    Plugins(ListArguments),
    /// List the pools of tokens, who holds one, and who waits for one
    #[command(after_help = POOLS_EXAMPLES)]
    Pools(ListArguments),
    /// Print the object that the executor would create for a task, without a cluster
    #[command(after_help = RENDER_EXAMPLES)]
    Render(RenderArguments),
    /// Print for each field of that object who set it, from where, and who lost
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArguments),
    /// Print the definition of TaskAction for the API server
    Crd {
        /// Format
        #[arg(short, long, value_enum, default_value_t)]
        output: Document,
    },
    /// Print the version
    Version {
        /// Format
        #[arg(short, long, value_enum, default_value_t)]
        output: Report,
    },
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Tell everything that is wrong with the configuration; exit code 2 if anything is
    #[command(after_help = CHECK_EXAMPLES)]
    Check(ConfigArguments),
    /// Print the JSON Schema of a configuration file, for editors
    Schema,
    /// Print a configuration file with every key, its meaning and its default
    Example,
    /// Print the reference of all keys as Markdown
    Reference,
    /// Print the configuration in effect, and where each value came from
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        #[command(flatten)]
        config: ConfigArguments,
        /// Show keys that nobody has set, too
        #[arg(long)]
        all: bool,
        /// Format
        #[arg(short, long, value_enum, default_value_t)]
        output: Document,
    },
}

/// How to run the executor.
#[derive(Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub config: ConfigArguments,
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// What is logged, instead of `logger.level`: error, warn, info, debug, trace, or a filter such as
    /// `info,kube=debug`
    #[arg(long, value_name = "LEVEL", env = "RUST_LOG", hide_env_values = true)]
    pub log_level: Option<String>,
    /// How a log record looks, instead of `logger.formatter.type`; on a terminal `text`, unless somebody has set it
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
    /// Threads that work; more help only when thousands of tasks change at once
    #[arg(long, value_name = "N", env = "AILERON_WORKER_THREADS", hide_env_values = true, default_value_t = 2,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub worker_threads: u16,
}

/// How to list what the configuration and the cluster say together.
#[derive(Debug, Args)]
pub struct ListArguments {
    #[command(flatten)]
    pub config: ConfigArguments,
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// Format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Listing,
}

/// Which task, and what it meets.
#[derive(Debug, Args)]
pub struct TaskArguments {
    /// The task; `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub config: ConfigArguments,
    /// Namespace of the task, instead of the one in the file
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Task type, instead of the one in the file; it decides which plugin works
    #[arg(long, value_name = "TYPE")]
    pub task_type: Option<String>,
    /// A PodTemplate of the cluster; may be given several times
    #[arg(long = "pod-template", value_name = "FILE")]
    pub pod_templates: Vec<PathBuf>,
    /// The task's inputs: a literal map, as binary message, JSON or YAML
    #[arg(long, value_name = "FILE")]
    pub inputs: Option<PathBuf>,
    /// Namespace of the executor, whose PodTemplates serve all namespaces
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", hide_env_values = true, default_value = "flyte")]
    pub executor_namespace: String,
}

/// How to show an object.
#[derive(Debug, Args)]
pub struct RenderArguments {
    #[command(flatten)]
    pub task: TaskArguments,
    /// Format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Document,
}

/// How to explain an object.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    #[command(flatten)]
    pub task: TaskArguments,
    /// Only this field, or the fields inside it
    #[arg(long, value_name = "PATH")]
    pub field: Option<String>,
    /// Format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Explained,
}

/// Which files count.
#[derive(Debug, Args)]
pub struct ConfigArguments {
    /// Configuration files or patterns such as '/etc/flyte/config/*.yaml'; a later file wins
    #[arg(long = "config", value_name = "FILE|GLOB", num_args = 1..)]
    pub files: Vec<String>,
}

/// Which cluster.
#[derive(Debug, Args)]
pub struct ClusterArguments {
    /// Kubeconfig file
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig file, instead of its current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// How a document is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// YAML
    #[default]
    Yaml,
    /// JSON
    Json,
}

/// How a short answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Report {
    /// One line
    #[default]
    Text,
    /// JSON
    Json,
}

/// How an explanation is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Explained {
    /// A table
    #[default]
    Text,
    /// JSON, with everything that the table leaves out
    Json,
}

/// How a list is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Listing {
    /// A table
    #[default]
    Table,
    /// A table with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Names alone, one on a line
    Name,
}

/// How log records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line
    Json,
    /// For people
    Text,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
