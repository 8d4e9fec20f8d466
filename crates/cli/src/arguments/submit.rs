//! The arguments of `aileron submit` and `aileron io`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::actions::ConnectionArguments;
use super::{ConfigArguments, Document};

pub const SUBMIT_EXAMPLES: &str = "\
TASK is a task file for people (docs/tasks.md), a task template (binary, JSON or YAML), a TaskAction, or a task of a \
Python module that uses the flyte SDK: MODULE.py:TASK.

Examples:
  aileron submit hello.yaml --follow
  aileron submit hello.yaml --input name=ada --run greeting
  aileron submit greet.py:greet -i name=ada -i x=41 --follow
  aileron submit greet.py:measure --inputs inputs.json --follow
  aileron submit task.pb --kubeconfig ~/.kube/config --storage s3://bucket/data

Without --kubeconfig and KUBECONFIG the task goes to the sandbox that runs; without one, --follow starts a sandbox for \
this one task, which ends with it. With --follow the exit code is 0 only if the task succeeded; Ctrl-C ends the looking \
and not the task, unless the sandbox is its own.";

pub const IO_EXAMPLES: &str = "\
Tasks that are programs of the shell read their inputs as arguments ({{.inputs.x}}) and write their outputs with this.

Examples:
  aileron io write {{.outputPrefix}} text=hello total:int=42
  aileron io write {{.outputPrefix}} 'parts:list<int>=[1, 2]'
  aileron io fail {{.outputPrefix}} --code OutOfLuck 'no luck today'
  aileron io read outputs.pb
  aileron io read s3://bucket/run/a0/1/outputs.pb -o yaml";

/// What to run, where, and with what.
#[derive(Debug, Args)]
pub struct SubmitArguments {
    /// A file, or a task of a Python module as MODULE.py:TASK; `-` for standard input
    #[arg(value_name = "TASK")]
    pub task: String,
    /// Value of an input; lists, maps and the like as JSON; may be given several times
    #[arg(short, long = "input", value_name = "NAME=VALUE")]
    pub inputs: Vec<String>,
    /// Values of inputs from a file: {"name": value} as JSON or YAML, or a literal map in any form
    #[arg(long = "inputs", value_name = "FILE")]
    pub inputs_file: Option<PathBuf>,
    /// Follow the task to its end and print its outputs or its error
    #[arg(short, long)]
    pub follow: bool,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    /// Name of the run; else one is made up
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// Name of the TaskAction, instead of that of the run with `-a0`
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Project of the run, instead of the one in the file
    #[arg(long, value_name = "NAME")]
    pub project: Option<String>,
    /// Domain of the run, instead of the one in the file
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
    /// How often to try again after a failure, instead of what the task says
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// Python interpreter or virtualenv for tasks of the SDK; else VIRTUAL_ENV, else python3 on PATH
    #[arg(long, value_name = "PATH")]
    pub python: Option<PathBuf>,
    /// What an image stands for in a sandbox that is started for this: a directory, or a virtualenv
    #[arg(long = "image", value_name = "NAME=PATH")]
    pub images: Vec<String>,
    /// Where inputs and outputs are kept, such as s3://bucket/prefix; else what --config says. A sandbox has its own
    #[arg(long, value_name = "URI")]
    pub storage: Option<String>,
    #[command(flatten)]
    pub config: ConfigArguments,
    /// Format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Submission,
}

/// What to do with files of inputs and outputs.
#[derive(Debug, Subcommand)]
pub enum IoCommand {
    /// Print inputs, outputs or an error document
    Read {
        /// A file, a storage reference, or the output prefix of a task
        #[arg(value_name = "FILE|URI")]
        from: String,
        /// Format
        #[arg(short, long, value_enum, default_value_t = Document::Json)]
        output: Document,
    },
    /// Write the outputs of a task
    Write {
        /// Where outputs go: `{{.outputPrefix}}` of the task
        #[arg(value_name = "PREFIX")]
        prefix: String,
        /// Outputs; without a type they are texts. Types: string, int, float, bool, datetime, duration, json, file,
        /// directory, list<type>, map<type>
        #[arg(value_name = "NAME[:TYPE]=VALUE")]
        values: Vec<String>,
    },
    /// Write the error document of a task, which makes it fail whatever its exit code is
    Fail {
        /// Where outputs go: `{{.outputPrefix}}` of the task
        #[arg(value_name = "PREFIX")]
        prefix: String,
        /// What a person reads
        #[arg(value_name = "MESSAGE")]
        message: String,
        /// A stable word for this kind of error
        #[arg(long, value_name = "CODE", default_value = "UserError")]
        code: String,
        /// Another attempt is no use
        #[arg(long)]
        for_good: bool,
    },
}

/// How what was submitted, or what became of it, is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Submission {
    /// For people
    #[default]
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Names of TaskActions alone
    Name,
}
