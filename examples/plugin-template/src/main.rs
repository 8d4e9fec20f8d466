//! An executor with all built-in plugins and this one.

use std::process::ExitCode;

use aileron_plugin_batch::BatchPlugin;

fn main() -> ExitCode {
    aileron::Program::new().with_section(BatchPlugin::new).main()
}
