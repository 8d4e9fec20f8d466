//! Shows the progress of actions on a stream.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::time::Instant;

use clap::builder::styling::{AnsiColor, Style};
use jiff::Timestamp;

use super::tracked::{Key, Row, TrackedActions};
use crate::action::{Outcome, split_words};
use crate::display::output::colours_allowed;
use crate::display::printable::printable;
use crate::display::{duration, table};

/// Where progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgressTarget {
    /// On standard output.
    #[default]
    Stdout,
    /// On the error stream, because standard output is for results.
    Stderr,
    /// Nowhere.
    Nowhere,
}

/// The properties of a terminal.
#[derive(Clone, Copy, Debug)]
struct Terminal {
    width: usize,
    height: usize,
    colours: bool,
}

/// Shows progress.
pub struct ProgressView {
    target: ProgressTarget,
    style: ViewStyle,
}

enum ViewStyle {
    /// A table that is redrawn in place. `lines` is the number of lines that are on the terminal.
    Live { lines: usize },
    /// One line per change. `has_header` is true once the header is written.
    Lines { has_header: bool },
    /// One JSON object per change.
    Json,
}

/// Width and height of a terminal that does not report its size: the usual default.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// A line shows at most this many characters of a reason. `aileron describe` shows all of it.
const REASON_WIDTH: usize = 120;

/// The width of the column of names where the names are not known in advance.
const NAME_WIDTH: usize = 24;
/// The width of the column of phases: that of `Initializing`. Only `WaitingForCache` is longer.
const PHASE_WIDTH: usize = 12;

/// Control sequences of terminals: cursor one line up, and clear the line.
const UP: &str = "\x1b[A";
const CLEAR_LINE: &str = "\x1b[2K";

/// The columns of the live table.
const HEADER: [&str; 5] = ["NAME", "PHASE", "ATTEMPT", "TIME", "REASON"];

impl ProgressView {
    /// A live table if the target is a terminal, else one line per change.
    pub fn new(target: ProgressTarget) -> Self {
        let is_terminal = match target {
            ProgressTarget::Stdout => stdout().is_terminal(),
            ProgressTarget::Stderr => stderr().is_terminal(),
            ProgressTarget::Nowhere => false,
        };
        // TERM=dumb means that the terminal cannot move its cursor.
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let live = is_terminal && !is_dumb;
        Self { target, style: if live { ViewStyle::Live { lines: 0 } } else { ViewStyle::Lines { has_header: false } } }
    }

    /// One JSON object per change, on standard output.
    pub fn json() -> Self {
        Self { target: ProgressTarget::Stdout, style: ViewStyle::Json }
    }

    /// Shows the new state of an action.
    pub fn show_change(&mut self, tracked: &TrackedActions, key: &Key) {
        let Some(row) = tracked.row(key) else { return };
        // At least as wide as the header of the column.
        let names = tracked.longest_name().unwrap_or(NAME_WIDTH).max(HEADER[0].len());
        match &mut self.style {
            ViewStyle::Live { .. } => self.redraw(tracked),
            ViewStyle::Json => self.write(&printable(&format!("{}\n", row.summary.as_json(Timestamp::now())))),
            ViewStyle::Lines { has_header } => {
                let mut text = String::new();
                if !*has_header {
                    *has_header = true;
                    let _ = writeln!(
                        text,
                        "{:>8}  {:<names$} {:>7}  {:<PHASE_WIDTH$} REASON",
                        "ELAPSED", "NAME", "ATTEMPT", "PHASE"
                    );
                }
                let _ = writeln!(text, "{}", line(row, names, tracked.begin.elapsed()));
                self.write(&text);
            }
        }
    }

    /// Redraws a live table.
    pub fn redraw(&mut self, tracked: &TrackedActions) {
        let ViewStyle::Live { lines } = self.style else { return };
        let mut text = String::new();
        for _ in 0..lines {
            text.push_str(UP);
            text.push_str(CLEAR_LINE);
        }
        let lines = table_lines(&tracked.rows(), Instant::now(), self.terminal());
        for line in &lines {
            text.push_str(line);
            text.push('\n');
        }
        self.write(&text);
        self.style = ViewStyle::Live { lines: lines.len() };
    }

    /// Leaves the table on the terminal. Further output is written below it.
    pub fn finish(&mut self) {
        if let ViewStyle::Live { lines } = &mut self.style {
            *lines = 0;
        }
    }

    fn terminal(&self) -> Terminal {
        let size = match self.target {
            ProgressTarget::Stderr => terminal_size::terminal_size_of(stderr()),
            _ => terminal_size::terminal_size_of(stdout()),
        };
        let (width, height) = size.map_or(DEFAULT_SIZE, |(width, height)| (width.0, height.0));
        Terminal { width: width.into(), height: height.into(), colours: colours_allowed() }
    }

    fn write(&self, text: &str) {
        // A closed stream is not an error: the actions continue without a reader.
        let _ = match self.target {
            ProgressTarget::Stdout => stdout().lock().write_all(text.as_bytes()).and_then(|()| stdout().flush()),
            ProgressTarget::Stderr => stderr().lock().write_all(text.as_bytes()),
            ProgressTarget::Nowhere => Ok(()),
        };
    }
}

fn line(row: &Row, names: usize, elapsed: std::time::Duration) -> String {
    let summary = &row.summary;
    let text = format!(
        "{:>7.2}s  {:<names$} {:>7}  {:<PHASE_WIDTH$} {}",
        elapsed.as_secs_f64(),
        summary.name,
        summary.attempts(),
        summary.phase.as_str(),
        table::truncate(&printable(&summary.explanation()), REASON_WIDTH)
    );
    text.trim_end().to_owned()
}

/// The live table. No line is wider than the terminal: a wrapped line would take two lines, and the next table would be
/// drawn too low.
fn table_lines(rows: &[&Row], now: Instant, terminal: Terminal) -> Vec<String> {
    if rows.is_empty() {
        return vec!["waiting for the tasks to be created".to_owned()];
    }
    // Three lines are reserved: the header, the line about hidden rows, and the line of the cursor.
    let room = terminal.height.saturating_sub(3).max(1);
    let (shown, hidden) = fit_rows(rows, room);
    let several = shown.iter().any(|row| row.summary.namespace != shown[0].summary.namespace);
    let cells: Vec<Vec<String>> = shown
        .iter()
        .map(|row| {
            let summary = &row.summary;
            let name = if several { format!("{}/{}", summary.namespace, summary.name) } else { summary.name.clone() };
            vec![
                name,
                summary.phase.as_str().to_owned(),
                summary.attempts(),
                duration::precise(row.duration(now)),
                summary.explanation(),
            ]
        })
        .collect();
    let text = table::render_truncated(&HEADER, &cells, terminal.width);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if terminal.colours {
        for (line, row) in lines.iter_mut().skip(1).zip(&shown) {
            let phase = row.summary.phase;
            // The first occurrence is the cell of the phase: phases begin with a capital letter, names have none.
            if let (Some(colour), Some(at)) = (phase.colour(), line.find(phase.as_str())) {
                line.replace_range(at..at + phase.as_str().len(), &coloured(phase.as_str(), colour));
            }
        }
    }
    if !hidden.is_empty() {
        let count = |outcome| hidden.iter().filter(|row| row.summary.phase.outcome() == Some(outcome)).count();
        let ended = Outcome::ALL.map(|outcome| (count(outcome), split_words(outcome.as_str(), ' ')));
        let ended: Vec<_> =
            ended.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        let ended = if ended.is_empty() { String::new() } else { format!(" ({})", ended.join(", ")) };
        lines.push(table::truncate(&format!("… and {} more{ended}", hidden.len()), terminal.width));
    }
    lines
}

/// The rows that fit into `room` lines, and the hidden rows. Actions that have ended are hidden first.
fn fit_rows<'a>(rows: &[&'a Row], room: usize) -> (Vec<&'a Row>, Vec<&'a Row>) {
    let mut excess = rows.len().saturating_sub(room);
    let mut is_hidden = vec![false; rows.len()];
    for ended in [true, false] {
        for (row, hidden) in rows.iter().zip(&mut is_hidden) {
            if excess > 0 && !*hidden && row.summary.phase.outcome().is_some() == ended {
                *hidden = true;
                excess -= 1;
            }
        }
    }
    let (hidden, shown): (Vec<_>, Vec<_>) = rows.iter().zip(is_hidden).partition(|(_, hidden)| *hidden);
    (shown.into_iter().map(|(row, _)| *row).collect(), hidden.into_iter().map(|(row, _)| *row).collect())
}

/// A text in a colour.
fn coloured(text: &str, colour: AnsiColor) -> String {
    let style = Style::new().fg_color(Some(colour.into()));
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::action::{DisplayPhase, Summary};

    fn tracked(phases: &[(&str, DisplayPhase)]) -> TrackedActions {
        let keys: Vec<Key> = phases.iter().map(|(name, _)| ("n".to_owned(), (*name).to_owned())).collect();
        let mut tracked = TrackedActions::exactly(&keys, false);
        let (now, wall) = (Instant::now(), Timestamp::UNIX_EPOCH);
        for (name, phase) in phases {
            let summary = Summary {
                namespace: "n".into(),
                name: (*name).into(),
                run: "r".into(),
                action: "a0".into(),
                task_type: "container".into(),
                phase: *phase,
                attempt: 1,
                max_attempts: 3,
                system_failures: 0,
                reason: "Code".into(),
                message: "a message that is longer than the terminal is wide, which happens all the time".into(),
                pending: None,
                created: Some(wall),
                ended: None,
            };
            tracked.update(summary, now, wall);
        }
        tracked
    }

    fn terminal(width: usize, height: usize) -> Terminal {
        Terminal { width, height, colours: false }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let tracked =
            tracked(&[("hello", DisplayPhase::Running), ("a-name-that-is-rather-long", DisplayPhase::Failed)]);
        for width in [20, 40, 80, 200] {
            for line in table_lines(&tracked.rows(), Instant::now(), terminal(width, 24)) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        let wide = table_lines(&tracked.rows(), tracked.begin, terminal(200, 24));
        assert!(wide[1].starts_with("hello "), "{wide:?}");
        assert!(wide[1].contains("Running   1/3       0.0s   [Code] a message"), "{wide:?}");
    }

    #[test]
    fn a_low_terminal_hides_actions_that_have_ended() {
        let tracked = tracked(&[
            ("a", DisplayPhase::Succeeded),
            ("b", DisplayPhase::Running),
            ("c", DisplayPhase::Failed),
            ("d", DisplayPhase::Queued),
            ("e", DisplayPhase::Succeeded),
            ("f", DisplayPhase::TimedOut),
        ]);
        let lines = table_lines(&tracked.rows(), Instant::now(), terminal(80, 5));
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines[1].starts_with("b ") && lines[2].starts_with("d "), "{lines:?}");
        assert_eq!(lines[3], "… and 4 more (2 succeeded, 1 failed, 1 timed out)");
    }

    #[test]
    fn colours_do_not_move_columns() {
        let tracked = tracked(&[("hello", DisplayPhase::Running)]);
        let plain = table_lines(&tracked.rows(), tracked.begin, terminal(80, 24));
        let coloured = table_lines(&tracked.rows(), tracked.begin, Terminal { colours: true, ..terminal(80, 24) });
        assert_ne!(plain[1], coloured[1]);
        assert_eq!(plain[1], coloured[1].replace("\x1b[36m", "").replace("\x1b[0m", ""));
    }

    #[test]
    fn a_line_tells_time_name_attempt_phase_and_reason() {
        let tracked = tracked(&[("hello", DisplayPhase::Failed)]);
        let text = line(tracked.rows()[0], NAME_WIDTH, std::time::Duration::from_millis(1234));
        assert!(
            text.starts_with("   1.23s  hello                        1/3  Failed       [Code] a message"),
            "{text}"
        );
    }
}
