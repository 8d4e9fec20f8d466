//! The numbered places of the plugin template, and the lists that name them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{read, root};

const TEMPLATE: &str = "examples/plugin-template";
const MARK: &str = "TODO(plugin): ";

/// The files with each step, such as `3b`, relative to the template.
fn marked(folder: &Path, found: &mut BTreeMap<(usize, String), Vec<String>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // What is built or installed there, and the page that describes the marks.
        if ["target", ".venv", "README.md"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            marked(&path, found);
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let file = path.strip_prefix(root().join(TEMPLATE)).unwrap().to_string_lossy().into_owned();
        for step in text.split(MARK).skip(1).map(|rest| rest.split('.').next().unwrap()) {
            let number = step.trim_end_matches(|c: char| c.is_ascii_lowercase()).parse().unwrap();
            found.entry((number, step.to_owned())).or_default().push(file.clone());
        }
    }
}

/// Whether a text names a file by its path, or by a folder of it.
fn names_file(text: &str, file: &str) -> bool {
    let mut ends = file.match_indices('/').map(|(at, _)| &file[..=at]).chain([file]);
    ends.any(|part| text.contains(&format!("`{part}`")) || text.contains(&format!("[{part}]")))
}

#[test]
fn the_steps_of_the_plugin_template_have_numbers_of_their_own_and_both_lists_have_them_in_order() {
    let mut found = BTreeMap::new();
    marked(&root().join(TEMPLATE), &mut found);
    let numbers: Vec<_> = found.keys().map(|(number, _)| *number).collect();
    assert!((1..=*numbers.last().unwrap()).all(|number| numbers.contains(&number)), "a number is missing: {numbers:?}");
    let guide = read("docs/writing-a-plugin.md");
    let readme = read(&format!("{TEMPLATE}/README.md"));
    for ((number, step), files) in &found {
        let [file] = files.as_slice() else { panic!("step {step} is in several places: {files:?}") };
        for (page, begin) in [(&guide, format!("| {number} |")), (&readme, format!("{number}. "))] {
            let line = page.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("no {begin:?}"));
            assert!(names_file(line, file), "step {step} is in {file}: {line}");
        }
    }
    for (page, sign) in [(&guide, " |"), (&readme, ". `")] {
        let number = |line: &str| line.trim_start_matches("| ").split_once(sign)?.0.parse::<usize>().ok();
        let listed: Vec<_> = page.lines().filter_map(number).collect();
        let last = *numbers.last().unwrap();
        let steps: Vec<_> = (1..=last).collect();
        assert!(listed.windows(last).any(|window| window == steps), "the list is not 1 to {last}: {listed:?}");
    }
}

#[test]
fn the_plugin_of_the_template_uses_the_framework_only() {
    for entry in fs::read_dir(root().join(TEMPLATE).join("src")).unwrap() {
        let path = entry.unwrap().path();
        let uses_program = fs::read_to_string(&path).unwrap().contains("aileron::");
        assert_eq!(
            uses_program,
            path.ends_with("main.rs"),
            "{}: only the program uses the crate aileron",
            path.display()
        );
    }
}
