//! The arguments of `aileron submit` and `aileron io`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::actions::ConnectionArguments;
use super::configuration::ConfigArguments;
use super::format::{DocumentFormat, SubmitFormat};

pub const SUBMIT_EXAMPLES: &str = "\
TASK is one of: a task file (docs/tasks.md); a task template (binary, JSON or YAML); a TaskAction; or a task of a Python \
module that uses the flyte SDK, as MODULE.py:TASK.

Examples:
  aileron submit hello.yaml --follow
  aileron submit hello.yaml --input name=ada --run greeting
  aileron submit greet.py:greet -i name=ada -i x=41 --follow
  aileron submit greet.py:measure --inputs inputs.json --follow
  aileron submit task.pb --kubeconfig ~/.kube/config --storage s3://bucket/data

Without --kubeconfig and KUBECONFIG the task goes to the running sandbox. If no sandbox is running, --follow starts a \
temporary sandbox for this task. With --follow the exit code is 0 only if the task succeeds. Ctrl-C ends the output and \
not the task, except in a temporary sandbox.";

pub const IO_EXAMPLES: &str = "\
A task that is a shell program gets its inputs as arguments ({{.inputs.x}}) and writes its outputs with this command.

Examples:
  aileron io write {{.outputPrefix}} text=hello total:int=42
  aileron io write {{.outputPrefix}} 'parts:list<int>=[1, 2]'
  aileron io fail {{.outputPrefix}} --code OutOfLuck 'no luck today'
  aileron io read outputs.pb
  aileron io read s3://bucket/run/a0/1/outputs.pb -o yaml";

/// Which task to submit, where, and with which inputs.
#[derive(Debug, Args)]
pub struct SubmitArguments {
    /// A file, or a task of a Python module as MODULE.py:TASK; `-` for standard input
    #[arg(value_name = "TASK")]
    pub task: String,
    /// Value of an input; lists, maps and other structured values as JSON; may be given several times
    #[arg(short, long = "input", value_name = "NAME=VALUE")]
    pub inputs: Vec<String>,
    /// File with values of inputs: {"name": value} as JSON or YAML, or a literal map as binary message, JSON or YAML
    #[arg(long = "inputs", value_name = "FILE")]
    pub inputs_file: Option<PathBuf>,
    /// Follow the task to its end, and print its outputs or its error
    #[arg(short, long)]
    pub follow: bool,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    /// Name of the run, instead of a generated name
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// Name of the TaskAction, instead of the name of the run with `-a0`
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Project of the run, instead of the one in the file
    #[arg(long, value_name = "NAME")]
    pub project: Option<String>,
    /// Domain of the run, instead of the one in the file
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
    /// Number of retries after a failure, instead of the one in the task
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// Python interpreter or virtualenv with the flyte SDK. Without it that of VIRTUAL_ENV, else python3 on PATH
    #[arg(long, value_name = "PATH")]
    pub python: Option<PathBuf>,
    /// Directory or virtualenv that replaces an image, in the temporary sandbox for this task
    #[arg(long = "image", value_name = "NAME=PATH")]
    pub images: Vec<String>,
    /// Where inputs and outputs are stored, such as s3://bucket/prefix. Without it the storage of --config. A sandbox has
    /// its own storage
    #[arg(long, value_name = "URI")]
    pub storage: Option<String>,
    #[command(flatten)]
    pub config: ConfigArguments,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: SubmitFormat,
}

/// What to do with files of inputs and outputs.
#[derive(Debug, Subcommand)]
pub enum IoCommand {
    /// Print inputs, outputs or an error document
    Read {
        /// A file, a storage reference, or the output prefix of a task
        #[arg(value_name = "FILE|URI")]
        from: String,
        /// Output format
        #[arg(short, long, value_enum, default_value_t = DocumentFormat::Json)]
        output: DocumentFormat,
    },
    /// Write the outputs of a task
    Write {
        /// Where outputs are written: `{{.outputPrefix}}` of the task
        #[arg(value_name = "PREFIX")]
        prefix: String,
        /// Outputs; the default type is string. Types: string, int, float, bool, datetime, duration, json, file,
        /// directory, list<type>, map<type>
        #[arg(value_name = "NAME[:TYPE]=VALUE")]
        values: Vec<String>,
    },
    /// Write the error document of a task; the task then fails, whatever its exit code is
    Fail {
        /// Where outputs are written: `{{.outputPrefix}}` of the task
        #[arg(value_name = "PREFIX")]
        prefix: String,
        /// Error message for people
        #[arg(value_name = "MESSAGE")]
        message: String,
        /// Error code: one word that stays the same for this kind of error
        #[arg(long, value_name = "CODE", default_value = "UserError")]
        code: String,
        /// The error is permanent: the executor makes no further attempt
        #[arg(long)]
        for_good: bool,
    },
}
