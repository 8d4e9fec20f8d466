//! The report of the runner, and the results that it writes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use serde_json::Value;

use super::case::Case;

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The result is the recorded one.
    ProxiedRequest,
    /// The result differs, with one line per difference; or there is no result.
    Failed(Vec<String>),
    /// Not run, with the reason.
    Skipped(String),
}

/// The number of cases per outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cases with the recorded result.
    pub passed: usize,
    /// Cases with another result or none.
    pub failed: usize,
    /// Cases that were not run.
    pub skipped: usize,
}

/// All outcomes of a run, in the order of the cases.
#[derive(Clone, Debug, Default)]
pub struct Report {
    outcomes: Vec<(String, String, Outcome)>,
    notes: Vec<String>,
}

/// How many differences of one case are printed without `--verbose`.
const PLACES: usize = 8;

impl Counts {
    fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::ProxiedRequest => self.passed += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Skipped(_) => self.skipped += 1,
        }
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

impl Report {
    /// Adds the outcome of a case.
    pub fn add(&mut self, case: &Case, outcome: Outcome) {
        self.outcomes.push((case.folder(), case.id(), outcome));
    }

    /// Adds a note for the reader of the report.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Whether no case was run or skipped.
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// The counts over all cases.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.outcomes.iter().for_each(|(_, _, outcome)| counts.add(outcome));
        counts
    }

    /// The ids of the cases that failed.
    pub fn failed(&self) -> impl Iterator<Item = &str> {
        self.outcomes.iter().filter(|(_, _, o)| matches!(o, Outcome::Failed(_))).map(|(_, id, _)| id.as_str())
    }

    /// The failures with their differences, then one line per folder, then the total counts on the last line.
    pub fn render(&self, verbose: bool) -> String {
        let mut text: String = self.notes.iter().map(|note| format!("note: {note}\n")).collect();
        let mut folders: BTreeMap<&str, Counts> = BTreeMap::new();
        for (folder, id, outcome) in &self.outcomes {
            folders.entry(folder).or_default().add(outcome);
            // Writing to a `String` cannot fail.
            let _ = match outcome {
                Outcome::Failed(places) => writeln!(text, "FAILED {id}{}", listed(places, verbose)),
                Outcome::Skipped(reason) if verbose => writeln!(text, "SKIPPED {id}: {reason}"),
                _ => Ok(()),
            };
        }
        let width = folders.keys().map(|folder| folder.len()).max().unwrap_or_default();
        for (folder, counts) in folders {
            let _ = write!(text, "{folder:width$}  {} passed", counts.passed);
            for (count, word) in [(counts.failed, "failed"), (counts.skipped, "skipped")] {
                let _ = if count > 0 { write!(text, ", {count} {word}") } else { Ok(()) };
            }
            text.push('\n');
        }
        let _ = writeln!(text, "{}", self.counts());
        text
    }
}

fn listed(places: &[String], verbose: bool) -> String {
    let shown = if verbose { places.len() } else { places.len().min(PLACES) };
    let mut text: String = places[..shown].iter().map(|place| format!("\n    {place}")).collect();
    if shown < places.len() {
        let _ = write!(text, "\n    ... and {} more", places.len() - shown);
    }
    text
}

/// Writes the result of a case below the folder, in the format of `expected`.
pub fn write_result(folder: &Path, case: &Case, result: &Value) -> io::Result<()> {
    let folder = folder.join(case.folder());
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("{}.json", case.name)), format!("{result:#}\n"))
}
