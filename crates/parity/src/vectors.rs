//! Runs recorded cases: computes our result for the recorded input and compares it with the recorded result.
//!
//! A case runs in these steps: [`case`] reads it, [`families`] produces our result, [`judge`] compares it with the
//! recorded one, [`report`] prints the outcome.

pub mod canonical;
pub mod case;
pub mod context;
pub mod diff;
pub mod differences;
pub mod encoded;
pub mod families;
pub mod installation;
pub mod judge;
pub mod messages;
pub mod phase_info;
pub mod report;
pub mod selection;
pub mod steps;
pub mod upstream_bugs;
pub mod walk;
pub mod world;

use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use serde_json::Value;

use self::case::{Case, LoadError};
use self::report::{Outcome, Report};
use self::selection::Selection;

/// A run could not take place.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The cases could not be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// No case was selected, which would otherwise look like success.
    #[error("no case is selected; give <family>[/<group>[/<name>]] as the folders are named")]
    NothingSelected,
    /// A result could not be written.
    #[error("failed to write the result of {case}")]
    Write {
        /// Id of the case.
        case: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
}

/// Runs the selected cases below a folder and writes what they produced below `out`, if given.
pub fn run(folder: &Path, selection: &Selection, out: Option<&Path>) -> Result<Report, RunError> {
    run_where(folder, selection, out, |_| true)
}

/// As [`run`], but only the cases for which the condition holds.
pub fn run_where(
    folder: &Path,
    selection: &Selection,
    out: Option<&Path>,
    condition: impl Fn(&Case) -> bool,
) -> Result<Report, RunError> {
    let cases = case::load(folder)?;
    let mut report = Report::default();
    selection.unused(&cases).for_each(|path| report.note(format!("no case is below {path}")));
    for case in cases.iter().filter(|case| selection.includes(case) && condition(case)) {
        let outcome = match differences::skipped(case) {
            Some(difference) => Outcome::Skipped(difference.reason.to_owned()),
            None => run_case(case, out)?,
        };
        report.add(case, outcome);
    }
    if report.is_empty() {
        return Err(RunError::NothingSelected);
    }
    Ok(report)
}

fn run_case(case: &Case, out: Option<&Path>) -> Result<Outcome, RunError> {
    let result = match produce(case) {
        Ok(result) => result,
        Err(reason) => return Ok(Outcome::Failed(vec![reason])),
    };
    if let Some(out) = out {
        report::write_result(out, case, &result).map_err(|source| RunError::Write { case: case.id(), source })?;
    }
    let places: Vec<String> = judge::judge(case, &result).iter().map(ToString::to_string).collect();
    Ok(if places.is_empty() { Outcome::ProxiedRequest } else { Outcome::Failed(places) })
}

/// The result of a case, or why there is none. A panic in one case must not hide the others.
fn produce(case: &Case) -> Result<Value, String> {
    match panic::catch_unwind(AssertUnwindSafe(|| families::produce(case))) {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(_) => Err("panicked; the message is above".into()),
    }
}
