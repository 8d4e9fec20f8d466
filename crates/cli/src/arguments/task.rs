//! The arguments of `aileron render` and `aileron explain`.

use std::path::PathBuf;

use clap::Args;

use super::configuration::ConfigArguments;
use super::format::{DocumentFormat, ExplainFormat};

pub const RENDER_EXAMPLES: &str = "\
FILE is one of: a task file (docs/tasks.md); a TaskAction as YAML or JSON, with spec.taskTemplate in base64 or written \
out; a task template as binary protobuf message, as JSON or as YAML. For a task template alone, placeholder names stand \
for those of a run.

Examples:
  aileron render task.yaml --config config.yaml
  aileron render task.pb --namespace team-a --plugins.k8s.default-cpus 500m
  aileron render task.yaml --pod-template base.yaml --pod-template gpu.yaml
  kubectl get taskaction my-run-a0 -o yaml | aileron render -";

pub const EXPLAIN_EXAMPLES: &str = "\
FILE and the options are those of `aileron render`.

For each field the table shows: its value; the layer of pod building that set it; its source (task, action, PodTemplate, or \
configuration key with file and line); and under LOST the layers whose value was overridden.

Examples:
  aileron explain task.yaml --config config.yaml
  aileron explain task.yaml --field spec.tolerations
  aileron explain task.yaml --field 'spec.containers[0].resources' -o json";

/// The task, and everything else that its object depends on.
#[derive(Debug, Args)]
pub struct TaskArguments {
    /// File of the task; `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub config: ConfigArguments,
    /// Namespace of the task, instead of the one in the file
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Task type, instead of the one in the file. The executor chooses the plugin by the task type
    #[arg(long, value_name = "TYPE")]
    pub task_type: Option<String>,
    /// File of a PodTemplate that exists in the cluster; may be given several times
    #[arg(long = "pod-template", value_name = "FILE")]
    pub pod_templates: Vec<PathBuf>,
    /// File of the task's inputs: a literal map as binary message, JSON or YAML
    #[arg(long, value_name = "FILE")]
    pub inputs: Option<PathBuf>,
    /// Namespace of the executor. PodTemplates in it apply to tasks of all namespaces
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", hide_env_values = true, default_value = "flyte")]
    pub executor_namespace: String,
}

/// How to print an object.
#[derive(Debug, Args)]
pub struct RenderArguments {
    #[command(flatten)]
    pub task: TaskArguments,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: DocumentFormat,
}

/// How to explain an object.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    #[command(flatten)]
    pub task: TaskArguments,
    /// Only this field, or the fields inside it
    #[arg(long, value_name = "PATH")]
    pub field: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: ExplainFormat,
}
