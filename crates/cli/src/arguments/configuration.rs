//! The arguments of `aileron config`.

use clap::{Args, Subcommand};

use super::format::DocumentFormat;

const CHECK_EXAMPLES: &str = "\
Examples:
  aileron config check --config '/etc/flyte/config/*.yaml'
  aileron config check --config config.yaml --executor.gc.interval 5m
  aileron config check --config config.yaml --strict";

const SHOW_EXAMPLES: &str = "\
Examples:
  aileron config show --config config.yaml        only the keys that are set
  aileron config show --config config.yaml --all  all keys, with their defaults
  aileron config show -o json                     for other programs";

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Report all mistakes in the configuration; the exit code is 2 if there is one
    ///
    /// It refuses exactly what `run` refuses before it connects to the cluster. Files that the configuration names, such
    /// as certificates, are read.
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        #[command(flatten)]
        config: ConfigArguments,
        /// Also refuse sections that neither this executor nor another part of Flyte has, and rules that name a plugin of
        /// Flyte that does not exist here
        #[arg(long)]
        strict: bool,
    },
    /// Print the JSON Schema of a configuration file, for editors
    Schema,
    /// Print a configuration file with every key, its meaning and its default
    Example,
    /// Print the reference of all keys as Markdown
    Reference,
    /// Print the effective configuration, and where each value comes from
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        #[command(flatten)]
        config: ConfigArguments,
        /// Also show keys that are not set, with their defaults
        #[arg(long)]
        all: bool,
        /// Also show credentials, such as the keys of the object store; without it they are hidden
        #[arg(long)]
        show_secrets: bool,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: DocumentFormat,
    },
}

/// The configuration files.
#[derive(Debug, Args)]
pub struct ConfigArguments {
    /// Configuration files, or patterns such as '/etc/flyte/config/*.yaml'. Where two files set the same key, the later
    /// file wins
    #[arg(long = "config", value_name = "FILE|GLOB", num_args = 1..)]
    pub files: Vec<String>,
}
