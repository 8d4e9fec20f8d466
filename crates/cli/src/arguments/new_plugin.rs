//! The arguments of `aileron new-plugin`.

use std::path::PathBuf;

use clap::Args;

pub const NEW_PLUGIN_EXAMPLES: &str = "\
Writes a complete task type that works at once: the plugin in Rust with an executor around it, the message of its settings, a \
Python package for the SDK, a small operator, its deployment, a demo and tests. Comments `TODO(plugin):` mark the places to \
change, in order.

Examples:
  aileron new-plugin kettle --kind Kettle.kitchen.example.org/v1
  aileron new-plugin mouse --kind Mouse.lab.example.org/v1alpha1 --plural mice --directory mouse-plugin

Then, in the new directory:
  make demo    run a task of the new type on this machine
  make test    all checks, in Rust and Python";

/// The names of the new plugin.
#[derive(Debug, Args)]
pub struct NewPluginArguments {
    /// Name of the plugin, which is also its task type, in lower-case words: kettle, tea-kettle
    pub name: String,
    /// Kind of the objects that the plugin makes
    #[arg(long, value_name = "Kind.group/version")]
    pub kind: String,
    /// Plural of the kind in lower case, instead of the usual English one
    #[arg(long, value_name = "WORD")]
    pub plural: Option<String>,
    /// A checkout of Aileron's repository, for the crates that the plugin uses. Without it the one that this program was built in;
    /// released programs have none
    #[arg(long, value_name = "DIR")]
    pub repository: Option<PathBuf>,
    /// Directory to write. Without it a new one in the current directory, named after the plugin
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
}
