//! The arguments of `aileron sandbox` and `aileron demo`.

use std::path::PathBuf;

use clap::Args;

use super::configuration::ConfigArguments;

pub const SANDBOX_EXAMPLES: &str = "\
The sandbox is a cluster inside this process: a Kubernetes API server in memory, a node whose pods are processes on this \
machine, simulated operators (Spark, Ray, Dask, Kubeflow, JobSet), and the executor. It needs neither Docker nor root \
permissions. Pods are not isolated from this machine: run only programs that you would start yourself.

Examples:
  aileron sandbox                              everything is removed at the end
  aileron sandbox --persist ~/sandbox          keep objects and files for the next start
  aileron sandbox --python .venv/bin/python    the Python for tasks
  aileron sandbox --image team/etl:1=./etl     the directory that replaces an image
  aileron sandbox --cpu 2 --gpu 1              the size of the node
  aileron sandbox --executor.gc.maxTTL 10m     any configuration key of the executor
  aileron sandbox --crd kettles.yaml           a kind of your own, for an operator of your own
  aileron sandbox --operator kettle-rules.yaml a kind of your own, with a simulated operator

Then, in another terminal:
  aileron submit examples/tasks/hello.yaml --follow
  aileron get -w
  export KUBECONFIG=<path that the sandbox prints>; kubectl get taskactions,pods";

pub const DEMO_EXAMPLES: &str = "\
Starts a temporary sandbox, submits the tasks, shows their progress, and compares how each task ends with the `expect` of \
its file. The exit code is 0 only if all tasks end as their files expect.

Examples:
  aileron demo                         the examples that are built into the program
  aileron demo examples/tasks          every task file of a directory
  aileron demo hello.yaml my-own.yaml  these files";

/// The node of a sandbox.
#[derive(Clone, Debug, Default, Args)]
pub struct NodeArguments {
    /// Directory of programs, or virtualenv, that replaces an image; may be given several times
    #[arg(long = "image", value_name = "NAME=PATH")]
    pub images: Vec<String>,
    /// Python interpreter or virtualenv for tasks; its directory is put first on their PATH. Without it tasks use the
    /// PATH of this process
    #[arg(long, value_name = "PATH")]
    pub python: Option<PathBuf>,
    /// CPUs of the node, such as 4 or 500m, instead of those of this machine
    #[arg(long, value_name = "QUANTITY")]
    pub cpu: Option<String>,
    /// Memory of the node, such as 8Gi, instead of that of this machine
    #[arg(long, value_name = "QUANTITY")]
    pub memory: Option<String>,
    /// GPUs of the node (nvidia.com/gpu). They are counted for scheduling, but no device is used
    #[arg(long, value_name = "N")]
    pub gpu: Option<u32>,
}

/// The kinds of a sandbox beside the built-in ones.
#[derive(Clone, Debug, Default, Args)]
pub struct KindArguments {
    /// File with CustomResourceDefinitions of your own; may be given several times
    #[arg(long = "crd", value_name = "FILE")]
    pub definitions: Vec<PathBuf>,
    /// Rule file of a simulated operator of your own; may be given several times. It replaces the built-in operator of the
    /// same kind, and installs the kind unless --crd does
    #[arg(long = "operator", value_name = "FILE")]
    pub operators: Vec<PathBuf>,
}

/// How to run a sandbox.
#[derive(Debug, Args)]
pub struct SandboxArguments {
    /// Keep objects, files, port and token of the sandbox in this directory. Without it everything is removed at the end
    #[arg(long, value_name = "DIR")]
    pub persist: Option<PathBuf>,
    /// Port of the API server on 127.0.0.1. Without it the port of the previous start (with --persist), or a free port
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    #[command(flatten)]
    pub node: NodeArguments,
    #[command(flatten)]
    pub kinds: KindArguments,
    #[command(flatten)]
    pub config: ConfigArguments,
    /// Write log records to the error stream, instead of a file in the sandbox's directory
    #[arg(short, long)]
    pub verbose: bool,
    /// Which log records are written: error, warn, info, debug, trace, or a filter such as `info,kube=debug`
    #[arg(long, value_name = "LEVEL", env = "RUST_LOG", hide_env_values = true)]
    pub log_level: Option<String>,
}

/// Which tasks to demonstrate.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// Task files, or directories of them. Without any, the examples that are built into the program
    #[arg(value_name = "DIR|FILE")]
    pub tasks: Vec<PathBuf>,
    #[command(flatten)]
    pub node: NodeArguments,
    #[command(flatten)]
    pub kinds: KindArguments,
    #[command(flatten)]
    pub config: ConfigArguments,
    /// Write log records to the error stream
    #[arg(short, long)]
    pub verbose: bool,
}
