//! Generates `docs/differences.md` from the list and from the headings in the code.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::{Effect, ON_PURPOSE};

/// The heading under which a doc comment states a difference.
const HEADING: &str = "# Differs from upstream";

/// A source file could not be read.
#[derive(Debug, thiserror::Error)]
#[error("failed to read {path}")]
pub struct MarkdownError {
    /// The file or folder.
    path: PathBuf,
    /// Why it failed.
    #[source]
    source: io::Error,
}

/// What a doc comment says under the heading.
struct Stated {
    /// The file, relative to the crates folder.
    file: String,
    /// The item it belongs to; empty for a module.
    item: String,
    /// The lines of the text.
    lines: Vec<String>,
}

/// The page. `crates` is the folder of the crates.
pub fn render_markdown(crates: &Path) -> Result<String, MarkdownError> {
    let mut page = String::from(
        "# Differences from upstream\n\n\
         Aileron replaces the Go executor and keeps its behaviour. Recorded results of the Go code prove this case \
         by case. This page lists where Aileron behaves differently on purpose. It is generated: change the list \
         in `crates/parity/src/vectors/differences.rs` or the doc comments, not this file.\n\n\
         ## In recorded results\n\n",
    );
    for difference in ON_PURPOSE {
        let cases = match difference.effect {
            Effect::Normalise(_) => "",
            Effect::Skip(_) => " Recorded cases of this are not run.",
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(page, "- **{}**: {}{cases}", difference.id, difference.reason);
    }
    page.push_str("\n## In the code\n");
    let mut file = String::new();
    for stated in stated_below(crates)? {
        if stated.file != file {
            file.clone_from(&stated.file);
            let _ = write!(page, "\n### `{file}`\n\n");
        }
        page.push_str(&stated.render());
    }
    Ok(page)
}

impl Stated {
    /// The statement as an entry of a Markdown list. A statement that is a list itself becomes a nested list.
    fn render(&self) -> String {
        let is_list = self.lines.first().is_some_and(|line| line.starts_with("* ") || line.starts_with("- "));
        let lines = self.lines.join("\n  ");
        match (is_list, self.item.is_empty()) {
            (true, true) => format!("{}\n", self.lines.join("\n")),
            (true, false) => format!("- `{}`:\n  {lines}\n", self.item),
            (false, true) => format!("- {lines}\n"),
            (false, false) => format!("- `{}`: {lines}\n", self.item),
        }
    }
}

fn stated_below(crates: &Path) -> Result<Vec<Stated>, MarkdownError> {
    let mut files = Vec::new();
    collect(crates, &mut files)?;
    files.sort();
    let mut found = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).map_err(|source| MarkdownError { path: path.clone(), source })?;
        let file = path.strip_prefix(crates).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        found.extend(stated_in(&file, &text));
    }
    Ok(found)
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), MarkdownError> {
    let unreadable = |source| MarkdownError { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

fn stated_in(file: &str, text: &str) -> Vec<Stated> {
    let mut found = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((marker, HEADING)) = doc_text(line) else { continue };
        let mut stated = Stated { file: file.into(), item: String::new(), lines: Vec::new() };
        let mut ended = false;
        while let Some((_, text)) = lines.peek().and_then(|line| doc_text(line)).filter(|(m, _)| *m == marker) {
            ended |= text.starts_with('#');
            let leading = text.is_empty() && stated.lines.is_empty();
            if !ended && !leading {
                stated.lines.push(text.to_owned());
            }
            lines.next();
        }
        while stated.lines.last().is_some_and(String::is_empty) {
            stated.lines.pop();
        }
        if marker == "///" {
            let declaration = lines.clone().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("#["));
            stated.item = declaration.map(item_name).unwrap_or_default();
        }
        found.push(stated);
    }
    found
}

/// The marker and the text of a doc comment line.
fn doc_text(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    ["///", "//!"].into_iter().find_map(|marker| Some((marker, line.strip_prefix(marker)?.trim())))
}

/// The name that a declaration introduces: `pub fn build(` gives `build`.
fn item_name(declaration: &str) -> String {
    const KEYWORDS: &[&str] =
        &["pub", "async", "const", "fn", "struct", "enum", "trait", "type", "static", "mod", "impl"];
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    declaration
        .split_whitespace()
        .map(word)
        .find(|part| !part.is_empty() && !KEYWORDS.contains(&part.as_str()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_belongs_to_the_item_below_it() {
        let text = "/// Does.\n///\n/// # Differs from upstream\n/// Better\n/// than it.\n///\n/// # Errors\n/// None.\n#[must_use]\npub(crate) fn does() {}\n";
        let found = stated_in("a.rs", text);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].item, "does");
        assert_eq!(found[0].lines, ["Better", "than it."]);
    }

    #[test]
    fn a_module_heading_names_no_item() {
        let found = stated_in("a.rs", "//! M.\n//! # Differs from upstream\n//! * one\n//! * two\nuse x;\n");
        assert_eq!((found[0].item.as_str(), found[0].lines.len()), ("", 2));
    }

    #[test]
    fn mentions_in_other_places_are_no_statements() {
        assert!(stated_in("a.rs", "const HEADING: &str = \"# Differs from upstream\";\n").is_empty());
    }
}
