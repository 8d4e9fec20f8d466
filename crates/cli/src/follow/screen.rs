//! Where progress is shown, and how it looks there.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::time::Instant;

use clap::builder::styling::{AnsiColor, Style};
use jiff::Timestamp;

use super::board::{Board, Key, Row};
use crate::output::colours_wanted;
use crate::summary::{Outcome, spelled};
use crate::{span, table};

/// Which stream progress goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    #[default]
    Out,
    /// The error stream, where standard output is for results.
    Err,
}

/// What a terminal is like.
#[derive(Clone, Copy, Debug)]
struct Shape {
    width: usize,
    height: usize,
    colours: bool,
}

/// A place for progress.
pub struct Screen {
    stream: Stream,
    kind: Kind,
}

enum Kind {
    /// A table, drawn over and over at the same place; so many lines of it are there.
    Live { drawn: usize },
    /// A line for each change.
    Lines { header: bool },
    /// An object for each change.
    Json,
}

/// Terminals that do not tell their size most likely have this one.
const USUAL: (u16, u16) = (80, 24);

/// What a line shows of a reason; `aileron describe` shows all of it.
const REASON: usize = 120;

/// Room for names where nobody knows which will come, and for phases: that of the longest but one.
const NAMES: usize = 24;
const PHASES: usize = 12;

const UP: &str = "\x1b[A";
const CLEAR_LINE: &str = "\x1b[2K";
/// Lines are cut rather than wrapped: a wrapped line would be two, and the next drawing would begin too low.
const HEADER: [&str; 5] = ["NAME", "PHASE", "ATTEMPT", "TIME", "REASON"];

impl Screen {
    /// A live table if the stream is a terminal, else lines.
    pub fn new(stream: Stream) -> Self {
        let is_terminal = match stream {
            Stream::Out => stdout().is_terminal(),
            Stream::Err => stderr().is_terminal(),
        };
        // A terminal that cannot move its cursor says so by this name.
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let live = is_terminal && !is_dumb;
        Self { stream, kind: if live { Kind::Live { drawn: 0 } } else { Kind::Lines { header: false } } }
    }

    /// An object for each change, on standard output.
    pub fn json() -> Self {
        Self { stream: Stream::Out, kind: Kind::Json }
    }

    /// Something changed.
    pub fn tell(&mut self, board: &Board, key: &Key) {
        let Some(row) = board.row(key) else { return };
        // Not less than their header takes.
        let names = board.longest_name().unwrap_or(NAMES).max(HEADER[0].len());
        match &mut self.kind {
            Kind::Live { .. } => self.draw(board),
            Kind::Json => self.write(&format!("{}\n", row.summary.as_json(Timestamp::now()))),
            Kind::Lines { header } => {
                let mut text = String::new();
                if !*header {
                    *header = true;
                    let _ = writeln!(
                        text,
                        "{:>8}  {:<names$} {:>7}  {:<PHASES$} REASON",
                        "ELAPSED", "NAME", "ATTEMPT", "PHASE"
                    );
                }
                let _ = writeln!(text, "{}", line(row, names, board.begin.elapsed()));
                self.write(&text);
            }
        }
    }

    /// Time went on.
    pub fn draw(&mut self, board: &Board) {
        let Kind::Live { drawn } = self.kind else { return };
        let mut text = String::new();
        for _ in 0..drawn {
            text.push_str(UP);
            text.push_str(CLEAR_LINE);
        }
        let lines = picture(&board.rows(), Instant::now(), self.shape());
        for line in &lines {
            text.push_str(line);
            text.push('\n');
        }
        self.write(&text);
        self.kind = Kind::Live { drawn: lines.len() };
    }

    /// What is there stays; whatever comes next comes below.
    pub fn finish(&mut self) {
        if let Kind::Live { drawn } = &mut self.kind {
            *drawn = 0;
        }
    }

    fn shape(&self) -> Shape {
        let size = match self.stream {
            Stream::Err => terminal_size::terminal_size_of(stderr()),
            _ => terminal_size::terminal_size_of(stdout()),
        };
        let (width, height) = size.map_or(USUAL, |(width, height)| (width.0, height.0));
        Shape { width: width.into(), height: height.into(), colours: colours_wanted() }
    }

    fn write(&self, text: &str) {
        // Whoever has closed the stream does not want to see any of it, and the actions go on all the same.
        let _ = match self.stream {
            Stream::Out => stdout().lock().write_all(text.as_bytes()).and_then(|()| stdout().flush()),
            Stream::Err => stderr().lock().write_all(text.as_bytes()),
        };
    }
}

fn line(row: &Row, names: usize, elapsed: std::time::Duration) -> String {
    let summary = &row.summary;
    let text = format!(
        "{:>7.2}s  {:<names$} {:>7}  {:<PHASES$} {}",
        elapsed.as_secs_f64(),
        summary.name,
        summary.attempts(),
        summary.phase.as_str(),
        table::cut(&summary.why(), REASON)
    );
    text.trim_end().to_owned()
}

/// The table as lines that fit.
fn picture(rows: &[&Row], now: Instant, shape: Shape) -> Vec<String> {
    if rows.is_empty() {
        return vec!["waiting for the first sign of the tasks".to_owned()];
    }
    // The header, a line for what is left out, and the line the cursor is on.
    let room = shape.height.saturating_sub(3).max(1);
    let (shown, rest) = fitting(rows, room);
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
                span::took(row.duration(now)),
                summary.why(),
            ]
        })
        .collect();
    let text = table::render_within(&HEADER, &cells, shape.width);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if shape.colours {
        for (line, row) in lines.iter_mut().skip(1).zip(&shown) {
            let phase = row.summary.phase;
            // The first occurrence behind the name is the cell: names are lower case, phases are not.
            if let (Some(colour), Some(at)) = (phase.colour(), line.find(phase.as_str())) {
                line.replace_range(at..at + phase.as_str().len(), &painted(phase.as_str(), colour));
            }
        }
    }
    if !rest.is_empty() {
        let count = |outcome| rest.iter().filter(|row| row.summary.phase.outcome() == Some(outcome)).count();
        let ended = Outcome::ALL.map(|outcome| (count(outcome), spelled(outcome.as_str(), ' ')));
        let ended: Vec<_> =
            ended.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        let ended = if ended.is_empty() { String::new() } else { format!(" ({})", ended.join(", ")) };
        lines.push(table::cut(&format!("… and {} more{ended}", rest.len()), shape.width));
    }
    lines
}

/// Those that fit, in their order; if there are too many, those that have ended make room first.
fn fitting<'a>(rows: &[&'a Row], room: usize) -> (Vec<&'a Row>, Vec<&'a Row>) {
    let mut excess = rows.len().saturating_sub(room);
    let mut left_out = vec![false; rows.len()];
    for ended in [true, false] {
        for (row, out) in rows.iter().zip(&mut left_out) {
            if excess > 0 && !*out && row.summary.phase.outcome().is_some() == ended {
                *out = true;
                excess -= 1;
            }
        }
    }
    let (out, shown): (Vec<_>, Vec<_>) = rows.iter().zip(left_out).partition(|(_, out)| *out);
    (shown.into_iter().map(|(row, _)| *row).collect(), out.into_iter().map(|(row, _)| *row).collect())
}

/// A text in a colour.
pub fn painted(text: &str, colour: AnsiColor) -> String {
    let style = Style::new().fg_color(Some(colour.into()));
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::summary::{Phase, Summary};

    fn board(phases: &[(&str, Phase)]) -> Board {
        let keys: Vec<Key> = phases.iter().map(|(name, _)| ("n".to_owned(), (*name).to_owned())).collect();
        let mut board = Board::of(&keys, false);
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
            board.see(summary, now, wall);
        }
        board
    }

    fn shape(width: usize, height: usize) -> Shape {
        Shape { width, height, colours: false }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let board = board(&[("hello", Phase::Running), ("a-name-that-is-rather-long", Phase::Failed)]);
        for width in [20, 40, 80, 200] {
            for line in picture(&board.rows(), Instant::now(), shape(width, 24)) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        let wide = picture(&board.rows(), board.begin, shape(200, 24));
        assert!(wide[1].starts_with("hello "), "{wide:?}");
        assert!(wide[1].contains("Running   1/3       0.0s   [Code] a message"), "{wide:?}");
    }

    #[test]
    fn a_low_terminal_shows_what_is_under_way() {
        let board = board(&[
            ("a", Phase::Succeeded),
            ("b", Phase::Running),
            ("c", Phase::Failed),
            ("d", Phase::Queued),
            ("e", Phase::Succeeded),
            ("f", Phase::TimedOut),
        ]);
        let lines = picture(&board.rows(), Instant::now(), shape(80, 5));
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines[1].starts_with("b ") && lines[2].starts_with("d "), "{lines:?}");
        assert_eq!(lines[3], "… and 4 more (2 succeeded, 1 failed, 1 timed out)");
    }

    #[test]
    fn colours_do_not_move_columns() {
        let board = board(&[("hello", Phase::Running)]);
        let plain = picture(&board.rows(), board.begin, shape(80, 24));
        let coloured = picture(&board.rows(), board.begin, Shape { colours: true, ..shape(80, 24) });
        assert_ne!(plain[1], coloured[1]);
        assert_eq!(plain[1], coloured[1].replace("\x1b[36m", "").replace("\x1b[0m", ""));
    }

    #[test]
    fn a_line_tells_time_name_attempt_phase_and_reason() {
        let board = board(&[("hello", Phase::Failed)]);
        let text = line(board.rows()[0], NAMES, std::time::Duration::from_millis(1234));
        assert!(
            text.starts_with("   1.23s  hello                        1/3  Failed       [Code] a message"),
            "{text}"
        );
    }
}
