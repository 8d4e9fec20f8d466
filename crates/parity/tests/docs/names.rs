//! Names of files and of code on the pages: each must exist.

use std::collections::BTreeSet;

use aileron_parity::structure::members;

use super::{all_sources, pages, read, root, rust_files};

/// File names in the rules for contributors that stand for no file.
const EXAMPLES: [&str; 2] = ["foo", "mod.rs"];

/// What looks like the path of a source file or folder in a text, with the line where it stands.
pub fn source_paths(text: &str) -> Vec<(usize, String)> {
    let is_path_char = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for word in line.split(|c| !is_path_char(c)) {
            let word = word.trim_end_matches('.').trim_start_matches("../");
            let is_file = word.ends_with(".rs") && word.len() > ".rs".len();
            let is_folder = word.contains("/src/") || word.contains("/tests/") || word.starts_with("crates/");
            if (is_file || is_folder) && !EXAMPLES.iter().any(|example| word.starts_with(example)) {
                found.push((index + 1, word.to_owned()));
            }
        }
    }
    found
}

#[test]
fn paths_are_found_in_prose_and_diagrams() {
    let text = "see `executor/src/run.rs`, (crates/idl/) or foo.rs.\n  A[\"watch<br/>watch.rs\"] src and tests/\n";
    let expected = [(1, "executor/src/run.rs"), (1, "crates/idl/"), (2, "watch.rs")];
    assert_eq!(source_paths(text), expected.map(|(line, path)| (line, path.to_owned())));
}

#[test]
fn source_files_that_pages_name_exist() {
    let mut files = Vec::new();
    for member in members(&root()).unwrap() {
        rust_files(&member.folder, &mut files);
    }
    rust_files(&root().join("examples/plugin-template/src"), &mut files);
    let files: Vec<String> = files.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let exists = |path: &str| {
        let from_root = root().join(path).exists() || root().join("crates").join(path).exists();
        // A file may be named by the end of its path, such as `reconcile/drive.rs`.
        from_root || files.iter().any(|file| file.ends_with(&format!("/{path}")))
    };
    let mut missing = Vec::new();
    for (page, text) in pages() {
        let missed = source_paths(&text).into_iter().filter(|(_, path)| !exists(path));
        missing.extend(missed.map(|(line, path)| format!("{page}:{line}: {path}")));
    }
    assert!(missing.is_empty(), "these files do not exist (any more):\n{}", missing.join("\n"));
}

#[test]
fn the_readme_names_every_crate() {
    let readme = read("README.md");
    let folders = readme.split_once("\n## Folders\n").unwrap().1.split("\n## ").next().unwrap();
    let named: BTreeSet<_> = folders
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    let crates: BTreeSet<_> = members(&root()).unwrap().into_iter().map(|member| member.name).collect();
    assert_eq!(named, crates, "the list below the heading Folders of README.md");
}

/// Words in backticks.
fn code_words(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}

#[test]
fn code_names_of_the_glossary_exist_in_the_code() {
    let glossary = read("docs/glossary.md");
    let sources = all_sources(&["src"]);
    let cells = glossary.lines().filter_map(|line| line.strip_prefix("| **")?.split('|').nth(2));
    let names: BTreeSet<&str> = cells.flat_map(code_words).collect();
    assert!(names.len() > 10, "the last column of the glossary has the names of the code");
    let missing: Vec<_> = names.iter().filter(|name| !has_word(&sources, name)).collect();
    assert!(missing.is_empty(), "no source file has these words: {missing:?}");
}
