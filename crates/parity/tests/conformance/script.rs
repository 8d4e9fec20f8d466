//! The format of a case.
//!
//! ```text
//! # the name of the case
//! POST configmaps {"metadata": {"name": "a"}}
//! ! PUT configmaps/a {"metadata": {"name": "a", "resourceVersion": "$rv"}}
//! ```
//!
//! A step is a verb, a path and an optional body. The verbs are HTTP methods and: `MERGE`, `JSONPATCH`, `STRATEGIC` and
//! `APPLY` for the patch types; `TABLE` for a GET as a table; `WATCH` for a watch of one second; `YAML` for a POST in YAML
//! (`\n` means a new line); `PLAIN` for a POST of plain text; `SLEEP` for a pause of half a second, because some parts of
//! the real server see a write with a delay. A path without a leading slash is in the namespace of the case. `$ns` is the
//! namespace; `$rv` and `$uid` are the last `resourceVersion` and `uid` of an answer; `$rv1` is the first `$rv` of the
//! case. A prefix before the verb says how the answer is compared: `!` not at all, `?` only status code and reason, `~`
//! messages only up to the part that a Go library produced.

use anyhow::{Context, Result, bail};

#[derive(Debug)]
pub struct Case {
    pub name: String,
    pub steps: Vec<Step>,
}

#[derive(Debug)]
pub struct Step {
    pub text: String,
    pub scope: Scope,
    pub verb: String,
    pub path: String,
    pub body: String,
}

/// Which part of an answer is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    All,
    /// Messages only up to the part that a Go library produced.
    MessagePrefix,
    CodeAndReason,
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
    let (scope, rest) = match line.split_at(1) {
        ("!", rest) => (Scope::Nothing, rest),
        ("?", rest) => (Scope::CodeAndReason, rest),
        ("~", rest) => (Scope::MessagePrefix, rest),
        _ => (Scope::All, line),
    };
    let (verb, rest) = rest.trim().split_once(' ').unwrap_or_else(|| (rest.trim(), ""));
    let (path, body) = rest.trim().split_once(' ').unwrap_or_else(|| (rest.trim(), ""));
    if path.is_empty() && verb != "SLEEP" {
        bail!("no path");
    }
    Ok(Step {
        text: line.to_owned(),
        scope,
        verb: verb.to_owned(),
        path: path.to_owned(),
        body: body.trim().to_owned(),
    })
}
