//! The documentation of the plugin framework teaches by examples: every item that a plugin can use has one.

use aileron_parity::structure::public_items;

use super::{read, root};

#[test]
fn every_public_item_of_the_plugin_framework_has_an_example() {
    let items = public_items(&root().join("crates/machinery/src/lib.rs")).unwrap();
    assert!(items.len() > 200, "only {} public items were found", items.len());
    let missing: Vec<String> = items.iter().filter(|item| !item.has_example).map(ToString::to_string).collect();
    assert!(
        missing.is_empty(),
        "{} public items have no example that is compiled and run, in their documentation or, for methods, in that of the type:\n{}",
        missing.len(),
        missing.join("\n").replace(&format!("{}/", root().display()), "")
    );
}

/// A plugin with its test has fewer lines than this.
const SMALLEST_PLUGIN_LINES: usize = 40;

#[test]
fn the_smallest_plugin_in_the_page_is_the_compiled_file_and_small() {
    let source = read("crates/machinery/tests/smallest_plugin.rs");
    assert!(source.contains("#[test]") && source.lines().count() < SMALLEST_PLUGIN_LINES, "{source}");
    let page = read("docs/writing-a-plugin.md");
    assert!(
        page.contains(&format!("```rust\n{source}```\n")),
        "docs/writing-a-plugin.md does not show this:\n{source}"
    );
}

/// Files that `make test` compiles and whose code runs in tests.
const COMPILED: [&str; 8] = [
    "crates/machinery/tests/smallest_plugin.rs",
    "crates/machinery/tests/plugin_example.rs",
    "crates/parity/tests/plugin_from_the_guide.rs",
    "examples/plugin-template/src/main.rs",
    "examples/plugin-template/src/plugin.rs",
    "examples/plugin-template/src/resource.rs",
    "examples/plugin-template/src/section.rs",
    "examples/plugin-template/tests/conformance.rs",
];

#[test]
fn every_snippet_of_the_guide_is_a_part_of_a_compiled_file() {
    // Snippets begin at the margin, whatever their indentation in the file is.
    let lines = |text: &str| -> String { text.lines().map(|line| format!("{}\n", line.trim())).collect() };
    let compiled: Vec<String> = COMPILED.iter().map(|file| lines(&read(file))).collect();
    let page = read("docs/writing-a-plugin.md");
    let snippets: Vec<&str> =
        page.split("```rust").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
    assert!(snippets.len() >= 8, "only {} snippets were found", snippets.len());
    for snippet in snippets {
        let (attributes, code) = snippet.split_once('\n').unwrap();
        assert_eq!(attributes, "", "a snippet that is not compiled:\n{code}");
        let is_part = compiled.iter().any(|file| file.contains(&lines(code)));
        assert!(is_part, "docs/writing-a-plugin.md shows code that is in none of {COMPILED:?}:\n{code}");
    }
}
