//! Compares the marks "no effect" with the sources of all crates: a field that no code reads must be marked, and a
//! field that is marked must not be read.
//!
//! The sources are searched for `.field`. A field with a common name may therefore look as if it were read, but a field
//! that is found nowhere is surely not read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A field of a configuration type.
struct Field {
    name: String,
    /// The type as it is written, such as `Vec<LogTemplate>`.
    kind: String,
    /// The field is marked as a whole.
    is_marked: bool,
}

/// Files and folders with configuration types.
const TYPES: [&str; 3] = ["config/src", "machinery/src/config", "plugins/src"];

/// Fields whose only readers are in files with configuration types: they are passed on or changed after loading.
const READ_AFTER_LOADING: &[&str] = &["kf_operator", "node_ip_address"];

/// Fields that are marked although `.name` occurs in the sources, because other types have a field or variable of the
/// same name.
const COMMON_NAMES: &[&str] = &["cache", "cache_key", "kind", "reader", "scheme", "storage", "writer"];

#[test]
fn exactly_the_fields_that_no_code_reads_are_marked() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (types, code) = sources(crates);
    let types: BTreeMap<String, Vec<Field>> = types.iter().flat_map(|text| structs(text)).collect();
    let is_read = |name: &str| {
        let read = format!(".{name}");
        code.iter().any(|text| text.match_indices(&read).any(|(at, _)| !continues(&text[at + read.len()..])))
    };
    let mut unmarked = Vec::new();
    let mut wrongly_marked = Vec::new();
    let mut open = vec!["Config"];
    let mut seen = BTreeSet::new();
    while let Some(name) = open.pop() {
        let Some(fields) = types.get(name).filter(|_| seen.insert(name)) else { continue };
        for field in fields {
            let path = format!("{name}.{}", field.name);
            match (field.is_marked, is_read(&field.name)) {
                (false, false) if !READ_AFTER_LOADING.contains(&field.name.as_str()) => unmarked.push(path),
                (true, true) if !COMMON_NAMES.contains(&field.name.as_str()) => wrongly_marked.push(path),
                _ => {}
            }
            if !field.is_marked {
                open.extend(
                    types.keys().map(String::as_str).filter(|name| words(&field.kind).any(|word| word == *name)),
                );
            }
        }
    }
    assert!(seen.len() > 25, "only {} types were found", seen.len());
    assert!(unmarked.is_empty(), "no code reads {unmarked:?}: use them, or mark them with x-no-effect");
    assert!(wrongly_marked.is_empty(), "some code reads {wrongly_marked:?}: remove the mark, or add to COMMON_NAMES");
}

/// The texts of the files with configuration types, and of all other files of the crates. Tests are left out, and so
/// are crates that are not part of the executor.
fn sources(crates: &Path) -> (Vec<String>, Vec<String>) {
    let (mut types, mut code) = (Vec::new(), Vec::new());
    for name in ["config", "kubekit", "machinery", "plugins", "action", "admission", "preview", "executor", "cli"] {
        let mut files = Vec::new();
        rust_files(&crates.join(name).join("src"), &mut files).unwrap();
        for path in files {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
            let is_type = TYPES.iter().any(|folder| path.starts_with(crates.join(folder)));
            if is_type && text.contains("JsonSchema") && text.contains("Serialize") {
                types.push(text);
            } else if name != "config" {
                code.push(text);
            }
        }
    }
    (types, code)
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() && !is_test {
            rust_files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
            found.push(path);
        }
    }
    Ok(())
}

/// The structs of a file and their fields.
fn structs(text: &str) -> BTreeMap<String, Vec<Field>> {
    let mut structs: BTreeMap<String, Vec<Field>> = BTreeMap::new();
    for part in text.split("\npub struct ").skip(1) {
        let Some((name, body)) = part.split_once(" {\n") else { continue };
        let body = body.split("\n}").next().unwrap_or_default();
        let mut attributes = String::new();
        for line in body.lines().map(str::trim).filter(|line| !line.starts_with("///")) {
            let field = line.strip_prefix("pub ").and_then(|field| field.strip_suffix(',')?.split_once(": "));
            let Some((field, kind)) = field else {
                attributes.push_str(line);
                continue;
            };
            let is_marked = attributes.contains("\"x-no-effect\" = \"");
            let field = Field { name: field.to_owned(), kind: kind.to_owned(), is_marked };
            structs.entry(name.to_owned()).or_default().push(field);
            attributes.clear();
        }
    }
    structs
}

/// True if the text goes on with more letters of the name, or with the arguments of a call.
fn continues(rest: &str) -> bool {
    rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_' || letter == '(')
}

fn words(kind: &str) -> impl Iterator<Item = &str> {
    kind.split(|letter: char| !letter.is_alphanumeric())
}
