//! Writing results to standard output, and messages to the error stream.

use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};

use anyhow::Context;
use clap::builder::styling::{AnsiColor, Style};

use super::printable::printable;
use super::table;
use crate::failure::Failure;

/// Writes a result to standard output. It may contain texts of others, so control characters are shown by their code.
///
/// A closed pipe is not an error: a reader such as `head` closes it as soon as it has enough lines.
pub fn print(text: &str) -> Result<(), Failure> {
    print_unchanged(&printable(text))
}

/// Writes to standard output, with control characters: the log of a task may have colours, as with `kubectl logs`.
pub fn print_unchanged(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other.context("cannot write to standard output")?),
    }
}

/// As [`print`], but lines that are wider than the terminal are truncated instead of wrapped.
pub fn print_truncated(text: &str) -> Result<(), Failure> {
    let width = if stdout().is_terminal() { terminal_size::terminal_size_of(stdout()) } else { None };
    match width {
        Some((width, _)) => {
            print(&text.lines().map(|line| table::truncate(line, width.0.into()) + "\n").collect::<String>())
        }
        None => print(text),
    }
}

/// Writes a value as indented JSON.
pub fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

/// Writes why the program ends to the error stream.
pub fn report_failure(failure: &Failure) {
    let text = failure.to_string();
    for (index, line) in text.lines().enumerate() {
        match failure {
            // Further lines of one error are indented. Of a usage error each line is an error of its own.
            Failure::Failed(_) if index > 0 => note(&format!("       {line}")),
            _ => label("error", AnsiColor::Red, line),
        }
    }
}

/// Writes a warning to the error stream.
pub fn warn(text: &str) {
    label("warning", AnsiColor::Yellow, text);
}

/// Writes a value as YAML. Another program that reads it must get the value as it is.
pub fn print_yaml(value: &serde_json::Value) -> Result<(), Failure> {
    let text = serde_saphyr::to_string(value).context("cannot print as YAML")?;
    if stdout().is_terminal() { print(&text) } else { print_unchanged(&text) }
}

/// Writes a message to the error stream that is not part of the result.
pub fn note(text: &str) {
    // If the error stream is closed, there is no other place for the message.
    let _ = writeln!(stderr(), "{}", printable(text));
}

/// True if messages on the error stream may have colours.
pub fn stderr_has_colours() -> bool {
    stderr().is_terminal() && colours_allowed()
}

/// False if the user has set `NO_COLOR` (<https://no-color.org>).
pub fn colours_allowed() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn label(word: &str, colour: AnsiColor, text: &str) {
    let style = if stderr_has_colours() { Style::new().bold().fg_color(Some(colour.into())) } else { Style::new() };
    // If the error stream is closed, there is no other place for the message.
    let _ = writeln!(stderr(), "{style}{word}{style:#}: {}", printable(text));
}
