//! Simulates executors in a faulty cluster, many times.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aileron_simulator::determinism::simulate;
use aileron_simulator::mutations::{self, Options};
use aileron_simulator::verdict::Violation;
use aileron_simulator::world::{self, Plan};
use aileron_testkit::simulation::patterns::Pattern;
use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use serde::{Deserialize, Serialize};

/// A run takes a fraction of a second; one that takes this long does not end.
const HANGS_AFTER: Duration = Duration::from_secs(120);
/// Lines of the history that a failure shows.
const SHOWN_LINES: usize = 80;

#[derive(Parser)]
#[command(about = "Simulates executors in a faulty cluster and checks what they promise")]
struct Arguments {
    #[command(subcommand)]
    command: Mode,
}

#[derive(Subcommand)]
enum Mode {
    /// Run many seeds, each in a process of its own
    Campaign {
        /// The number of seeds
        #[arg(long, default_value_t = 200)]
        seeds: u64,
        /// The first seed
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Runs at the same time; 0 means one for each core
        #[arg(long, default_value_t = 0)]
        jobs: usize,
    },
    /// Crash, lose or delay at every write and every watched change of one run
    Patterns {
        /// Every n-th place only
        #[arg(long, default_value_t = 1)]
        every: usize,
        /// Runs at the same time; 0 means one for each core
        #[arg(long, default_value_t = 0)]
        jobs: usize,
    },
    /// Break one promise after the other on purpose, and look whether runs notice it
    Mutations {
        /// Random runs for each change, at most
        #[arg(long, default_value_t = 400)]
        seeds: u64,
        /// Every n-th systematic run only
        #[arg(long, default_value_t = 3)]
        every: usize,
        /// Only changes whose description contains this text
        #[arg(long)]
        only: Option<String>,
        /// Where the changed copy of the sources is built
        #[arg(long, default_value = "target/mutations")]
        scratch: PathBuf,
        /// Write the table into this page
        #[arg(long)]
        write: Option<PathBuf>,
    },
    /// Run one seed and show what happened
    Run {
        /// The seed
        #[arg(long)]
        seed: u64,
        /// A systematic disturbance, as a campaign prints it
        #[arg(long)]
        pattern: Option<String>,
        /// Print the whole history
        #[arg(long)]
        history: bool,
        /// Print one line of JSON instead
        #[arg(long)]
        json: bool,
    },
}

/// The result of a run, from the process that ran it.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    violations: Vec<Violation>,
    history: Vec<String>,
    fingerprint: u64,
    writes: u64,
    changes: u64,
    simulated_seconds: f64,
}

/// One run of a campaign.
#[derive(Clone, Debug)]
struct Job {
    seed: u64,
    pattern: Option<Pattern>,
}

fn main() -> Result<ExitCode> {
    match Arguments::parse().command {
        Mode::Run { seed, pattern, history, json } => {
            let pattern = pattern.map(|text| serde_json::from_str(&text).context("--pattern")).transpose()?;
            run_one(seed, pattern, history, json)
        }
        Mode::Campaign { seeds, from, jobs } => {
            let all: Vec<_> = (from..from.saturating_add(seeds)).map(|seed| Job { seed, pattern: None }).collect();
            campaign(&all, jobs)
        }
        Mode::Patterns { every, jobs } => {
            let undisturbed = report(&Job { seed: 0, pattern: Some(Pattern::None) })?;
            if !undisturbed.violations.is_empty() {
                bail!("the run without a disturbance fails already: {:?}", undisturbed.violations);
            }
            let all = Pattern::all(undisturbed.writes, undisturbed.changes).into_iter().step_by(every.max(1));
            let all: Vec<_> = all.map(|pattern| Job { seed: 0, pattern: Some(pattern) }).collect();
            campaign(&all, jobs)
        }
        Mode::Mutations { seeds, every, only, scratch, write } => {
            let workspace = std::env::current_dir()?;
            let scratch = workspace.join(scratch);
            let findings = mutations::check(&Options { workspace, scratch, seeds, every, only })?;
            if let Some(page) = write {
                mutations::write_table(&page, &findings)?;
            }
            let missed = findings.iter().filter(|finding| finding.noticed.is_none()).count();
            println!("{} promises broken on purpose, {missed} not noticed", findings.len());
            Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

/// Runs one seed in this process.
fn run_one(seed: u64, pattern: Option<Pattern>, whole: bool, json: bool) -> Result<ExitCode> {
    if !json && std::env::var_os("RUST_LOG").is_some() {
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .without_time()
            .init();
    }
    let plan = pattern.map_or(Plan::Random, Plan::Pattern);
    let outcome = simulate(seed, move || world::run(seed, plan))?;
    let entries = outcome.history.entries();
    let failed = !outcome.violations.is_empty();
    // Renewals of the leader lease are most of the history and say nothing.
    let lines: Vec<String> =
        entries.iter().map(ToString::to_string).filter(|line| whole || !line.contains("leases flyte")).collect();
    let from = if whole || json && !failed { 0 } else { lines.len().saturating_sub(SHOWN_LINES) };
    let report = Report {
        fingerprint: outcome.history.fingerprint(),
        writes: outcome.writes,
        changes: outcome.changes,
        simulated_seconds: entries.last().map_or(0.0, |entry| entry.at.as_secs_f64()),
        history: if json && !failed { Vec::new() } else { lines.get(from..).unwrap_or_default().to_vec() },
        violations: outcome.violations,
    };
    if json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        report.history.iter().for_each(|line| println!("{line}"));
        report.violations.iter().for_each(|violation| println!("BROKEN {violation}"));
        let Report { writes, changes, simulated_seconds, fingerprint, .. } = report;
        println!(
            "{simulated_seconds:.0} s simulated, {writes} writes, {changes} watched changes, fingerprint {fingerprint:016x}"
        );
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs all jobs and tells what failed.
fn campaign(jobs: &[Job], parallel: usize) -> Result<ExitCode> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let parallel = if parallel == 0 { cores } else { parallel };
    let (next, begin, total) = (AtomicU64::new(0), Instant::now(), jobs.len());
    let failures = Mutex::new(Vec::new());
    let seconds = Mutex::new(0.0);
    std::thread::scope(|scope| {
        for _ in 0..parallel {
            scope.spawn(|| {
                while let Some(job) =
                    jobs.get(usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap_or(usize::MAX))
                {
                    match report(job) {
                        Ok(report) => {
                            *seconds.lock().unwrap_or_else(std::sync::PoisonError::into_inner) +=
                                report.simulated_seconds;
                            if !report.violations.is_empty() {
                                show(job, &report);
                                let rules = report.violations.into_iter().map(|violation| violation.rule);
                                failures
                                    .lock()
                                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                                    .push((job.clone(), rules.collect::<Vec<_>>()));
                            }
                        }
                        Err(error) => {
                            println!("{}: {error:#}\n  again: {}", job.name(), job.replay());
                            failures
                                .lock()
                                .unwrap_or_else(std::sync::PoisonError::into_inner)
                                .push((job.clone(), vec!["the run ends".to_owned()]));
                        }
                    }
                    let done = usize::try_from(next.load(Ordering::Relaxed)).unwrap_or_default().min(total);
                    if std::io::stderr().is_terminal() {
                        eprint!("\r{done} of {total} runs");
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_default();
    let mut rules: BTreeMap<String, usize> = BTreeMap::new();
    for (_, broken) in &failures {
        let mut broken = broken.clone();
        broken.dedup();
        broken.into_iter().for_each(|rule| *rules.entry(rule).or_default() += 1);
    }
    let simulated = seconds.into_inner().unwrap_or_default() / 3600.0;
    println!(
        "{total} runs, {simulated:.1} h simulated in {:.0} s, {} failed",
        begin.elapsed().as_secs_f64(),
        failures.len()
    );
    rules.iter().for_each(|(rule, count)| println!("{count:>8}  {rule}"));
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(job: &Job, report: &Report) {
    let mut text = format!("{}\n", job.name());
    for line in &report.history {
        text.push_str(&format!("  {line}\n"));
    }
    for violation in &report.violations {
        text.push_str(&format!("  BROKEN {violation}\n"));
    }
    println!("{text}  again: {}", job.replay());
}

impl Job {
    fn name(&self) -> String {
        self.pattern.as_ref().map_or_else(|| format!("seed {}", self.seed), |pattern| format!("{pattern:?}"))
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["run".to_owned(), "--seed".to_owned(), self.seed.to_string()];
        if let Some(pattern) = &self.pattern {
            arguments.extend(["--pattern".to_owned(), serde_json::to_string(pattern).unwrap_or_default()]);
        }
        arguments
    }

    fn replay(&self) -> String {
        let arguments: Vec<String> = self.arguments().into_iter().map(|word| format!("'{word}'")).collect();
        format!("cargo run -p aileron-simulator -- {} --history", arguments.join(" ").replace("'run'", "run"))
    }
}

/// Runs a job in a process of its own.
fn report(job: &Job) -> Result<Report> {
    let program = std::env::current_exe().context("this program")?;
    let mut child = Command::new(program)
        .args(job.arguments())
        .arg("--json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let begin = Instant::now();
    let mut output = child.stdout.take().context("the output of the run")?;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut output, &mut text).map(|_| text)
    });
    while child.try_wait()?.is_none() {
        if begin.elapsed() > HANGS_AFTER {
            child.kill()?;
            child.wait()?;
            bail!("the run did not end within {HANGS_AFTER:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let text = reader.join().ok().context("the output of the run")??;
    if text.trim().is_empty() {
        let mut errors = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            std::io::Read::read_to_string(&mut stderr, &mut errors)?;
        }
        bail!("the run failed: {}", errors.trim());
    }
    serde_json::from_str(text.trim()).context("the report of the run")
}
