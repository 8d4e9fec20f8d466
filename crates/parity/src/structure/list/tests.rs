#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use super::*;
use crate::structure::Place;

/// A crate in which each module uses the modules after its name.
fn graph(rows: &[(&str, &[&str])]) -> ModuleGraph {
    let mut graph = ModuleGraph::default();
    for (name, used) in rows {
        graph.modules.insert((*name).to_owned());
        let place = |to: &str| Place { file: PathBuf::from("a.rs"), line: 1, path: to.to_owned() };
        let used = used.iter().map(|to| ((*to).to_owned(), place(to)));
        graph.uses.insert((*name).to_owned(), used.collect());
    }
    graph
}

fn problems(list: &str, graph: &ModuleGraph) -> Vec<String> {
    ModuleList::parse(list).unwrap().problems(graph)
}

#[test]
fn a_list_that_is_written_from_the_code_fits_the_code() {
    let graph = graph(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]);
    let text = ModuleList::render(&graph);
    assert!(text.ends_with("\n\na: b, c\n\nb: c\n\nc\n"), "{text}");
    assert_eq!(problems(&text, &graph), Vec::<String>::new());
}

#[test]
fn each_difference_is_named() {
    let graph = graph(&[("a", &["b"]), ("b", &[]), ("new", &[])]);
    assert_eq!(
        problems("a\nb: gone\ngone", &graph),
        [
            "`b: gone` is listed, but no code of `b` uses `gone`",
            "module `gone` is listed, but does not exist",
            "module `new` has no line in the list",
            "`a` must not use `b`: it is not in the list (a.rs:1: crate::b)",
        ]
    );
}

#[test]
fn a_list_cannot_allow_a_cycle() {
    let graph = graph(&[("a", &["b"]), ("b", &["a"])]);
    assert_eq!(problems("a: b\nb: a", &graph), ["`b` may use `a`, which must stand below it in the list"]);
}

#[test]
fn a_line_that_cannot_be_read_is_an_error() {
    let error = |text: &str| ModuleList::parse(text).unwrap_err().to_string();
    assert_eq!(error("# why\na b"), "line 2: `a b` is not the name of a module; write `name: used, used`");
    assert_eq!(error("a\na: b"), "line 2: `a` has a line already");
}
