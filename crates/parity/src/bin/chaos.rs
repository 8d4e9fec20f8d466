//! Kills executors under load and checks what they promise: `make chaos [KILLS=1000] [SEED=<number>]`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use aileron_parity::chaos::campaign::{Figures, Incidents, Options, run};
use aileron_parity::cluster::Server;
use anyhow::Result;
use clap::{Parser, ValueEnum};

/// Runs two executors as processes on a real API server, under load. Kills one of them every one to three seconds, pauses
/// the leader, restarts the API server and etcd, and lets events service, cache service, storage and API requests fail. At
/// the end all faults stop, every task must end, and the history of the run must keep all rules of `aileron-history`.
///
/// The exit code is 1 if a rule was broken, and 2 if the run was not possible.
#[derive(Parser)]
struct Arguments {
    /// How often a process is killed.
    #[arg(long, default_value_t = 1000)]
    kills: u32,
    /// Fixes the random choices: tasks, victims, faults. Times still differ. The default is the time of day.
    #[arg(long)]
    seed: Option<u64>,
    /// Tasks that are open at the same time.
    #[arg(long, default_value_t = 24)]
    tasks: usize,
    /// The API server.
    #[arg(long, value_enum, default_value_t = ServerName::Real)]
    server: ServerName,
    /// Where logs and the history of a broken rule are written.
    #[arg(long, default_value = "target/chaos")]
    out: PathBuf,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ServerName {
    /// kube-apiserver and etcd.
    Real,
    /// The API server of the sandbox.
    Sandbox,
}

/// Exit code when the run was not possible.
const NOT_RUN: u8 = 2;

fn main() -> ExitCode {
    match run_arguments(Arguments::parse()) {
        Ok(figures) if figures.failure.is_none() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(NOT_RUN)
        }
    }
}

fn run_arguments(arguments: Arguments) -> Result<Figures> {
    let Arguments { kills, seed, tasks, server, out, json } = arguments;
    let seed = match seed {
        Some(seed) => seed,
        None => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs(),
    };
    let server = match server {
        ServerName::Real => Server::Real,
        ServerName::Sandbox => Server::Sandbox,
    };
    let options = Options { server, seed, kills, open_tasks: tasks, incidents: Incidents::default(), out };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let figures = runtime.block_on(run(&options))?;
    if let Some(failure) = &figures.failure {
        eprintln!("\n{failure}\nThe logs are in {}.", options.out.display());
    }
    if json {
        println!("{}", serde_json::to_string(&figures)?);
    } else {
        println!("\n{figures}");
    }
    Ok(figures)
}
