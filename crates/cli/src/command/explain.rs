//! `aileron explain`: shows for each field of an object where its value comes from.

use aileron_preview::explain::{Explanation, Field, Lost, Source, explain as explain_object};
use serde_json::Value;

use super::render::{explain_failure, offline};
use crate::arguments::{ExplainArguments, ExplainFormat};
use crate::display::output;
use crate::display::table::truncate;
use crate::failure::Failure;
use crate::program::Program;

/// The source of a value that a layer sets by itself.
const BUILT_IN: &str = "built in";
/// Cells up to this width are aligned. A wider cell shifts the rest of its line only.
const MAX_ALIGNED_WIDTH: usize = 96;
/// Values in the table are truncated to this width. JSON shows the whole value.
const VALUE_WIDTH: usize = 40;

pub fn run(program: &Program, arguments: &ExplainArguments, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    let (offline, loaded) = offline(program, &arguments.task, overrides)?;
    let mut explanation = explain_object(&offline, &loaded).map_err(|error| explain_failure(&arguments.task, error))?;
    if let Some(wanted) = &arguments.field {
        select(&mut explanation, wanted)?;
    }
    match (arguments.output, &arguments.field) {
        (ExplainFormat::Json, _) => output::print_json(&explanation.to_json()),
        (ExplainFormat::Text, None) => output::print(&as_table(&explanation)),
        // The user has selected a few fields: show everything about them.
        (ExplainFormat::Text, Some(_)) => output::print(&explanation.fields.iter().map(in_full).collect::<String>()),
    }
}

/// Removes all fields except the selected one and the fields inside it.
fn select(explanation: &mut Explanation, wanted: &str) -> Result<(), Failure> {
    let wanted = wanted.trim_start_matches('.');
    if !explanation.fields.iter().any(|field| field.path.is_within(wanted)) {
        return Err(Failure::Usage(format!(
            "--field {wanted}: the object has no such field{}",
            existing_fields(explanation, wanted)
        )));
    }
    explanation.fields.retain(|field| field.path.is_within(wanted));
    Ok(())
}

/// The fields that exist at the deepest part of the path that exists.
fn existing_fields(explanation: &Explanation, wanted: &str) -> String {
    let cuts = wanted.match_indices(['.', '[']).map(|(place, _)| place);
    let mut reached: Vec<&str> = cuts.map(|place| &wanted[..place]).collect();
    reached.insert(0, "");
    let inside = |parent: &str| -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for field in explanation.fields.iter().filter(|field| field.path.is_within(parent)) {
            let lengths = 1..=field.path.segments().len();
            let child =
                lengths.map(|length| field.path.prefix(length)).find(|path| path.to_string().len() > parent.len());
            if let Some(child) = child.map(|path| path.to_string()).filter(|child| !names.contains(child)) {
                names.push(child);
            }
        }
        names
    };
    let found = reached.iter().rev().map(|parent| inside(parent)).find(|names| !names.is_empty());
    found.map_or_else(String::new, |names| format!("; these exist: {}", names.join(", ")))
}

/// The table of all fields. One long path does not widen the column for all other lines.
fn as_table(explanation: &Explanation) -> String {
    let header = ["FIELD", "VALUE", "LAYER", "SOURCE", "LOST"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(header).chain(explanation.fields.iter().map(row)).collect();
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.filter(|width| *width <= MAX_ALIGNED_WIDTH).max().unwrap_or_default()
    };
    let widths = [0, 1, 2, 3, 4].map(width);
    let line = |row: &[String; 5]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("   ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn row(field: &Field) -> [String; 5] {
    let lost = |lost: &Lost| format!("{} ({})", shown(&lost.value), lost.layer);
    [
        field.path.to_string(),
        shown(&field.value),
        field.layer.clone(),
        source(field),
        field.lost.iter().map(lost).collect::<Vec<_>>().join(", "),
    ]
}

/// Everything about one field.
fn in_full(field: &Field) -> String {
    let mut text = format!("{} = {}\n  layer     {}\n", field.path, field.value, field.layer);
    let mut line = |label: &str, content: &dyn std::fmt::Display| text.push_str(&format!("  {label:<9} {content}\n"));
    field.sources.iter().for_each(|source| line("source", source));
    if field.sources.is_empty() && field.conditions.is_empty() {
        line("source", &BUILT_IN);
    }
    field.conditions.iter().for_each(|source| line("because", source));
    for Lost { layer, value, source } in &field.lost {
        let from = source.as_ref().map_or_else(String::new, |source| format!(" from {source}"));
        line("lost", &format!("{value} of layer {layer}{from}"));
    }
    text
}

/// Where the value comes from. If nothing is known, the conditions that decided that the field is set.
fn source(field: &Field) -> String {
    let joined = |sources: &[Source]| sources.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match (field.sources.is_empty(), field.conditions.is_empty()) {
        (false, _) => joined(&field.sources),
        (true, false) => format!("because of {}", joined(&field.conditions)),
        (true, true) => BUILT_IN.to_owned(),
    }
}

fn shown(value: &Value) -> String {
    truncate(&value.to_string(), VALUE_WIDTH)
}
