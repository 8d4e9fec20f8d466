//! `aileron sandbox`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::arguments::SandboxArguments;
use crate::failure::Failure;
use crate::sandbox::state::{State, StateDir};
use crate::sandbox::{self, ConfigSources, Place, Records, Sandbox, SandboxOptions};
use crate::signals::Stop;
use crate::{output, runtime};

pub fn run(arguments: &SandboxArguments, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    let options = SandboxOptions {
        place: arguments.persist.clone().map_or(Place::Temporary, Place::Persistent),
        port: arguments.port,
        config: ConfigSources::new(&arguments.config, overrides),
        records: if arguments.verbose { Records::Screen } else { Records::File },
        log_level: arguments.log_level.clone(),
        ..SandboxOptions::default()
    };
    runtime::start()?.block_on(work(options.with_node(&arguments.node)?))
}

async fn work(options: SandboxOptions) -> Result<(), Failure> {
    let places = StateDir::of(|name| std::env::var_os(name).map(PathBuf::from));
    let Some(place) = places.first() else {
        return Err(Failure::Usage(
            "no place for the state of the sandbox: set HOME, XDG_STATE_HOME or XDG_RUNTIME_DIR".into(),
        ));
    };
    let (claim, left) = place.claim().map_err(anyhow::Error::new)?;
    if let Some(left) = left {
        let cleaned = sandbox::clean(&left);
        output::note(&format!(
            "the last sandbox (process {}) did not end in good order; cleaned up after it",
            left.pid
        ));
        if let Err(error) = cleaned {
            output::warn(&format!("cannot remove {}: {error}", left.dir.display()));
        }
    }
    // Before anything is started, so that a signal that comes early does not leave anything behind.
    let mut stop = Stop::new()?;
    let mut sandbox = tokio::select! {
        sandbox = Sandbox::start(options) => sandbox?,
        _ = stop.asked() => return Ok(()),
    };
    let state = sandbox.state();
    claim.publish(&state).context("cannot let other commands know of the sandbox")?;
    output::print(&welcome(&state, sandbox.size(), sandbox.log()))?;
    let broken = tokio::select! {
        asked = stop.asked() => {
            output::note(&format!("\n{}: stopping; a second signal stops at once", asked.name));
            None
        }
        error = sandbox.broken() => Some(error),
    };
    stop.at_once();
    // Nobody should find it while it ends.
    drop(claim);
    let stopped = sandbox.stop().await;
    match broken {
        Some(error) => Err(error.into()),
        None => Ok(stopped?),
    }
}

fn welcome(state: &State, size: &str, log: Option<&Path>) -> String {
    let State { server, dir, kubeconfig, temporary, .. } = state;
    let kept = if *temporary { "removed at the end" } else { "kept" };
    let mut text = String::new();
    let (dir, kubeconfig) = (dir.display(), kubeconfig.display());
    let log = log.map_or_else(|| "the error stream, here".to_owned(), |log| log.display().to_string());
    let _ = write!(
        text,
        "A sandbox is running: a Kubernetes API at {server}, one node ({size}),
simulated operators, and the executor. Pods are processes of this machine and end with the sandbox.

  files        {dir} ({kept})
  log          {log}
  kubeconfig   {kubeconfig}

In another terminal:

  aileron submit examples/tasks/hello.yaml --follow
  aileron get -w
  export KUBECONFIG={kubeconfig}
  kubectl get taskactions,pods

Ctrl-C ends it.
"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_file_is_named_only_if_there_is_one() {
        let state = State::example();
        let text = welcome(&state, "1 CPU", Some(Path::new("/s/executor.log")));
        assert!(text.contains("  log          /s/executor.log\n"), "{text}");
        let text = welcome(&state, "1 CPU", None);
        assert!(text.contains("  log          the error stream, here\n") && !text.contains("executor.log"), "{text}");
    }
}
