//! The command line.
//!
//! Help texts are written for the binary `aileron`. [`command_line`] replaces that name by the name of the program that
//! runs, which may be the binary of a plugin author.

mod actions;
pub mod config_flags;
mod configuration;
mod doctor;
mod format;
mod new_plugin;
mod run;
mod sandbox;
mod submit;
mod task;

use clap::{CommandFactory, Parser, Subcommand};

use actions::{ABORT_EXAMPLES, DESCRIBE_EXAMPLES, GET_EXAMPLES, LOGS_EXAMPLES};
pub use actions::{AbortArguments, ConnectionArguments, DescribeArguments, GetArguments, LogsArguments};
pub use configuration::{ConfigArguments, ConfigCommand};
use doctor::DOCTOR_EXAMPLES;
pub use doctor::DoctorArguments;
pub use format::{
    DescriptionFormat, DocumentFormat, ExplainFormat, ListFormat, LogFormat, ReportFormat, SubmitFormat, VersionFormat,
};
use new_plugin::NEW_PLUGIN_EXAMPLES;
pub use new_plugin::NewPluginArguments;
pub use run::{ClusterArguments, ListArguments, RunArguments};
use run::{PLUGINS_EXAMPLES, POOLS_EXAMPLES, RUN_EXAMPLES};
use sandbox::{DEMO_EXAMPLES, SANDBOX_EXAMPLES};
pub use sandbox::{DemoArguments, KindArguments, NodeArguments, SandboxArguments};
use submit::{IO_EXAMPLES, SUBMIT_EXAMPLES};
pub use submit::{IoCommand, SubmitArguments};
use task::{EXPLAIN_EXAMPLES, RENDER_EXAMPLES};
pub use task::{ExplainArguments, RenderArguments, TaskArguments};

/// The name of the binary in help texts.
pub const DEFAULT_NAME: &str = "aileron";

const EXAMPLES: &str = "\
To try it on this machine, without a cluster:
  aileron demo                         run the example tasks and check how they end
  aileron sandbox                      start a cluster inside this process
  aileron submit task.yaml --follow    run a task and print its outputs
  aileron get -w                       list the actions and watch their changes

To run it in a cluster:
  aileron crd | kubectl apply -f -     install the TaskAction definition
  aileron config example > c.yaml      write a file with every configuration key
  aileron config check --config c.yaml report all mistakes with file and line
  aileron doctor --config c.yaml       check cluster, permissions, storage and services
  aileron run --config c.yaml          run the executor

To understand it:
  aileron render task.yaml             print the object that a task becomes
  aileron explain task.yaml            show where each field of the object comes from
  aileron plugins                      show which plugin runs which task type
  aileron pools                        show which tasks hold or wait for tokens

To add a task type of your own:
  aileron new-plugin kettle --kind Kettle.kitchen.example.org/v1

Every configuration key can be given as a flag: --section.key VALUE.
Exit codes: 0 success, 1 failure, 2 wrong command line or configuration, 128 + N stopped by signal N.";

/// Flyte's task executor: creates Kubernetes objects for TaskActions and follows them to their end.
#[derive(Debug, Parser)]
#[command(name = DEFAULT_NAME, version, after_help = EXAMPLES, max_term_width = 110)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the executor until it receives SIGTERM or SIGINT
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArguments),
    /// Run a cluster inside this process: API server, node, operators and executor
    #[command(after_help = SANDBOX_EXAMPLES)]
    Sandbox(SandboxArguments),
    /// Run the example tasks in a temporary sandbox, and check how they end
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(DemoArguments),
    /// Submit a task to a cluster or to the sandbox, and optionally follow it to its end
    #[command(after_help = SUBMIT_EXAMPLES)]
    Submit(Box<SubmitArguments>),
    /// List actions, or watch them
    #[command(after_help = GET_EXAMPLES)]
    Get(GetArguments),
    /// Show everything that is known about an action
    #[command(after_help = DESCRIBE_EXAMPLES)]
    Describe(DescribeArguments),
    /// Print the logs of an action's containers
    #[command(after_help = LOGS_EXAMPLES)]
    Logs(LogsArguments),
    /// Abort actions
    #[command(after_help = ABORT_EXAMPLES)]
    Abort(AbortArguments),
    /// Read and write files of inputs, outputs and errors
    #[command(after_help = IO_EXAMPLES)]
    Io {
        #[command(subcommand)]
        command: IoCommand,
    },
    /// Check, document and show the configuration
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Check the installation: cluster, permissions, storage, services, lease, webhooks
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArguments),
    /// List the plugins, their task types, and whether the cluster serves their kinds
    #[command(after_help = PLUGINS_EXAMPLES)]
    Plugins(ListArguments),
    /// List the token pools, and the tasks that hold or wait for a token
    #[command(after_help = POOLS_EXAMPLES)]
    Pools(ListArguments),
    /// Print the object that the executor would create for a task, without a cluster
    #[command(after_help = RENDER_EXAMPLES)]
    Render(RenderArguments),
    /// Print for each field of that object what set it, where the value comes from, and what was overridden
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArguments),
    /// Write a new plugin with its own kind: a copy of the plugin template that builds, passes its tests and runs
    #[command(after_help = NEW_PLUGIN_EXAMPLES)]
    NewPlugin(NewPluginArguments),
    /// Print the CustomResourceDefinition of TaskAction
    Crd {
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: DocumentFormat,
    },
    /// Print the version
    Version {
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: VersionFormat,
    },
}

/// The command line of a program with this name.
///
/// `version` and `about` replace the version and the first line of the help text.
pub fn command_line(name: &str, version: Option<&str>, about: Option<&str>) -> clap::Command {
    let mut command = rename(Arguments::command(), name).name(name.to_owned()).bin_name(name);
    if let Some(version) = version {
        command = command.version(version.to_owned());
    }
    if let Some(about) = about {
        command = command.about(about.to_owned());
    }
    command
}

/// Replaces the default name in the help texts of a command and of its subcommands.
fn rename(mut command: clap::Command, name: &str) -> clap::Command {
    if name == DEFAULT_NAME {
        return command;
    }
    if let Some(text) = command.get_after_help().map(|text| text.to_string().replace(DEFAULT_NAME, name)) {
        command = command.after_help(text);
    }
    command.mut_subcommands(|subcommand| rename(subcommand, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help_texts(command: &mut clap::Command) -> String {
        let own = command.render_long_help().to_string();
        command.get_subcommands_mut().fold(own, |text, subcommand| text + &help_texts(subcommand))
    }

    #[test]
    fn the_command_line_is_consistent() {
        command_line(DEFAULT_NAME, None, None).debug_assert();
    }

    #[test]
    fn help_texts_show_the_name_of_the_program() {
        let own = help_texts(&mut command_line(DEFAULT_NAME, None, None));
        assert!(own.contains("aileron submit task.yaml --follow"), "{own}");
        let other = help_texts(&mut command_line("polite", Some("1.2.3"), Some("Runs polite tasks")));
        assert!(other.contains("polite submit task.yaml --follow") && other.contains("Runs polite tasks"), "{other}");
        assert!(!other.contains("aileron"), "{other}");
    }
}
