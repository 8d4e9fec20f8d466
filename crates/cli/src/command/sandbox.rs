//! `aileron sandbox`: runs a sandbox until a signal stops it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::arguments::SandboxArguments;
use crate::display::output;
use crate::failure::Failure;
use crate::process::signals::SignalReceiver;
use crate::process::threads::start_runtime;
use crate::program::Program;
use crate::sandbox::registration::{RunningSandbox, StateDir};
use crate::sandbox::{self, DirectoryChoice, ExecutorConfig, LogTarget, Sandbox, SandboxOptions};

pub fn run(program: &Program, arguments: &SandboxArguments, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    let options = SandboxOptions {
        directory: arguments.persist.clone().map_or(DirectoryChoice::Temporary, DirectoryChoice::Persistent),
        port: arguments.port,
        config: ExecutorConfig::new(&arguments.config, overrides),
        log: if arguments.verbose { LogTarget::Stderr } else { LogTarget::File },
        log_level: arguments.log_level.clone(),
        ..SandboxOptions::default()
    };
    let options = options.with_node(&arguments.node)?.with_kinds(&arguments.kinds)?;
    start_runtime()?.block_on(run_sandbox(program, options))
}

async fn run_sandbox(program: &Program, options: SandboxOptions) -> Result<(), Failure> {
    let directories = StateDir::candidates(|name| std::env::var_os(name).map(PathBuf::from));
    let Some(state_dir) = directories.first() else {
        return Err(Failure::Usage(
            "no directory for the state of the sandbox: set HOME, XDG_STATE_HOME or XDG_RUNTIME_DIR".into(),
        ));
    };
    let (lock, left) = state_dir.lock().map_err(anyhow::Error::new)?;
    if let Some(left) = left {
        let removed = sandbox::remove_left_behind(&left);
        output::note(&format!(
            "the previous sandbox (process {}) was killed; its temporary files are removed",
            left.pid
        ));
        if let Err(error) = removed {
            output::warn(&format!("cannot remove {}: {error}", left.dir.display()));
        }
    }
    // Receive signals before anything is started, so that an early signal leaves no process or file behind.
    let mut signals = SignalReceiver::new()?;
    let mut sandbox = tokio::select! {
        sandbox = Sandbox::start(program, options) => sandbox?,
        _ = signals.receive() => return Ok(()),
    };
    let registration = sandbox.registration();
    lock.publish(&registration).context("cannot write the state file of the sandbox")?;
    output::print(&welcome(program.name(), &registration, sandbox.size(), sandbox.log()))?;
    let failure = tokio::select! {
        stop = signals.receive() => {
            output::note(&format!("\n{}: stopping; a second signal stops at once", stop.name));
            None
        }
        error = sandbox.failed() => Some(error),
    };
    signals.exit_on_next();
    // Other commands must not find the sandbox while it stops.
    drop(lock);
    let stopped = sandbox.stop().await;
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(stopped?),
    }
}

fn welcome(program: &str, sandbox: &RunningSandbox, size: &str, log: Option<&Path>) -> String {
    let RunningSandbox { server, dir, kubeconfig, temporary, .. } = sandbox;
    let kept = if *temporary { "removed at the end" } else { "kept" };
    let mut text = String::new();
    let (dir, kubeconfig) = (dir.display(), kubeconfig.display());
    let log = log.map_or_else(|| "this error stream".to_owned(), |log| log.display().to_string());
    let _ = write!(
        text,
        "A sandbox is running: a Kubernetes API at {server}, one node ({size}),
simulated operators, and the executor. Pods are processes on this machine and end with the sandbox.

  files        {dir} ({kept})
  log          {log}
  kubeconfig   {kubeconfig}

In another terminal:

  {program} submit examples/tasks/hello.yaml --follow
  {program} get -w
  export KUBECONFIG={kubeconfig}
  kubectl get taskactions,pods

Ctrl-C stops the sandbox.
"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_welcome_shows_the_log_file_and_the_name_of_the_program() {
        let sandbox = RunningSandbox::example();
        let text = welcome("polite", &sandbox, "1 CPU", Some(Path::new("/s/executor.log")));
        assert!(text.contains("  log          /s/executor.log\n"), "{text}");
        assert!(text.contains("\n  polite get -w\n") && !text.contains("aileron"), "{text}");
        let text = welcome("polite", &sandbox, "1 CPU", None);
        assert!(text.contains("  log          this error stream\n") && !text.contains("executor.log"), "{text}");
    }
}
