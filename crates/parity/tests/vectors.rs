//! The recorded cases that must pass, and the page that lists what differs on purpose.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};

use aileron_parity::differences::render_markdown;
use aileron_parity::vectors::case::Case;
use aileron_parity::vectors::run_where;
use aileron_parity::vectors::selection::Selection;
use serde_json::Value;

/// What must pass today. The rest waits for its plugins.
const MUST_PASS: &str = "quantity,names,template,config,metadata,state,gc,podhelper,tasklog,build/pod,build/real-sdk-pod,\
                         phase/pod,manager,reconcile";

/// Plugins whose objects belong to an operator; their cases are selected when they are there.
const WAITING: &[&str] = &["spark", "ray", "dask", "pytorch", "tensorflow", "mpi", "clustered-task"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/open")
}

/// The plugin that serves the case, where it is one that is waited for.
fn is_ready(case: &Case) -> bool {
    let task_type = case.input("taskAction").pointer("/spec/taskType");
    let served_by = case.input.get("plugin").or(task_type).and_then(Value::as_str).unwrap_or_default();
    !WAITING.contains(&served_by) && !case.function().starts_with("spark.")
}

#[test]
fn recorded_cases_pass() {
    let report = run_where(&folder(), &Selection::parse(MUST_PASS), None, is_ready).unwrap();
    assert_eq!(report.failed().count(), 0, "\n{}", report.render(false));
    assert!(report.counts().passed > 1000, "too few cases were run:\n{}", report.render(false));
}

#[test]
fn every_case_is_readable() {
    let cases = aileron_parity::vectors::case::load(&folder()).unwrap();
    assert!(cases.len() >= 1685, "only {} cases", cases.len());
}

/// Run with `UPDATE=1` to write the page.
#[test]
fn the_page_of_differences_is_current() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let file = crates.join("../docs/differences.md");
    let page = render_markdown(&crates).unwrap();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == page, "docs/differences.md is not what the code says; run this test with UPDATE=1");
}
