//! An executor with all built-in plugins and the plugin for batch jobs.

use std::process::ExitCode;

use aileron_example_batch_job::BatchJobPlugin;

fn main() -> ExitCode {
    aileron::Program::new().with_section(BatchJobPlugin::new).main()
}
