//! The arguments of `aileron sandbox` and `aileron demo`.

use std::path::PathBuf;

use clap::Args;

use super::ConfigArguments;

pub const SANDBOX_EXAMPLES: &str = "\
A whole cluster in this process: a Kubernetes API server in memory, a node whose pods are processes of this machine, \
simulated operators (Spark, Ray, Dask, Kubeflow, JobSet), and the executor. It needs no Docker and no rights. Pods are not \
isolated from this machine: run only what you would run yourself.

Examples:
  aileron sandbox                              nothing is left at the end
  aileron sandbox --persist ~/sandbox          all is there again next time
  aileron sandbox --python .venv/bin/python    the Python of tasks
  aileron sandbox --image team/etl:1=./etl     what an image stands for
  aileron sandbox --cpu 2 --gpu 1              a node of that size
  aileron sandbox --executor.gc.maxTTL 10m     any key of the executor

Then, in another terminal:
  aileron submit examples/tasks/hello.yaml --follow
  aileron get -w
  export KUBECONFIG=<printed at the start>; kubectl get taskactions,pods";

pub const DEMO_EXAMPLES: &str = "\
Starts a sandbox, submits the tasks, shows their progress, and compares each end with the `expect` of its file. The exit \
code is 0 only if all ended as their files say.

Examples:
  aileron demo                         the examples in the program
  aileron demo examples/tasks          every task file of a directory
  aileron demo hello.yaml my-own.yaml  these files";

/// How large the node is and what its pods find.
#[derive(Clone, Debug, Default, Args)]
pub struct NodeArguments {
    /// What an image stands for: a directory with programs, or a virtualenv; may be given several times
    #[arg(long = "image", value_name = "NAME=PATH")]
    pub images: Vec<String>,
    /// Python of tasks, put in front of PATH; else whatever PATH has
    #[arg(long, value_name = "PATH")]
    pub python: Option<PathBuf>,
    /// CPUs of the node, such as 4 or 500m; else those of this machine
    #[arg(long, value_name = "QUANTITY")]
    pub cpu: Option<String>,
    /// Memory of the node, such as 8Gi; else that of this machine
    #[arg(long, value_name = "QUANTITY")]
    pub memory: Option<String>,
    /// GPUs of the node, as nvidia.com/gpu; they are only counted
    #[arg(long, value_name = "N")]
    pub gpu: Option<u32>,
}

/// What kind of sandbox.
#[derive(Debug, Args)]
pub struct SandboxArguments {
    /// Keep objects, files, and the port and secret of the kubeconfig in this directory; else everything is removed at
    /// the end
    #[arg(long, value_name = "DIR")]
    pub persist: Option<PathBuf>,
    /// Port of the API server on 127.0.0.1; else with --persist that of the last time, or a free one
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    #[command(flatten)]
    pub node: NodeArguments,
    #[command(flatten)]
    pub config: ConfigArguments,
    /// Log records to the error stream, instead of a file in the sandbox's directory
    #[arg(short, long)]
    pub verbose: bool,
    /// What is logged: error, warn, info, debug, trace, or a filter such as `info,kube=debug`
    #[arg(long, value_name = "LEVEL", env = "RUST_LOG", hide_env_values = true)]
    pub log_level: Option<String>,
}

/// What to show.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// Task files, or directories of them; else the examples that come with the program
    #[arg(value_name = "DIR|FILE")]
    pub tasks: Vec<PathBuf>,
    #[command(flatten)]
    pub node: NodeArguments,
    #[command(flatten)]
    pub config: ConfigArguments,
    /// Log records to the error stream
    #[arg(short, long)]
    pub verbose: bool,
}
