//! Compares the documentation with the code. With `UPDATE_DOCS=1` the generated pages are written instead of compared.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use aileron_parity::structure::members;

#[path = "docs/architecture_page.rs"]
mod architecture_page;
#[path = "docs/deploy_files.rs"]
mod deploy_files;
#[path = "docs/examples.rs"]
mod examples;
#[path = "docs/names.rs"]
mod names;
#[path = "docs/plugin_steps.rs"]
mod plugin_steps;

fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| format!("cannot read {path}: {error}"))
}

/// All pages, by their paths from the root.
fn pages() -> BTreeMap<String, String> {
    let mut paths: Vec<String> = ["README.md", "DESIGN.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned).into();
    for folder in ["docs", "docs/plugins"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                paths.push(format!("{folder}/{name}"));
            }
        }
    }
    paths.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

fn is_current(path: &str, generated: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(root().join(path), generated).unwrap();
    }
    assert!(read(path) == generated, "{path} does not match the code; run this test with UPDATE_DOCS=1");
}

#[test]
fn the_configuration_reference_is_current() {
    is_current("docs/config.md", &aileron_config::markdown());
}

#[test]
fn the_list_of_differences_is_current() {
    let crates = root().join("crates");
    is_current("docs/differences.md", &aileron_parity::vectors::differences::render_markdown(&crates).unwrap());
}

/// The page of each built-in plugin.
const PLUGIN_PAGES: [(&str, &[&str]); 9] = [
    ("clustered", &["clustered-task"]),
    ("dask", &["dask"]),
    ("mpi", &["mpi"]),
    ("pod", &["container", "sidecar", "pod"]),
    ("pytorch", &["pytorch"]),
    ("ray", &["ray"]),
    ("sleep", &["core-sleep"]),
    ("spark", &["spark"]),
    ("tensorflow", &["tensorflow"]),
];

const KEYS: [&str; 3] = ["<!-- keys of ", " -->\n", "<!-- end of keys -->\n"];

/// The part of the configuration reference about a section, with links for a page below `docs/plugins`.
fn keys_of(section: &str) -> String {
    let reference = aileron_config::markdown();
    let below = format!("{section}.");
    let mut text = String::new();
    for part in reference.split("\n## `").skip(1) {
        let (path, body) = part.split_once("`\n").unwrap();
        if path == section || path.starts_with(&below) {
            let body = body.trim().replace("](#", "](../config.md#");
            let anchor = path.to_lowercase().replace('.', "");
            text.push_str(&format!("\n[`{path}`](../config.md#{anchor}): {body}\n"));
        }
    }
    assert!(!text.is_empty(), "there is no section {section}");
    text
}

#[test]
fn the_keys_on_the_pages_of_plugins_are_current() {
    for (name, _) in PLUGIN_PAGES {
        let path = format!("docs/plugins/{name}.md");
        let page = read(&path);
        let Some((before, rest)) = page.split_once(KEYS[0]) else { continue };
        let (section, rest) = rest.split_once(KEYS[1]).unwrap();
        let (_, after) = rest.split_once(KEYS[2]).unwrap();
        is_current(&path, &[before, KEYS[0], section, KEYS[1], &keys_of(section), "\n", KEYS[2], after].concat());
    }
}

#[test]
fn every_plugin_has_a_page_with_its_kind_and_permissions() {
    let plugins = aileron_plugins::builtin().build(&Default::default()).unwrap();
    let k8s = plugins.k8s().iter().map(|plugin| (plugin.entry().id.to_string(), Some(plugin.kind())));
    let core = plugins.core().iter().map(|plugin| (plugin.entry().id.to_string(), None));
    let mut explained = BTreeSet::new();
    for (id, kind) in k8s.chain(core) {
        let (name, _) = PLUGIN_PAGES.into_iter().find(|(_, ids)| ids.contains(&id.as_str())).expect(&id);
        explained.insert(name.to_owned());
        let page = read(&format!("docs/plugins/{name}.md"));
        for heading in ["What it makes", "Phases", "Configuration", "Versions", "Permissions"] {
            assert!(page.contains(&format!("\n## {heading}\n")), "{name}: no {heading}");
        }
        let Some(kind) = kind else { continue };
        let group = if kind.group.is_empty() { "\"\"" } else { &kind.group };
        let rule = format!(
            "- apiGroups: [{group}]\n  resources: [{}]\n  verbs: {}\n",
            kind.plural,
            deploy_files::verbs_for(&kind)
        );
        for text in [&format!("API `{}`", kind.api_version()), &format!("`{}`", kind.kind), &rule] {
            assert!(page.contains(text), "{name}: no {text}");
        }
    }
    let pages: BTreeSet<_> = pages()
        .into_keys()
        .filter_map(|path| Some(path.strip_prefix("docs/plugins/")?.strip_suffix(".md")?.to_owned()))
        .collect();
    assert_eq!(pages, explained);
    let index = read("docs/writing-a-plugin.md");
    assert!(explained.iter().all(|name| index.contains(&format!("(plugins/{name}.md)"))));
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The names in `[workspace.dependencies]`.
fn workspace_dependencies() -> BTreeSet<String> {
    let manifest = read("Cargo.toml");
    let table = manifest.split_once("[workspace.dependencies]\n").unwrap().1.split("\n[").next().unwrap();
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(" = ")).map(|(name, _)| name.to_owned()).collect()
}

/// The names in the first column of the tables in the section Dependencies of DESIGN.md.
fn explained_dependencies() -> BTreeSet<String> {
    let design = read("DESIGN.md");
    let section = design.split_once("\n## Dependencies").expect("DESIGN.md has a section Dependencies").1;
    let section = section.split("\n## ").next().unwrap();
    let cells = section.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn every_dependency_is_explained_and_nothing_else_is() {
    assert_eq!(explained_dependencies(), workspace_dependencies());
}

#[test]
fn every_shared_dependency_has_a_user() {
    let manifests: Vec<String> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path().join("Cargo.toml")).unwrap())
        .collect();
    let is_taken = |name: &str| {
        let forms = [format!("{name}.workspace"), format!("{name} = {{ workspace")];
        manifests.iter().flat_map(|text| text.lines()).any(|line| forms.iter().any(|form| line.starts_with(form)))
    };
    let unused: Vec<_> = workspace_dependencies().into_iter().filter(|name| !is_taken(name)).collect();
    assert!(unused.is_empty(), "no crate takes {unused:?}: remove them from Cargo.toml");
}

#[test]
fn links_have_targets() {
    let pages = pages();
    let mut broken = Vec::new();
    for (path, text) in &pages {
        for target in links(text) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let folder = Path::new(path).parent().unwrap();
            let named = if file.is_empty() { PathBuf::from(path) } else { folder.join(file) };
            let Ok(found) = fs::canonicalize(root().join(&named)) else {
                broken.push(format!("{path}: {target}: there is no such file"));
                continue;
            };
            let within = found.strip_prefix(root()).map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
            if !anchor.is_empty() && !pages.get(&within).is_some_and(|page| anchors(page).contains(anchor)) {
                broken.push(format!("{path}: {target}: there is no such heading"));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

/// Lines outside of code blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

/// The targets of links that are not URLs.
fn links(page: &str) -> Vec<String> {
    let targets = prose(page).flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:")).map(str::to_owned).collect()
}

/// The anchors of headings, as GitHub generates them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = prose(page).filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let mut seen = BTreeMap::new();
    headings
        .map(|heading| {
            let kept = heading
                .to_lowercase()
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
                .collect::<String>();
            let name = kept.replace(' ', "-");
            let count = seen.entry(name.clone()).and_modify(|count| *count += 1).or_insert(0);
            if *count == 0 { name } else { format!("{name}-{count}") }
        })
        .collect()
}

/// The text of all source files in these folders of each crate.
fn all_sources(folders: &[&str]) -> String {
    let mut files = Vec::new();
    for member in members(&root()).unwrap() {
        for folder in folders.iter().map(|folder| member.folder.join(folder)).filter(|folder| folder.exists()) {
            rust_files(&folder, &mut files);
        }
    }
    files.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// The names of all metrics, from the sources.
fn metrics() -> BTreeSet<String> {
    let text = all_sources(&["src"]);
    let mut found = BTreeSet::new();
    for call in ["counter!(\"", "gauge!(\"", "histogram!(\""] {
        let names = text.split(call).skip(1).filter_map(|rest| rest.split('"').next());
        found.extend(names.filter(|name| name.starts_with("aileron_")).map(str::to_owned));
    }
    found
}

#[test]
fn every_metric_is_explained_and_nothing_else_is() {
    let page = read("docs/running.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `aileron_")?.split(['`', '{']).next());
    let explained: BTreeSet<_> = rows.map(|name| format!("aileron_{name}")).collect();
    assert_eq!(explained, metrics());
}

#[test]
fn tests_and_files_that_the_reliability_page_names_exist() {
    let page = read("docs/reliability.md");
    let (_, table) = page.split_once("## Faults and their tests").unwrap();
    let sources = all_sources(&["src", "tests"]);
    let named: Vec<_> = table.split('`').skip(1).step_by(2).collect();
    let is_test = |name: &&&str| name.matches('_').count() >= 3 && !name.contains(['/', '.', ':']);
    let tests: Vec<_> = named.iter().filter(is_test).collect();
    assert!(tests.len() > 20, "{tests:?}");
    let missing: Vec<_> = tests.iter().filter(|name| !sources.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
    let files = named.iter().filter(|name| name.ends_with(".rs") && name.contains("/src/"));
    let missing: Vec<_> = files.filter(|path| !root().join("crates").join(path).exists()).collect();
    assert!(missing.is_empty(), "no such files: {missing:?}");
}

#[test]
fn make_targets_that_pages_name_exist() {
    let makefile = read("Makefile");
    let mut missing = BTreeSet::new();
    for (path, text) in pages() {
        let after = text.split("`make ").skip(1).chain(text.lines().filter_map(|line| line.strip_prefix("make ")));
        let word = |rest: &str| rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect::<String>();
        for target in after.map(word).filter(|target| !target.is_empty()) {
            if !makefile.lines().any(|line| line.starts_with(&format!("{target}:"))) {
                missing.insert(format!("{path}: make {target}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_plugin_in_the_page_is_the_compiled_example() {
    let source = read("crates/machinery/tests/plugin_example.rs");
    let page = read("docs/writing-a-plugin.md");
    for part in ["", " test"] {
        let (_, rest) = source.split_once(&format!("// begin{part}: docs/writing-a-plugin.md\n")).unwrap();
        let (code, _) = rest.split_once(&format!("// end{part}: docs/writing-a-plugin.md\n")).unwrap();
        assert!(
            page.contains(&format!("```rust\n{code}```\n")),
            "docs/writing-a-plugin.md does not show this{part}:\n{code}"
        );
    }
}
