//! The list of what the modules of a crate may use: `modules.txt` beside its manifest.
//!
//! One line for each module, `name: used, used`. Blank lines separate layers. Modules stand from top to bottom: each may
//! use only modules below it, so a list that is in order has no cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::ModuleGraph;

const HEADER: &str = "\
# The top-level modules of this crate, and what each of them uses. A module uses only modules that stand below it.
# crates/parity/tests/architecture.rs compares this list with the code. To write it from the code:
# UPDATE_DOCS=1 cargo test -p aileron-parity --test architecture
";

/// A line of a list that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ListError {
    /// The line, counted from 1.
    line: usize,
    /// What is wrong with it.
    problem: String,
}

/// What each module of a crate may use, in the order of the list.
#[derive(Debug, PartialEq, Eq)]
pub struct ModuleList {
    rows: Vec<(String, BTreeSet<String>)>,
}

impl ModuleList {
    /// Reads a list.
    pub fn parse(text: &str) -> Result<Self, ListError> {
        let mut rows: Vec<(String, BTreeSet<String>)> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let error = |problem| ListError { line: index + 1, problem };
            let (name, used) = line.split_once(':').unwrap_or((line, ""));
            let used: BTreeSet<String> =
                used.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
            let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if let Some(bad) = [name].into_iter().chain(used.iter().map(String::as_str)).find(|name| !is_name(name)) {
                return Err(error(format!("`{bad}` is not the name of a module; write `name: used, used`")));
            }
            if rows.iter().any(|(other, _)| other == name) {
                return Err(error(format!("`{name}` has a line already")));
            }
            rows.push((name.to_owned(), used));
        }
        Ok(Self { rows })
    }

    /// All differences between the list and the code, and all errors in the list itself.
    pub fn problems(&self, graph: &ModuleGraph) -> Vec<String> {
        let mut problems = Vec::new();
        let mut above: BTreeSet<&str> = BTreeSet::new();
        let listed: BTreeMap<&str, &BTreeSet<String>> =
            self.rows.iter().map(|(name, used)| (name.as_str(), used)).collect();
        for (name, used) in &self.rows {
            above.insert(name);
            if !graph.modules.contains(name) {
                problems.push(format!("module `{name}` is listed, but does not exist"));
            }
            for other in used {
                if above.contains(other.as_str()) {
                    problems.push(format!("`{name}` may use `{other}`, which must stand below it in the list"));
                }
                if graph.modules.contains(name) && !graph.uses.get(name).is_some_and(|used| used.contains_key(other)) {
                    problems.push(format!("`{name}: {other}` is listed, but no code of `{name}` uses `{other}`"));
                }
            }
        }
        for module in &graph.modules {
            if !listed.contains_key(module.as_str()) {
                problems.push(format!("module `{module}` has no line in the list"));
            }
        }
        for (from, to, place) in graph.edges() {
            if listed.get(from).is_some_and(|used| !used.contains(to)) {
                problems.push(format!("`{from}` must not use `{to}`: it is not in the list ({place})"));
            }
        }
        problems
    }

    /// The list that describes a crate without cycles.
    pub fn render(graph: &ModuleGraph) -> String {
        let mut text = HEADER.to_owned();
        for layer in graph.layers() {
            text.push('\n');
            for module in layer {
                let used: Vec<&str> =
                    graph.uses.get(&module).into_iter().flatten().map(|(to, _)| to.as_str()).collect();
                let colon = if used.is_empty() { "" } else { ": " };
                // Writing to a `String` cannot fail.
                let _ = writeln!(text, "{module}{colon}{}", used.join(", "));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests;
