//! Checks the checks: breaks one promise of the executor after the other on purpose, and looks whether simulated runs
//! notice it.
//!
//! The changes are made in a copy of the sources, which is built in a directory of its own.

mod list;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

pub use list::{Edit, MUTATIONS, Mutation};

use crate::verdict::Violation;
use aileron_testkit::simulation::patterns::Pattern;

/// A changed executor may do nothing but run in circles. A correct run takes about a second.
const HANGS_AFTER: Duration = Duration::from_secs(60);
/// Below the list in the page, and above it.
const TABLE: (&str, &str) = ("<!-- mutations: begin -->", "<!-- mutations: end -->");

/// How the check is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// The workspace.
    pub workspace: PathBuf,
    /// Where the copy and its build are.
    pub scratch: PathBuf,
    /// Random runs for each change, at most.
    pub seeds: u64,
    /// Systematic runs: every n-th one.
    pub every: usize,
    /// Only changes whose text contains this.
    pub only: Option<String>,
}

/// What became of one change.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What the changed executor does wrong.
    pub breaks: &'static str,
    /// The rule that was broken first, and after how many runs; `None` if nothing was noticed.
    pub noticed: Option<(String, usize)>,
}

#[derive(Clone, Debug)]
enum Run {
    Seed(u64),
    Pattern(Pattern),
}

/// Makes every change, one after the other. Prints what each one leads to.
///
/// # Errors
/// The sources cannot be copied, a change does not apply any more, or the changed sources do not compile.
pub fn check(options: &Options) -> Result<Vec<Finding>> {
    let source = options.scratch.join("source");
    copy_sources(&options.workspace, &source)?;
    println!("building the unchanged simulator");
    let program = build(&source, &options.scratch)?;
    let runs = runs(&program, options)?;
    if let Some((rule, _)) = first_violation(&program, &runs) {
        bail!("a rule is broken without any change: {rule}");
    }
    let wanted =
        |mutation: &&Mutation| options.only.as_ref().is_none_or(|only| mutation.breaks.contains(only.as_str()));
    let mut findings = Vec::new();
    for mutation in MUTATIONS.iter().filter(wanted) {
        let begin = Instant::now();
        apply(&source, mutation, |edit, text| text.replacen(edit.find, edit.replace, 1))?;
        let program = build(&source, &options.scratch).with_context(|| format!("to break: {}", mutation.breaks));
        let noticed = program.map(|program| first_violation(&program, &runs));
        for Edit { file, .. } in mutation.edits {
            copy_file(&options.workspace, &source, &Path::new("crates").join(file))?;
        }
        let finding = Finding { breaks: mutation.breaks, noticed: noticed? };
        println!("{} ({:.0} s)", finding.line(), begin.elapsed().as_secs_f64());
        findings.push(finding);
    }
    Ok(findings)
}

/// Writes the table of findings into a page, between two marks.
///
/// # Errors
/// The page cannot be read or written, or has no marks.
pub fn write_table(page: &Path, findings: &[Finding]) -> Result<()> {
    let text = std::fs::read_to_string(page).with_context(|| page.display().to_string())?;
    let marks = text.find(TABLE.0).zip(text.find(TABLE.1));
    let (begin, end) = marks.with_context(|| format!("{} has no table of mutations", page.display()))?;
    let rows: String = findings.iter().map(|finding| format!("{}\n", finding.line())).collect();
    let table =
        format!("{}\n| broken on purpose | broken rule | runs until then |\n| --- | --- | --- |\n{rows}", TABLE.0);
    let text = format!("{}{table}{}", &text[..begin], &text[end..]);
    std::fs::write(page, text).with_context(|| page.display().to_string())
}

impl Finding {
    fn line(&self) -> String {
        match &self.noticed {
            Some((rule, runs)) => format!("| {} | {rule} | {runs} |", self.breaks),
            None => format!("| {} | NOT NOTICED | |", self.breaks),
        }
    }
}

/// Copies what git knows or would add.
fn copy_sources(workspace: &Path, source: &Path) -> Result<()> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(workspace)
        .output()
        .context("git ls-files")?;
    let listed = String::from_utf8(listed.stdout).context("git ls-files")?;
    if listed.is_empty() {
        bail!("git lists no files in {}", workspace.display());
    }
    for file in listed.lines().filter(|file| workspace.join(file).is_file()) {
        copy_file(workspace, source, Path::new(file))?;
    }
    Ok(())
}

/// Copies a file unless the copy is the same, so that nothing is built without need.
fn copy_file(from: &Path, to: &Path, file: &Path) -> Result<()> {
    let (from, to) = (from.join(file), to.join(file));
    let content = std::fs::read(&from).with_context(|| from.display().to_string())?;
    if std::fs::read(&to).is_ok_and(|copied| copied == content) {
        return Ok(());
    }
    std::fs::create_dir_all(to.parent().context("a file without a folder")?)?;
    std::fs::write(&to, content).with_context(|| to.display().to_string())
}

fn apply(source: &Path, mutation: &Mutation, change: impl Fn(&Edit, &str) -> String) -> Result<()> {
    for edit in mutation.edits {
        let path = source.join("crates").join(edit.file);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        if text.matches(edit.find).count() != 1 {
            bail!("{} does not contain this text exactly once: {}", edit.file, edit.find);
        }
        std::fs::write(&path, change(edit, &text))?;
    }
    Ok(())
}

fn build(source: &Path, scratch: &Path) -> Result<PathBuf> {
    let target = scratch.join("build");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--locked", "--workspace", "--bin", "aileron-simulator"])
        .env("CARGO_TARGET_DIR", &target)
        // The changes leave unused values behind.
        .env("RUSTFLAGS", "")
        .current_dir(source)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .context("cargo build")?;
    if !output.status.success() {
        bail!("the changed sources do not compile:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(target.join("debug/aileron-simulator"))
}

/// The runs for each change: systematic and random ones in turn.
fn runs(program: &Path, options: &Options) -> Result<Vec<Run>> {
    let undisturbed = run(program, &Run::Pattern(Pattern::None))?.context("the run without a disturbance hangs")?;
    let patterns = Pattern::all(undisturbed.writes, undisturbed.changes).into_iter().step_by(options.every.max(1));
    let mut patterns = patterns.map(Run::Pattern);
    let mut seeds = (0..options.seeds).map(Run::Seed);
    let mut runs = Vec::new();
    loop {
        let both = [patterns.next(), seeds.next()];
        if both.iter().all(Option::is_none) {
            return Ok(runs);
        }
        runs.extend(both.into_iter().flatten());
    }
}

/// The rule that is broken first, and after how many runs.
fn first_violation(program: &Path, runs: &[Run]) -> Option<(String, usize)> {
    let (next, found, rule) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while !found.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(one) = runs.get(number) else { return };
                    let broken = match run(program, one) {
                        Ok(Some(report)) => report.violations.into_iter().next().map(|violation| violation.rule),
                        Ok(None) => Some("a run comes to an end".to_owned()),
                        Err(error) => Some(format!("a run does not panic ({error:#})")),
                    };
                    if let Some(broken) = broken {
                        found.store(true, Ordering::Relaxed);
                        let mut rule = rule.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        rule.get_or_insert((broken, number + 1));
                    }
                }
            });
        }
    });
    rule.into_inner().unwrap_or_default()
}

/// The part of the report of a run that is needed here.
#[derive(serde::Deserialize)]
struct Report {
    violations: Vec<Violation>,
    writes: u64,
    changes: u64,
}

/// One run. `None` if it does not end.
fn run(program: &Path, run: &Run) -> Result<Option<Report>> {
    let (seed, pattern) = match run {
        Run::Seed(seed) => (*seed, None),
        Run::Pattern(pattern) => (0, Some(serde_json::to_string(pattern)?)),
    };
    let mut command = Command::new(program);
    command.args(["run", "--json", "--seed", &seed.to_string()]);
    command.args(pattern.iter().flat_map(|pattern| ["--pattern", pattern]));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut output = child.stdout.take().context("the output of the run")?;
    let reader = std::thread::spawn(move || std::io::read_to_string(&mut output));
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if begin.elapsed() > HANGS_AFTER {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let text = reader.join().ok().context("the output of the run")??;
    serde_json::from_str(text.trim()).map(Some).context("the report of the run")
}
