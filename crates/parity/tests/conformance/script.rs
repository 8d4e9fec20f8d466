//! How a case is written.
//!
//! ```text
//! # what the case is about
//! POST configmaps {"metadata": {"name": "a"}}
//! ! PUT configmaps/a {"metadata": {"name": "a", "resourceVersion": "$rv"}}
//! ```
//!
//! A step is a verb, a path and perhaps a body. Verbs: HTTP methods; `MERGE`, `JSONPATCH`, `STRATEGIC` and `APPLY` for
//! the kinds of patches; `TABLE` for a GET as a table; `WATCH` for a watch of a second; `YAML` for a POST in YAML
//! (`\n` means a new line); `PLAIN` for a POST of plain text; `SLEEP` for half a second, since some parts of the real
//! server see a write a moment later. A path without a leading slash is in the namespace of the case. `$ns`, `$rv` and
//! `$uid` stand for the namespace and for what the last answer with such had; `$rv1` for the first `$rv` of the case.
//! Before the verb, `!` means that the answer does not matter, `?` that only code and reason do, and `~` that of a
//! message only the beginning counts, up to where it speaks of Go.

use anyhow::{Context, Result, bail};

#[derive(Debug)]
pub struct Case {
    pub name: String,
    pub steps: Vec<Step>,
}

#[derive(Debug)]
pub struct Step {
    pub text: String,
    pub care: Care,
    pub verb: String,
    pub path: String,
    pub body: String,
}

/// How much of an answer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    All,
    Begin,
    Reason,
    Nothing,
}

pub fn parse(text: &str) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix("# ") {
            cases.push(Case { name: name.to_owned(), steps: Vec::new() });
            continue;
        }
        let step = step(line).with_context(|| format!("in {line:?}"))?;
        cases.last_mut().context("a step before the first case")?.steps.push(step);
    }
    if let Some(empty) = cases.iter().find(|case| case.steps.is_empty()) {
        bail!("{} has no steps", empty.name);
    }
    Ok(cases)
}

fn step(line: &str) -> Result<Step> {
    let (care, rest) = match line.split_at(1) {
        ("!", rest) => (Care::Nothing, rest),
        ("?", rest) => (Care::Reason, rest),
        ("~", rest) => (Care::Begin, rest),
        _ => (Care::All, line),
    };
    let (verb, rest) = rest.trim().split_once(' ').unwrap_or_else(|| (rest.trim(), ""));
    let (path, body) = rest.trim().split_once(' ').unwrap_or_else(|| (rest.trim(), ""));
    if path.is_empty() && verb != "SLEEP" {
        bail!("no path");
    }
    Ok(Step { text: line.to_owned(), care, verb: verb.to_owned(), path: path.to_owned(), body: body.trim().to_owned() })
}
