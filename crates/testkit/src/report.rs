//! What a check of a plugin found.

use std::fmt;

/// The result of [`Conformance::check`](crate::Conformance::check), as a value and as a text.
///
/// ```
/// use aileron_testkit::{Check, Report};
///
/// let check = Check::new("build gives the same object each time", 1, vec!["spec.seed differs".to_owned()]);
/// let report = Report::new("kettle", vec![check]);
/// assert!(!report.is_passed());
/// assert_eq!(
///     report.to_string(),
///     "plugin kettle: 1 of 1 checks failed\n  FAILED  build gives the same object each time (1 time)\n          spec.seed differs\n"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a report that nobody looks at lets a broken plugin pass: call `assert_passed`"]
pub struct Report {
    plugin: String,
    checks: Vec<Check>,
}

/// One promise, and what was found when it was checked.
///
/// ```
/// let check = aileron_testkit::Check::new("an abort can be repeated", 3, Vec::new());
/// assert!(check.is_passed());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    promise: String,
    times: usize,
    problems: Vec<String>,
}

/// A promise that breaks everywhere would fill pages with the same problem.
const SHOWN_PROBLEMS: usize = 5;

impl Report {
    /// The checks of a plugin.
    pub fn new(plugin: impl Into<String>, checks: Vec<Check>) -> Self {
        Self { plugin: plugin.into(), checks }
    }

    /// Whether the plugin kept every promise.
    pub fn is_passed(&self) -> bool {
        self.checks.iter().all(Check::is_passed)
    }

    /// The checks.
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// Ends the test with the report if a promise was broken.
    ///
    /// # Panics
    /// A promise was broken.
    #[track_caller]
    #[allow(clippy::panic)]
    pub fn assert_passed(&self) {
        if !self.is_passed() {
            panic!("{self}");
        }
    }
}

impl Check {
    /// A promise that was checked so many times, with what was wrong.
    pub fn new(promise: impl Into<String>, times: usize, problems: Vec<String>) -> Self {
        Self { promise: promise.into(), times, problems }
    }

    /// What the plugin promises.
    pub fn promise(&self) -> &str {
        &self.promise
    }

    /// How often it was checked.
    pub fn times(&self) -> usize {
        self.times
    }

    /// What was wrong.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Whether nothing was wrong.
    pub fn is_passed(&self) -> bool {
        self.problems.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.checks.iter().filter(|check| !check.is_passed()).count();
        let all = self.checks.len();
        match failed {
            0 => writeln!(f, "plugin {}: {all} checks passed", self.plugin)?,
            _ => writeln!(f, "plugin {}: {failed} of {all} checks failed", self.plugin)?,
        }
        self.checks.iter().try_for_each(|check| write!(f, "{check}"))
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_passed() { "ok" } else { "FAILED" };
        let times = if self.times == 1 { "1 time".to_owned() } else { format!("{} times", self.times) };
        writeln!(f, "  {word:<6}  {} ({times})", self.promise)?;
        for problem in self.problems.iter().take(SHOWN_PROBLEMS) {
            for line in problem.lines() {
                writeln!(f, "          {line}")?;
            }
        }
        match self.problems.len().saturating_sub(SHOWN_PROBLEMS) {
            0 => Ok(()),
            more => writeln!(f, "          and {more} more"),
        }
    }
}
