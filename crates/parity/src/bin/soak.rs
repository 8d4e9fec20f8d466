//! Watches memory and open files of executors under load: `make soak [MINUTES=60] [SEED=<number>]`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use aileron_parity::chaos::soak::{Options, Report, run};
use aileron_parity::cluster::Server;
use anyhow::Result;
use clap::Parser;

/// Runs a leader and a standby as processes on a real API server, with about two tasks per second and a fault now and then,
/// and samples their memory and open files. It fails if one of them grows after the warm-up, or if the history of the run
/// breaks a rule.
///
/// The exit code is 1 if it failed, and 2 if the run was not possible.
#[derive(Parser)]
struct Arguments {
    /// How long it takes, in minutes. A leak shows after half an hour.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Fixes the random choices. The default is the time of day.
    #[arg(long)]
    seed: Option<u64>,
    /// Where logs and the history of a broken rule are written.
    #[arg(long, default_value = "target/soak")]
    out: PathBuf,
    /// Print all samples as JSON.
    #[arg(long)]
    json: bool,
}

/// Exit code when the run was not possible.
const NOT_RUN: u8 = 2;

fn main() -> ExitCode {
    match run_arguments(Arguments::parse()) {
        Ok(report) if report.failure.is_none() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(NOT_RUN)
        }
    }
}

fn run_arguments(arguments: Arguments) -> Result<Report> {
    let Arguments { minutes, seed, out, json } = arguments;
    let seed = match seed {
        Some(seed) => seed,
        None => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs(),
    };
    let options = Options { server: Server::Real, seed, time: Duration::from_secs(60 * minutes), out };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(run(&options))?;
    if json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!("\n{report}");
    }
    if let Some(failure) = &report.failure {
        eprintln!("{failure}\nThe logs are in {}.", options.out.display());
    }
    Ok(report)
}
