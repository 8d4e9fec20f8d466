//! Writing to the terminal, or to whatever stands in for it.

use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};

use anyhow::Context;
use clap::builder::styling::{AnsiColor, Style};

use crate::failure::Failure;
use crate::table;

/// Writes a result. A reader that has seen enough, such as `head`, is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other.context("cannot write to standard output")?),
    }
}

/// As [`print`], with lines that fit if a terminal reads them: what is too long is cut and not wrapped.
pub fn print_lines(text: &str) -> Result<(), Failure> {
    let width = if stdout().is_terminal() { terminal_size::terminal_size_of(stdout()) } else { None };
    match width {
        Some((width, _)) => {
            print(&text.lines().map(|line| table::cut(line, width.0.into()) + "\n").collect::<String>())
        }
        None => print(text),
    }
}

/// Writes a value as JSON that people can read.
pub fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

/// Says why the program ends.
pub fn complain(failure: &Failure) {
    let text = failure.to_string();
    for (index, line) in text.lines().enumerate() {
        match failure {
            // Several lines of one story; mistakes in files are one on each line.
            Failure::Failed(_) if index > 0 => note(&format!("       {line}")),
            _ => label("error", AnsiColor::Red, line),
        }
    }
}

/// Says something that does not stop the program.
pub fn warn(text: &str) {
    label("warning", AnsiColor::Yellow, text);
}

/// Writes a value as YAML.
pub fn print_yaml(value: &serde_json::Value) -> Result<(), Failure> {
    print(&serde_saphyr::to_string(value).context("cannot print as YAML")?)
}

/// Says something that the reader should know, apart from results.
pub fn note(text: &str) {
    // Nothing can be done if even this cannot be written.
    let _ = writeln!(stderr(), "{text}");
}

/// True when colours help whoever reads the error stream.
pub fn has_colours() -> bool {
    stderr().is_terminal() && colours_wanted()
}

/// True unless the user wants no colours anywhere.
pub fn colours_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn label(word: &str, colour: AnsiColor, text: &str) {
    let style = if has_colours() { Style::new().bold().fg_color(Some(colour.into())) } else { Style::new() };
    // Nothing can be done if even this cannot be written.
    let _ = writeln!(stderr(), "{style}{word}{style:#}: {text}");
}
