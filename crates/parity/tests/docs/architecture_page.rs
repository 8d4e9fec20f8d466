//! `docs/architecture.md`: generated diagrams and lists, and diagrams written by hand.

use std::fs;

use aileron_parity::structure::{Member, ModuleGraph, crate_diagram, members, module_diagram};

use super::names::source_paths;
use super::{is_current, read, root, rust_files};

/// Replaces the text between two markers of a page: `<!-- name -->` and `<!-- end of name -->`.
pub fn with_part(page: &str, name: &str, part: &str) -> String {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no {begin}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("no {end}"));
    [before, &begin, part, &end, after].concat()
}

/// The part of a page that is written by hand, without the generated parts between the markers.
fn written_by_hand(page: &str, names: &[&str]) -> String {
    names.iter().fold(page.to_owned(), |page, name| with_part(&page, name, ""))
}

const PAGE: &str = "docs/architecture.md";
const GENERATED_PARTS: [&str; 3] = ["crates", "module diagrams", "modules"];

#[test]
fn the_diagrams_and_lists_of_the_architecture_page_are_current() {
    let members = members(&root()).unwrap();
    let modules: String = members.iter().map(|member| modules_of(&member.name)).collect();
    let mut page = read(PAGE);
    for (name, part) in GENERATED_PARTS.into_iter().zip([crates_of(&members), module_diagrams(&members), modules]) {
        page = with_part(&page, name, &part);
    }
    is_current(PAGE, &page);
}

/// The diagram of the crates, and a table of what each crate is.
fn crates_of(members: &[Member]) -> String {
    let mut text = format!("\n{}\n| crate | |\n| --- | --- |\n", crate_diagram(members));
    for member in members.iter().rev() {
        let sentence = first_sentence(&fs::read_to_string(&member.root).unwrap());
        text.push_str(&format!("| `{}` | {sentence} |\n", member.name));
    }
    text.push('\n');
    text
}

/// A diagram for each crate that has a list of its modules. A crate without a list may have cycles, which have no layers.
fn module_diagrams(members: &[Member]) -> String {
    let listed = members.iter().rev().filter(|member| member.folder.join("modules.txt").exists());
    let diagram = |member: &Member| {
        let graph = ModuleGraph::read(&member.root).unwrap();
        format!("\n### Inside `{}`\n\n{}\n", member.name, module_diagram(&graph))
    };
    listed.map(diagram).collect()
}

/// A heading and a table of the modules of a crate.
fn modules_of(name: &str) -> String {
    let sources = root().join("crates").join(name).join("src");
    let mut files = Vec::new();
    rust_files(&sources, &mut files);
    let mut rows: Vec<(String, String)> = files
        .iter()
        .map(|path| (path.strip_prefix(&sources).unwrap().to_string_lossy().into_owned(), path))
        .filter(|(file, _)| !file.split(['/', '.']).any(|part| part == "tests"))
        .map(|(file, path)| (file, first_sentence(&fs::read_to_string(path).unwrap())))
        .collect();
    // The crate itself first, then each file before those in its folder.
    rows.sort_by_key(|(file, _)| {
        (!["lib.rs", "main.rs"].contains(&file.as_str()), file.trim_end_matches(".rs").to_owned())
    });
    let rows: String = rows.iter().map(|(file, sentence)| format!("| `{file}` | {sentence} |\n")).collect();
    format!("\n### `{name}`\n\n| file | |\n| --- | --- |\n{rows}\n")
}

/// The first sentence of a module's documentation, for a table cell.
fn first_sentence(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let sentence = paragraph.split_once(". ").map_or(paragraph.as_str(), |(sentence, _)| sentence);
    // Links of the API documentation do not work in the page, so only their texts are kept.
    let mut text = String::new();
    for (index, part) in sentence.trim_end_matches('.').split('`').enumerate() {
        let is_code = index % 2 == 1;
        if index > 0 {
            text.push('`');
        }
        if is_code {
            text.push_str(part);
        } else {
            let mut pieces = part.split("](");
            text.push_str(pieces.next().unwrap_or_default());
            for piece in pieces {
                text.push_str(piece.split_once(')').map_or("", |(_, rest)| rest));
            }
            text.retain(|c| c != '[' && c != ']');
        }
    }
    text.replace('|', "\\|")
}

#[test]
fn modules_in_hand_written_diagrams_exist() {
    let page = written_by_hand(&read(PAGE), &GENERATED_PARTS);
    let mut missing = Vec::new();
    for diagram in page.split("```mermaid\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        // A box for code has the path of its file in its second line.
        let files = source_paths(diagram);
        assert!(!files.is_empty(), "no box names a file:\n{diagram}");
        missing
            .extend(files.into_iter().map(|(_, path)| path).filter(|path| !root().join("crates").join(path).exists()));
    }
    assert!(missing.is_empty(), "{missing:?}");
}
