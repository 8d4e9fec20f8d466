//! `aileron run`: runs the executor until a signal stops it.

mod start_records;

use std::hash::{BuildHasher, RandomState};
use std::io::{IsTerminal, stderr};

use aileron_config::explain::{Selection, located};
use aileron_config::{Loaded, Secrets};
use aileron_executor::assembly::{self, RunOptions};
use aileron_executor::caches::memory::MemoryCounts;
use aileron_executor::caches::readiness::Readiness;
use aileron_executor::serve::{Endpoints, install_recorder};
use anyhow::Context;
use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::arguments::{LogFormat, RunArguments};
use crate::configuration;
use crate::connection::{kubeconfig, named_server};
use crate::failure::{EXIT_FAILED, Failure};
use crate::process::logging;
use crate::process::namespace::{executor_namespace, variable};
use crate::program::Program;

use self::start_records::Started;

pub fn run(program: &Program, arguments: &RunArguments, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    let (draft, files) = configuration::checked(program, &arguments.config, overrides, arguments.strict);
    let loaded = configuration::finish(draft)?;
    logging::start(&loaded.config.logger, arguments.log_level.as_deref(), log_format(arguments, &loaded))?;
    for note in &loaded.notes {
        tracing::info!("{note}");
    }
    for warning in &loaded.warnings {
        tracing::warn!(key = warning.path, origin = %warning.origin, "{}", warning.message);
    }
    // The executor mostly waits for the network, and every thread costs memory: the default is few threads.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(usize::from(arguments.worker_threads))
        .thread_name("aileron")
        .enable_all()
        .build()
        .context("cannot start threads")?;
    runtime.block_on(execute(program, arguments, loaded, &files)).map_err(|error| {
        let failure = Failure::Failed(error);
        // Once logging has started, the error stream contains only log records, so that a log collector can read it.
        tracing::error!("{failure}");
        Failure::AlreadyReported(EXIT_FAILED)
    })
}

/// The format of log records if the configuration does not decide it: that of the command line, else text on a terminal
/// unless `logger.formatter.type` is set.
fn log_format(arguments: &RunArguments, loaded: &Loaded) -> Option<LogFormat> {
    let configured = || match located(loaded, Selection::Set, Secrets::Hidden) {
        Value::Array(rows) => rows.iter().any(|row| row["key"] == "logger.formatter.type"),
        _ => false,
    };
    arguments.log_format.or_else(|| (stderr().is_terminal() && !configured()).then_some(LogFormat::Text))
}

async fn execute(program: &Program, arguments: &RunArguments, loaded: Loaded, files: &[String]) -> anyhow::Result<()> {
    let config = loaded.config;
    // Receive signals first: an early signal must not kill the process in the middle of its start.
    let stop = CancellationToken::new();
    tokio::spawn(stop_on_signals(stop.clone(), signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?));
    let recorded = install_recorder()?;
    let client_config = kubeconfig::client_config(&arguments.cluster).await?;
    let server = named_server::address(&client_config.cluster_url);
    let client = kubeconfig::executor_client(client_config)?;
    let readiness = Readiness::new();
    let endpoints = Endpoints::bind(&config.executor, readiness.clone(), recorded, client.clone()).await?;
    let (namespace, identity) = (executor_namespace(), identity());
    start_records::write(&Started {
        program: program.name(),
        version: program.version().unwrap_or(env!("CARGO_PKG_VERSION")),
        files,
        config: &config,
        plugins: &configuration::plugin_list(program, &config)?,
        namespace: &namespace,
        identity: &identity,
        health: endpoints.health_address().map(|address| address.to_string()),
        metrics: endpoints.metrics_address().map(|address| address.to_string()),
    });
    // The executor starts also while the API server is away.
    tokio::spawn(start_records::write_server(client.clone(), server));
    // Probes are answered until everything else has stopped. Otherwise the kubelet would kill the process during its stop.
    let stop_endpoints = CancellationToken::new();
    let answering = tokio::spawn(endpoints.run(stop_endpoints.clone()));
    let options = RunOptions {
        plugins: program.plugins(&config)?,
        config,
        client,
        namespace,
        identity,
        readiness,
        memory: MemoryCounts::default(),
    };
    let result = assembly::run(options, stop).await;
    stop_endpoints.cancel();
    answering.await.context("the servers for probes and metrics panicked")?;
    tracing::info!("stopped");
    Ok(result?)
}

/// The first signal stops the executor after its current work, the second ends the process at once.
async fn stop_on_signals(stop: CancellationToken, mut terminate: Signal, mut interrupt: Signal) {
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

/// The name of this process in leases. It is unique: an earlier process in the same pod had another.
fn identity() -> String {
    let host = variable("POD_NAME").or_else(|| variable("HOSTNAME")).unwrap_or_else(|| "aileron".to_owned());
    // The keys of a `RandomState` are random in every process, which is random enough for a name.
    assembly::replica_identity(&host, RandomState::new().hash_one(std::process::id()))
}
