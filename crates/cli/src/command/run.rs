//! `aileron run`.

use std::hash::{BuildHasher, RandomState};
use std::io::{IsTerminal, stderr};

use aileron_executor::config::Loaded;
use aileron_executor::config::explain::{Selection, located};
use aileron_executor::run::{self, RunOptions};
use aileron_executor::serve::{Endpoints, Readiness, install_recorder};
use anyhow::Context;
use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::arguments::{LogFormat, RunArguments};
use crate::failure::{FAILED, Failure};
use crate::{cluster, configuration, logs};

/// Where the executor lives if `POD_NAMESPACE` does not say.
const NAMESPACE: &str = "flyte";

pub fn run(arguments: &RunArguments, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    let loaded = configuration::load(&arguments.config, overrides)?;
    logs::start(&loaded.config.logger, arguments.log_level.as_deref(), log_format(arguments, &loaded))?;
    for warning in &loaded.warnings {
        tracing::warn!(key = warning.path, origin = %warning.origin, "{}", warning.message);
    }
    // An executor waits far more than it computes, and every thread costs memory of its own.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(usize::from(arguments.worker_threads))
        .thread_name("aileron")
        .enable_all()
        .build()
        .context("cannot start threads")?;
    runtime.block_on(work(arguments, loaded)).map_err(|error| {
        let failure = Failure::Failed(error);
        // From here on the error stream is for records only: whoever reads them could not read anything else.
        tracing::error!("{failure}");
        Failure::Told(FAILED)
    })
}

/// How log records are written, if the configuration is not to decide: JSON is for programs, so a person at a terminal
/// gets text as long as nobody asked for anything.
fn log_format(arguments: &RunArguments, loaded: &Loaded) -> Option<LogFormat> {
    let configured = || match located(loaded, Selection::Set) {
        Value::Array(rows) => rows.iter().any(|row| row["key"] == "logger.formatter.type"),
        _ => false,
    };
    arguments.log_format.or_else(|| (stderr().is_terminal() && !configured()).then_some(LogFormat::Text))
}

async fn work(arguments: &RunArguments, loaded: Loaded) -> anyhow::Result<()> {
    let config = loaded.config;
    // Before anything slow: a signal that comes early must not kill the process half way.
    let stop = CancellationToken::new();
    tokio::spawn(follow_signals(stop.clone(), signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?));
    let recorded = install_recorder()?;
    let client = cluster::connect_executor(&arguments.cluster).await?;
    let readiness = Readiness::new();
    let endpoints = Endpoints::bind(&config.executor, readiness.clone(), recorded, client.clone()).await?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        health = endpoints.health_address().map(tracing::field::display),
        metrics = endpoints.metrics_address().map(tracing::field::display),
        "started"
    );
    // Probes are answered until all else has ended, or the kubelet would kill what is ending in good order.
    let stop_endpoints = CancellationToken::new();
    let answering = tokio::spawn(endpoints.run(stop_endpoints.clone()));
    let options = RunOptions {
        plugins: aileron_plugins::builtin().build(&config.plugins.section_values()).context("plugins")?,
        config,
        client,
        namespace: variable("POD_NAMESPACE").unwrap_or_else(|| NAMESPACE.to_owned()),
        identity: identity(),
        readiness,
    };
    let result = run::run(options, stop).await;
    stop_endpoints.cancel();
    answering.await.context("the servers broke")?;
    tracing::info!("stopped");
    Ok(result?)
}

/// The first signal ends the work in good order, the second the process.
async fn follow_signals(stop: CancellationToken, mut terminate: Signal, mut interrupt: Signal) {
    let mut next = async || {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    };
    let name = next().await;
    tracing::info!(signal = name, "stopping; a second signal stops at once");
    stop.cancel();
    let name = next().await;
    tracing::warn!(signal = name, "stopped at once");
    std::process::exit(1);
}

/// A name that no other process has, not even an earlier one in the same pod.
fn identity() -> String {
    let host = variable("POD_NAME").or_else(|| variable("HOSTNAME")).unwrap_or_else(|| "aileron".to_owned());
    // Hash keys are random in every process, which is all the randomness a name needs.
    format!("{host}_{:016x}", RandomState::new().hash_one(std::process::id()))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
