#![allow(clippy::unwrap_used)]

use super::*;

/// The public items of a crate of small source texts, each with its path below `src`: `a.rs:3: name` and whether an example
/// shows it.
fn items(files: &[(&str, &str)]) -> Vec<(String, bool)> {
    let source = |path: &Path| {
        let wanted = path.strip_prefix("src").unwrap().to_string_lossy().into_owned();
        let found = files.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| io::Error::other("no such source file"))
    };
    let found = public_items_with(&Path::new("src").join(files[0].0), &source).unwrap();
    found.into_iter().map(|item| (item.to_string().replace("src/", ""), item.has_example)).collect()
}

fn names(files: &[(&str, &str)]) -> Vec<String> {
    items(files).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn items_of_public_modules_are_public_and_others_are_not() {
    let found = names(&[
        ("lib.rs", "pub mod open;\nmod closed;\npub fn f() {}\nfn g() {}\npub(crate) struct S;"),
        ("open.rs", "pub const ONE: u8 = 1;\npub mod inner { pub type T = u8; }\n#[cfg(test)] pub fn only_tests() {}"),
        ("closed.rs", "pub fn hidden() {}"),
    ]);
    assert_eq!(found, ["lib.rs:3: f", "open.rs:1: ONE", "open.rs:2: T"]);
}

#[test]
fn re_exports_are_followed_through_private_modules() {
    let found = names(&[
        (
            "lib.rs",
            "mod a;\npub use a::{Deep, b::Direct as Renamed, constants};\npub use std::fmt::Debug;\npub use a::all::*;",
        ),
        (
            "a.rs",
            "pub mod b;\npub mod constants { pub const TWO: u8 = 2; }\nmod c;\npub use c::Deep;\npub mod all { pub fn x() {} }",
        ),
        ("a/b.rs", "pub struct Direct;\npub struct Other;"),
        ("a/c.rs", "pub enum Deep {}"),
    ]);
    assert_eq!(found, ["a/b.rs:1: Direct", "a/c.rs:1: Deep", "a.rs:2: TWO", "a.rs:5: x"]);
}

#[test]
fn exported_macros_are_public_wherever_they_are() {
    let found = names(&[
        ("lib.rs", "mod a;"),
        ("a.rs", "#[macro_export]\nmacro_rules! shown { () => {} }\nmacro_rules! own { () => {} }"),
    ]);
    assert_eq!(found, ["a.rs:2: shown!"]);
}

#[test]
fn only_code_that_is_compiled_and_run_is_an_example() {
    let with = |block: &str| items(&[("lib.rs", &format!("/// Text.\n///\n{block}\npub fn f() {{}}"))])[0].1;
    assert!(with("/// ```\n/// f();\n/// ```"));
    assert!(with("/// ```should_panic\n/// f();\n/// ```"));
    for other in
        ["", "/// ```\n/// ```", "/// ```ignore\n/// f();\n/// ```", "/// ```text\n/// f\n/// ```", "/// `f()`"]
    {
        assert!(!with(other), "{other}");
    }
}

#[test]
fn a_method_is_shown_by_an_example_of_its_type_or_of_another_method() {
    let text = "/// ```\n/// S::new().shown();\n/// ```\npub struct S;\nimpl S {\n/// ```\n/// S::made();\n/// ```\npub fn new() {}\n\
                pub fn made() {}\npub fn shown(&self) {}\npub fn unseen() {}\nfn own() {}\n}\nimpl Clone for S { fn clone() {} }";
    let unshown: Vec<String> =
        items(&[("lib.rs", text)]).into_iter().filter(|item| !item.1).map(|item| item.0).collect();
    assert_eq!(unshown, ["lib.rs:12: S::unseen"]);
    let text = "/// ```\n/// x.first();\n/// ```\npub trait T {\nfn first(&self);\nfn second(&self) {}\n}";
    let unshown: Vec<String> =
        items(&[("lib.rs", text)]).into_iter().filter(|item| !item.1).map(|item| item.0).collect();
    assert_eq!(unshown, ["lib.rs:6: T::second"]);
}
