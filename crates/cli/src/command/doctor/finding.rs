//! What a check found, and the report of all checks.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::display::table;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is wrong.
    Ok,
    /// The executor works, but something may not be as intended.
    Warning,
    /// The executor, or a part of it, does not work.
    Failed,
    /// The check could not be made, because it needs something that failed or that may not be read.
    Skipped,
}

/// One result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The check and its object: `permissions core`.
    pub check: String,
    pub outcome: Outcome,
    /// What was found, in one line.
    pub found: String,
    /// What to do about it. Only a finding that is not ok has one.
    pub remedy: Option<String>,
}

/// All findings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub findings: Vec<Finding>,
    /// Every permission that was asked for, for other programs.
    pub permissions: Vec<Value>,
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

impl Finding {
    pub fn ok(check: impl Into<String>, found: impl Into<String>) -> Self {
        Self { check: check.into(), outcome: Outcome::Ok, found: found.into(), remedy: None }
    }

    pub fn warning(check: impl Into<String>, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = Some(remedy.into());
        Self { check: check.into(), outcome: Outcome::Warning, found: found.into(), remedy }
    }

    pub fn failed(check: impl Into<String>, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = Some(remedy.into());
        Self { check: check.into(), outcome: Outcome::Failed, found: found.into(), remedy }
    }

    pub fn skipped(check: impl Into<String>, why: impl Into<String>) -> Self {
        Self { check: check.into(), outcome: Outcome::Skipped, found: why.into(), remedy: None }
    }

    fn as_json(&self) -> Value {
        json!({"check": self.check, "result": self.outcome.as_str(), "found": self.found, "remedy": self.remedy})
    }
}

impl Report {
    /// Whether a check failed.
    pub fn has_failed(&self) -> bool {
        self.count(Outcome::Failed) > 0
    }

    fn count(&self, outcome: Outcome) -> usize {
        self.findings.iter().filter(|finding| finding.outcome == outcome).count()
    }

    /// The report for people: a table, and what to do.
    pub fn as_text(&self) -> String {
        let row = |finding: &Finding| {
            let found = finding.found.split_whitespace().collect::<Vec<_>>().join(" ");
            vec![finding.check.clone(), finding.outcome.as_str().to_owned(), found]
        };
        let mut text = table::render(&["CHECK", "RESULT", "FOUND"], &self.findings.iter().map(row).collect::<Vec<_>>());
        let remedies = self.findings.iter().filter_map(|finding| Some((finding, finding.remedy.as_ref()?)));
        for (index, (finding, remedy)) in remedies.enumerate() {
            let title = if index == 0 { "\nWhat to do:\n" } else { "" };
            let _ = writeln!(text, "{title}  {} ({}): {remedy}", finding.check, finding.outcome.as_str());
        }
        let _ = writeln!(text, "\n{}", self.summary());
        text
    }

    /// The report for other programs. The names and meanings of its fields never change.
    pub fn as_json(&self) -> Value {
        json!({
            "ok": !self.has_failed(),
            "failed": self.count(Outcome::Failed),
            "warnings": self.count(Outcome::Warning),
            "skipped": self.count(Outcome::Skipped),
            "findings": self.findings.iter().map(Finding::as_json).collect::<Vec<_>>(),
            "permissions": self.permissions,
        })
    }

    fn summary(&self) -> String {
        let [ok, warnings, failed, skipped] =
            [Outcome::Ok, Outcome::Warning, Outcome::Failed, Outcome::Skipped].map(|outcome| self.count(outcome));
        format!("{ok} ok, {warnings} warnings, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_fails_only_if_a_check_failed() {
        let mut report = Report::default();
        report.findings.push(Finding::ok("api server", "Kubernetes v1.34.0"));
        report.findings.push(Finding::warning("clock", "6 s behind", "set the clock"));
        report.findings.push(Finding::skipped("lease", "no permission"));
        assert!(!report.has_failed());
        assert_eq!(report.as_json()["ok"], true);
        report.findings.push(Finding::failed("storage", "refused", "check storage.container"));
        assert!(report.has_failed());
        let text = report.as_text();
        let expected = "\
CHECK        RESULT    FOUND
api server   ok        Kubernetes v1.34.0
clock        warning   6 s behind
lease        skipped   no permission
storage      failed    refused

What to do:
  clock (warning): set the clock
  storage (failed): check storage.container

1 ok, 1 warnings, 1 failed, 1 skipped
";
        assert_eq!(text, expected);
        let json = report.as_json();
        assert_eq!((&json["failed"], &json["warnings"], &json["skipped"]), (&json!(1), &json!(1), &json!(1)));
    }
}
