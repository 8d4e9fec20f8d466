//! Memory and open files of a leader and a standby over a long time.

use std::fs;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;
use serde::Serialize;

use super::campaign::keep_logs;
use super::faults::{FaultCounts, Pace, heal, inject};
use super::replica::Replica;
use super::world::{Failure, World};
use crate::cluster::Server;

/// Time between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(5);
/// Tasks that are open at the same time, and the time between two of them: about two tasks per second.
const OPEN_TASKS: usize = 16;
const SUBMIT_EVERY: Duration = Duration::from_millis(450);
/// Time between two faults, in milliseconds.
const FAULT_MS: (u64, u64) = (10_000, 40_000);
/// The first part of the time does not count: caches and pools of connections fill. Then two windows are compared.
const WARM_UP: f64 = 0.25;
/// The length of each of the two windows, the one after the warm-up and the last one.
const WINDOW: f64 = 0.25;
/// How much the memory may grow between the windows. The load is steady and ended actions are removed, so the caches have
/// the same size; the allocator keeps some free pages more or less. An executor that kept one action (4 KiB) of each task
/// would grow by 14 MiB in half an hour.
const MEMORY_GROWTH_KIB: u64 = 6 << 10;
/// How many more files may be open. Connections are pooled: a burst of retries opens a few more for a minute.
const FILES_GROWTH: u64 = 10;
/// How long after the last task all tasks must have ended.
const SETTLES_WITHIN: Duration = Duration::from_secs(120);

/// What a soak consists of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The API server.
    pub server: Server,
    /// Fixes the random choices.
    pub seed: u64,
    /// How long it takes.
    pub time: Duration,
    /// Where logs and the history of a broken rule are written.
    pub out: PathBuf,
}

/// One look at a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Resident memory.
    pub memory_kib: u64,
    /// Open file descriptors.
    pub files: u64,
}

/// The samples of one process.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// `leader` or `standby`.
    pub role: &'static str,
    /// One every five seconds, later if the machine is busy.
    pub samples: Vec<Sample>,
}

/// What came of a soak.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// How long the processes were watched.
    pub seconds: f64,
    /// The samples.
    pub series: Vec<Series>,
    /// Tasks that ended and were checked.
    pub tasks_checked: u64,
    /// Why it failed.
    pub failure: Option<String>,
}

/// The medians of the two windows that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// After the warm-up.
    pub first: Sample,
    /// At the end.
    pub last: Sample,
}

/// Runs a soak.
///
/// # Errors
/// It could not be run. Growth and broken rules are not an error, see [`Report::failure`].
pub async fn run(options: &Options) -> Result<Report> {
    let world = World::start(options.server, options.seed).await?;
    let mut replicas = Replica::pair(&world).await?;
    let proxies: Vec<_> = replicas.iter().map(|replica| Arc::clone(&replica.proxy)).collect();
    let mut report = Report { seed: options.seed, ..Report::default() };
    let pace = Pace { pause_ms: FAULT_MS, lease: false };
    let counts = FaultCounts::default();
    let outcome = tokio::select! {
        outcome = sample(&world, &mut replicas, options.time, &mut report) => outcome,
        () = inject(&world, &proxies, Rng::with_seed(options.seed ^ 2), pace, &counts) => Ok(()),
        () = world.load(OPEN_TASKS, SUBMIT_EVERY) => Ok(()),
    };
    heal(&world, &proxies);
    let outcome = match outcome {
        Ok(()) => world.settle(SETTLES_WITHIN, async || Ok(())).await,
        failed => failed,
    };
    report.tasks_checked = world.counts().1;
    let grown = report.series.iter().filter_map(|series| Some((series.role, growth(&series.samples)?.problem()?)));
    let grown: Vec<_> = grown.map(|(role, problem)| format!("{role}: {problem}")).collect();
    report.failure = match outcome {
        Err(error) => Some(error.downcast::<Failure>()?.to_string()),
        Ok(()) if !grown.is_empty() => Some(grown.join("\n")),
        Ok(()) => None,
    };
    if let Some(failure) = &report.failure {
        keep_logs(world.cluster.dir(), &options.out, failure)?;
    }
    Ok(report)
}

async fn sample(world: &World, replicas: &mut [Replica; 2], time: Duration, report: &mut Report) -> Result<()> {
    let begin = Instant::now();
    while replicas.iter().all(|replica| replica.identity(world).is_none()) {
        if begin.elapsed() > SETTLES_WITHIN {
            return Err(Failure("nobody leads".to_owned()).into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let role = |replica: &Replica| if replica.identity(world).is_some() { "leader" } else { "standby" };
    report.series = replicas.iter().map(|replica| Series { role: role(replica), samples: Vec::new() }).collect();
    let begin = Instant::now();
    while begin.elapsed() < time {
        tokio::time::sleep(SAMPLE_EVERY).await;
        for (replica, series) in replicas.iter_mut().zip(&mut report.series) {
            if replica.keep_alive(world).await? {
                return Err(Failure(format!("the {} lost the lease", series.role)).into());
            }
            replica.proxy.forget_requests();
            series.samples.push(look(replica.id().context("no process")?)?);
        }
        report.seconds = begin.elapsed().as_secs_f64();
        world.check_ended().await?;
        if std::io::stderr().is_terminal() {
            eprint!("\r{} of {} s, {} tasks checked ", begin.elapsed().as_secs(), time.as_secs(), world.counts().1);
        }
    }
    Ok(())
}

/// Reads memory and open files of a process.
fn look(process: u32) -> Result<Sample> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).context("the status of a process")?;
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let memory = memory.and_then(|text| text.trim().trim_end_matches("kB").trim().parse().ok());
    let files = fs::read_dir(format!("/proc/{process}/fd")).context("the files of a process")?.count();
    Ok(Sample { memory_kib: memory.context("no VmRSS")?, files: u64::try_from(files)? })
}

/// Compares the windows; `None` if there are too few samples.
#[must_use]
pub fn growth(samples: &[Sample]) -> Option<Growth> {
    let part = |share: f64| (samples.len() as f64 * share) as usize;
    let (begin, length) = (part(WARM_UP), part(WINDOW).max(1));
    let first = samples.get(begin..begin + length)?;
    let last = samples.get(samples.len().checked_sub(length)?..)?;
    Some(Growth { first: median(first), last: median(last) })
}

fn median(samples: &[Sample]) -> Sample {
    let middle = |value: fn(&Sample) -> u64| {
        let mut values: Vec<_> = samples.iter().map(value).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    Sample { memory_kib: middle(|sample| sample.memory_kib), files: middle(|sample| sample.files) }
}

impl Growth {
    /// What grew too much.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let Self { first, last } = self;
        if last.memory_kib > first.memory_kib + MEMORY_GROWTH_KIB {
            let (from, to) = (first.memory_kib, last.memory_kib);
            return Some(format!("memory grew from {from} KiB to {to} KiB, by more than {MEMORY_GROWTH_KIB} KiB"));
        }
        if last.files > first.files + FILES_GROWTH {
            return Some(format!(
                "open files grew from {} to {}, by more than {FILES_GROWTH}",
                first.files, last.files
            ));
        }
        None
    }
}

impl std::fmt::Display for Report {
    /// About twelve lines for each process: the median of each part of the time.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "process      minute   memory MiB   open files")?;
        for Series { role, samples } in &self.series {
            let part = samples.len().div_ceil(12).max(1);
            for (number, window) in samples.chunks(part).enumerate() {
                let Sample { memory_kib, files } = median(window);
                let minute = (number * part) as f64 / samples.len() as f64 * self.seconds / 60.0;
                writeln!(f, "{role:<10} {minute:>8.1} {:>12.1} {files:>12}", memory_kib as f64 / 1024.0)?;
            }
            if let Some(Growth { first, last }) = growth(samples) {
                let grown = (last.memory_kib as f64 - first.memory_kib as f64) / 1024.0;
                let files = i128::from(last.files) - i128::from(first.files);
                writeln!(f, "{role:<10}   growth {grown:>+12.1} {files:>+12}")?;
            }
        }
        write!(f, "{} tasks ended and were checked, seed {}", self.tasks_checked, self.seed)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn samples(memory: impl Fn(u64) -> u64, files: impl Fn(u64) -> u64) -> Vec<Sample> {
        (0..100).map(|at| Sample { memory_kib: memory(at), files: files(at) }).collect()
    }

    #[test]
    fn growth_after_the_warm_up_is_a_problem() {
        let leak = growth(&samples(|at| 40_000 + 200 * at, |_| 20)).unwrap();
        assert!(leak.problem().unwrap().starts_with("memory grew from 47400 KiB to 57400 KiB"), "{leak:?}");
        let open = growth(&samples(|_| 40_000, |at| 20 + at)).unwrap();
        assert!(open.problem().unwrap().starts_with("open files grew from 57 to 107"), "{open:?}");
    }

    #[test]
    fn growth_at_the_begin_and_single_peaks_are_none() {
        let warm = growth(&samples(|at| 20_000 + 3_000 * at.min(20), |at| if at % 7 == 0 { 90 } else { 20 })).unwrap();
        assert_eq!(warm.problem(), None, "{warm:?}");
        assert_eq!(growth(&[]), None);
    }

    #[test]
    fn this_process_has_memory_and_files() {
        let sample = look(std::process::id()).unwrap();
        assert!(sample.memory_kib > 1_000 && sample.files > 2, "{sample:?}");
    }
}
