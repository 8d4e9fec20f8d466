#![allow(clippy::unwrap_used)]

use super::*;

/// A crate of small source texts, each with its path below `src`.
fn graph(files: &[(&str, &str)]) -> ModuleGraph {
    let source = |path: &Path| {
        let wanted = path.strip_prefix("src").unwrap().to_string_lossy().into_owned();
        let found = files.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| io::Error::other("no such source file"))
    };
    ModuleGraph::read_with(&Path::new("src").join(files[0].0), &source).unwrap()
}

/// `a -> b, c -> d`, for assertions.
fn arrows(graph: &ModuleGraph) -> String {
    graph.edges().map(|(from, to, _)| format!("{from} -> {to}")).collect::<Vec<_>>().join(", ")
}

#[test]
fn imports_and_paths_in_code_are_dependencies() {
    let graph = graph(&[
        ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
        ("a.rs", "use crate::{b::{self, X as Y}, c};\nfn f(x: Option<crate::d::D>) { crate::e::run(x) }"),
        ("b.rs", ""),
        ("c.rs", ""),
        ("d.rs", ""),
        ("e.rs", "use std::fmt; fn f() { fmt::format(format_args!(\"crate::a\")) }"),
    ]);
    assert_eq!(arrows(&graph), "a -> b, a -> c, a -> d, a -> e");
    assert_eq!(graph.uses["a"]["d"].to_string(), "src/a.rs:2: crate::d::D");
    assert!(graph.unresolved.is_empty());
}

#[test]
fn paths_that_climb_count_only_when_they_leave_the_top_level_module() {
    let graph = graph(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "mod x; mod y { use super::super::b::B; }"),
        ("a/x.rs", "use super::y; use self::super::y as z; fn f() { super::super::b::f(); self::g(); super::y::f() }"),
        ("b.rs", "use super::b::inner; mod inner {}"),
    ]);
    assert_eq!(arrows(&graph), "a -> b");
}

#[test]
fn a_name_of_the_crate_root_counts_for_the_module_that_defines_it() {
    let graph = graph(&[
        ("lib.rs", "mod a; mod b; mod c; pub use b::deep::Item; pub use self::c::Other as Renamed; pub use std::fmt;"),
        ("a.rs", "use crate::{Item, Renamed, fmt};"),
        ("b.rs", "mod deep;"),
        ("b/deep.rs", "pub struct Item;"),
        ("c.rs", ""),
    ]);
    assert_eq!(arrows(&graph), "a -> b, a -> c");
    assert!(graph.unresolved.is_empty());
}

#[test]
fn a_name_that_nothing_defines_is_reported() {
    let graph = graph(&[("lib.rs", "mod a; mod b; pub use b::*;"), ("a.rs", "use crate::Hidden;"), ("b.rs", "")]);
    assert_eq!(graph.unresolved[0].to_string(), "src/a.rs:1: crate::Hidden");
}

#[test]
fn arguments_of_macros_and_attributes_are_read() {
    let graph = graph(&[
        ("lib.rs", "mod a; mod b; mod c; mod d; mod e; mod f;"),
        (
            "a.rs",
            "#[derive(crate::b::B)] struct S { #[serde(with = \"crate::c::text\")] x: u8 }\n\
             fn f() { vec![1, crate::d::N]; select! { x = { crate::e::f() } => {} } }\n\
             macro_rules! m { ($x:expr) => { $crate::f::g($x) } }",
        ),
        ("b.rs", "/// See [`crate::a`].\nstruct B;"),
        ("c.rs", ""),
        ("d.rs", "pub(in crate::a) fn f() {}"),
        ("e.rs", ""),
        ("f.rs", ""),
    ]);
    assert_eq!(arrows(&graph), "a -> b, a -> c, a -> d, a -> e, a -> f");
}

#[test]
fn an_exported_macro_counts_for_the_module_that_defines_it() {
    let graph = graph(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "crate::make!(X);"),
        ("b.rs", "#[macro_export]\nmacro_rules! make { ($x:ident) => { struct $x; } }"),
    ]);
    assert_eq!(arrows(&graph), "a -> b");
}

#[test]
fn code_of_tests_is_left_out() {
    let graph = graph(&[
        ("lib.rs", "mod a; mod b; #[cfg(test)] mod fixture; mod tests;"),
        (
            "a.rs",
            "#[cfg(test)] use crate::b; #[cfg(all(test, unix))] fn f() { crate::b::f() }\n\
             #[test] fn g() { crate::b::f() } impl S { #[cfg(test)] fn h() { crate::b::f() } }\n\
             #[cfg(test)] mod tests { use crate::b; }",
        ),
        ("b.rs", "#[cfg(not(test))] use crate::a; #[cfg(any(test, unix))] fn f() {}"),
    ]);
    assert_eq!(arrows(&graph), "b -> a");
    assert_eq!(graph.modules, ["a", "b"].map(str::to_owned).into());
}

#[test]
fn the_root_is_a_module_only_if_it_has_code_or_items_in_use() {
    let plain = graph(&[("lib.rs", "mod a; pub use a::A; pub fn unused() {}"), ("a.rs", "pub struct A;")]);
    assert_eq!(plain.modules, ["a".to_owned()].into());
    let program = graph(&[
        ("main.rs", "mod a; mod b; use a::A; fn main() { b::run(std::env::args()); }"),
        ("a.rs", "use crate::A as Me;"),
        ("b.rs", ""),
    ]);
    assert_eq!(arrows(&program), "main -> a, main -> b");
    let library = graph(&[("lib.rs", "mod a; pub fn init() {}"), ("a.rs", "fn f() { crate::init() }")]);
    assert_eq!(arrows(&library), "a -> lib");
}

#[test]
fn a_module_inside_the_root_file_is_a_module() {
    let graph = graph(&[("lib.rs", "mod a { use crate::b::B; } mod b; pub use a::x;"), ("b.rs", "use crate::x;")]);
    assert_eq!(arrows(&graph), "a -> b, b -> a");
}

#[test]
fn the_shortest_cycle_is_found() {
    let cyclic = graph(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b;"),
        ("b.rs", "use crate::c;"),
        ("c.rs", "use crate::{a, d};"),
        ("d.rs", "use crate::c;"),
    ]);
    assert_eq!(cyclic.cycle().unwrap(), ["c", "d", "c"]);
    assert_eq!(cyclic.in_cycles(), ["a", "b", "c", "d"]);
    assert!(cyclic.layers().is_empty());
}

#[test]
fn layers_go_from_the_top_to_modules_without_dependencies() {
    let graph = graph(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::{b, d};"),
        ("b.rs", "use crate::c;"),
        ("c.rs", ""),
        ("d.rs", ""),
    ]);
    assert_eq!(graph.cycle(), None);
    assert_eq!(graph.layers(), [vec!["a"], vec!["b"], vec!["c", "d"]]);
}

#[test]
fn a_source_that_is_not_rust_is_an_error_with_its_line() {
    let source = |_: &Path| Ok("fn f() {}\nfn {}".to_owned());
    let error = ModuleGraph::read_with(Path::new("src/lib.rs"), &source).unwrap_err();
    assert_eq!(error.to_string(), "failed to parse src/lib.rs, line 2");
}
