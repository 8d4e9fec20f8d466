//! The report of a demo: how its tasks ended.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use crate::display::{duration, table};

/// How one task ended.
#[derive(Clone, Debug)]
pub struct TaskReport {
    /// The name of the task file.
    pub task: String,
    /// The name of the task in the report.
    pub label: String,
    /// The expected phase.
    pub expected: String,
    /// The observed phase.
    pub seen: String,
    pub attempts: u32,
    /// The reasons for which the task waited.
    pub waited: BTreeSet<String>,
    pub took: Duration,
    /// The differences between expectation and result.
    pub differences: Vec<String>,
    /// The error of the task.
    pub error: Option<String>,
}

/// A table of all tasks, and below it the differences of tasks that did not end as expected.
pub fn render(reports: &[TaskReport]) -> String {
    let header = ["TASK", "EXPECTED", "SEEN", "ATTEMPTS", "WAITED FOR", "TIME", "OK"];
    let row = |line: &TaskReport| {
        vec![
            line.label.clone(),
            line.expected.clone(),
            line.seen.clone(),
            line.attempts.to_string(),
            if line.waited.is_empty() {
                "-".into()
            } else {
                line.waited.iter().cloned().collect::<Vec<_>>().join(", ")
            },
            duration::precise(line.took),
            if line.differences.is_empty() { "yes" } else { "NO" }.to_owned(),
        ]
    };
    let rows: Vec<_> = reports.chunk_by(|a, b| a.task == b.task).flat_map(merged).map(|line| row(&line)).collect();
    let mut text = table::render(&header, &rows);
    for line in reports.iter().filter(|line| !line.differences.is_empty()) {
        let _ = writeln!(text, "\n{} did not end as expected:", line.label);
        for difference in &line.differences {
            let _ = writeln!(text, "  {difference}");
        }
        if let Some(error) = &line.error {
            let _ = writeln!(text, "  its error: {}", error.trim_end().replace('\n', "\n    "));
        }
    }
    text
}

/// Merges the copies of a task into one line if all of them ended the same way.
fn merged(copies: &[TaskReport]) -> Vec<TaskReport> {
    let [first, rest @ ..] = copies else { return Vec::new() };
    let alike =
        |line: &TaskReport| line.differences.is_empty() && (&line.seen, line.attempts) == (&first.seen, first.attempts);
    if rest.is_empty() || !copies.iter().all(alike) {
        return copies.to_vec();
    }
    let took = copies.iter().map(|line| line.took).max().unwrap_or_default();
    let waited = copies.iter().flat_map(|line| line.waited.clone()).collect();
    vec![TaskReport { label: format!("{} ({} copies)", first.task, copies.len()), waited, took, ..first.clone() }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, differences: &[&str]) -> TaskReport {
        TaskReport {
            task: label.split('-').next().unwrap_or_default().into(),
            label: label.into(),
            expected: "succeeded".into(),
            seen: "failed".into(),
            attempts: 2,
            waited: BTreeSet::new(),
            took: Duration::from_millis(1234),
            differences: differences.iter().map(ToString::to_string).collect(),
            error: Some("[Error] exit 1".into()),
        }
    }

    #[test]
    fn differences_are_listed_below_the_table() {
        let good = render(&[line("a", &[])]);
        assert_eq!(good.lines().count(), 2);
        assert_eq!(good.lines().nth(1), Some("a      succeeded   failed   2          -            1.2s   yes"));
        let bad = render(&[line("a", &[]), line("b", &["expected phase succeeded, found failed"])]);
        assert!(bad.contains("b      succeeded   failed   2          -            1.2s   NO\n"), "{bad}");
        let below =
            "\nb did not end as expected:\n  expected phase succeeded, found failed\n  its error: [Error] exit 1\n";
        assert!(bad.ends_with(below), "{bad}");
    }

    #[test]
    fn copies_that_ended_the_same_way_are_one_line() {
        let mut slow = line("q-2", &[]);
        slow.took = Duration::from_secs(3);
        slow.waited = ["Quota".to_owned()].into();
        let alike = render(&[line("a", &[]), line("q-1", &[]), slow.clone()]);
        assert!(alike.contains("q (2 copies)   succeeded   failed   2          Quota        3.0s   yes\n"), "{alike}");
        let not_alike = render(&[line("q-1", &[]), TaskReport { attempts: 1, ..slow }]);
        assert_eq!(not_alike.lines().count(), 3, "{not_alike}");
    }
}
