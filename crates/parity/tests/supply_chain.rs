//! What comes in with dependencies: licences, banned crates, sources and sums, by the lists of deny.toml. Also the bill of
//! materials. `make deny` checks the same file with cargo-deny.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use aileron_parity::sbom::{checksums, sbom};
use cargo_metadata::{Metadata, MetadataCommand};
use serde_json::Value;
use toml_edit::{DocumentMut, Item};

/// The one registry that packages may come from. deny.toml allows no other.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Packages that only the fuzz binaries need, which are never published. `make deny` checks their licences.
const ONLY_FOR_FUZZING: [&str; 3] = ["arbitrary", "jobserver", "libfuzzer-sys"];

/// The subcommands of cargo that choose versions of packages unless they get `--locked`.
const RESOLVING: [&str; 10] =
    ["bench", "build", "check", "clippy", "doc", "install", "metadata", "run", "rustc", "test"];

fn workspace() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// Every package of `Cargo.lock`, whatever the platform.
fn metadata() -> Metadata {
    let locked = vec!["--locked".to_owned()];
    MetadataCommand::new().manifest_path(workspace().join("Cargo.toml")).other_options(locked).exec().unwrap()
}

fn policy() -> DocumentMut {
    fs::read_to_string(workspace().join("deny.toml")).unwrap().parse().unwrap()
}

fn texts(list: &Item) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

/// The crates of `bans.deny`: those that are banned, or else those that may be there in one version only.
fn bans(only_one_version: bool) -> BTreeSet<String> {
    let policy = policy();
    let entries = policy["bans"]["deny"].as_array().unwrap().iter().map(|entry| entry.as_inline_table().unwrap());
    let is_wanted = |entry: &&toml_edit::InlineTable| {
        entry.get("deny-multiple-versions").and_then(toml_edit::Value::as_bool).unwrap_or_default() == only_one_version
    };
    entries.filter(is_wanted).map(|entry| entry.get("crate").unwrap().as_str().unwrap().to_owned()).collect()
}

#[test]
fn no_banned_crate_is_used() {
    let banned = bans(false);
    assert!(banned.contains("openssl"), "the list was not read: {banned:?}");
    for package in &metadata().packages {
        let name = package.name.as_str();
        assert!(!banned.contains(name), "{name} is used; `cargo tree -i {name}` says by which crate");
    }
}

#[test]
fn crates_that_share_types_are_there_in_one_version() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in &metadata().packages {
        versions.entry(package.name.to_string()).or_default().insert(package.version.to_string());
    }
    let single = bans(true);
    assert!(single.contains("rustls"), "the list was not read: {single:?}");
    for name in single {
        let found = versions.get(&name).unwrap_or_else(|| panic!("{name} is not used: take it out of deny.toml"));
        assert_eq!(found.len(), 1, "{name} is used in the versions {found:?}");
    }
}

#[test]
fn packages_come_from_the_registry_and_have_sums() {
    let policy = policy();
    for key in ["unknown-registry", "unknown-git"] {
        assert_eq!(policy["sources"][key].as_str(), Some("deny"), "{key}");
    }
    let sums = checksums(&workspace()).unwrap();
    for package in metadata().packages {
        let Some(source) = &package.source else {
            let is_ours = package.manifest_path.starts_with(workspace().to_str().unwrap());
            assert!(is_ours, "{} comes from {}", package.name, package.manifest_path);
            continue;
        };
        assert_eq!(source.repr, REGISTRY, "{}", package.name);
        let sum = sums.get(&(package.name.to_string(), package.version.to_string()));
        assert!(sum.is_some_and(|sum| sum.len() == 64), "{} has no sum in Cargo.lock", package.name);
    }
}

/// The fuzz workspace has a lock file of its own. It is only read here: its packages need not be on this machine.
#[test]
fn fuzz_binaries_are_made_of_the_same_packages() {
    let packages = |folder: &Path| {
        let lock: DocumentMut = fs::read_to_string(folder.join("Cargo.lock")).unwrap().parse().unwrap();
        let tables = lock["package"].as_array_of_tables().unwrap().iter();
        let text = |table: &toml_edit::Table, key: &str| table.get(key).map(|it| it.as_str().unwrap().to_owned());
        let row = |table| ["name", "version", "source", "checksum"].map(|key| text(table, key));
        tables.map(row).collect::<BTreeSet<_>>()
    };
    let (ours, fuzz) = (packages(&workspace()), packages(&workspace().join("fuzz")));
    assert!(fuzz.len() > 100, "the lock file was not read");
    for package in fuzz.difference(&ours) {
        let [Some(name), _, source, sum] = package else { panic!("{package:?} has no name") };
        if name == "aileron-fuzz" {
            continue;
        }
        assert!(ONLY_FOR_FUZZING.contains(&name.as_str()), "{package:?} is not in the Cargo.lock of the workspace");
        assert_eq!(source.as_deref(), Some(REGISTRY), "{name}");
        assert!(sum.as_ref().is_some_and(|sum| sum.len() == 64), "{name} has no sum");
    }
}

/// The commands of a script that call cargo with one of the subcommands above.
fn resolving_commands(script: &str) -> Vec<String> {
    let joined = script.replace("\\\n", " ");
    let calls_cargo = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().map(|word| word.trim_matches(['@', '"'])).collect();
        let is_cargo = |word: &str| ["cargo", "$(CARGO)", "${CARGO:-cargo}"].contains(&word);
        words.windows(2).any(|pair| is_cargo(pair[0]) && RESOLVING.contains(&pair[1]))
    };
    joined.lines().filter(calls_cargo).map(str::to_owned).collect()
}

#[test]
fn scripts_call_cargo_with_the_lock_file() {
    for (name, at_least) in [("Makefile", 10), ("fuzz/run", 1), ("deploy/image/build", 1), (".ci/run", 0)] {
        let commands = resolving_commands(&fs::read_to_string(workspace().join(name)).unwrap());
        assert!(commands.len() >= at_least, "{name} was not read: {commands:?}");
        for command in commands {
            assert!(command.contains(" --locked"), "{name}: {command}");
        }
    }
    let found = resolving_commands("\tcargo fmt\n\t@cargo \\\n  build\nPARITY := $(CARGO) run\n");
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn licences_are_those_that_the_policy_allows() {
    let allowed = texts(&policy()["licenses"]["allow"]);
    let allowed: BTreeSet<&str> = allowed.iter().map(String::as_str).collect();
    for package in &metadata().packages {
        let licence = package.license.clone().unwrap_or_else(|| panic!("{} names no licence", package.name));
        assert!(acceptable(&licence, &allowed), "{}: {licence} is not among {allowed:?}", package.name);
    }
}

/// Enough of SPDX for what the registry holds: AND of ORs, and OR of ANDs in parentheses.
fn acceptable(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let text = expression.replace('/', " OR ");
    let mut depth = 0;
    // Split at the outermost operators; OR binds less than AND.
    for operator in [" OR ", " AND "] {
        let mut parts = Vec::new();
        let mut begin = 0;
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'(' => depth += 1,
                b')' => depth -= 1,
                _ if depth == 0 && at >= begin && text[at..].starts_with(operator) => {
                    parts.push(&text[begin..at]);
                    begin = at + operator.len();
                }
                _ => {}
            }
        }
        if !parts.is_empty() {
            parts.push(&text[begin..]);
            let mut verdicts = parts.iter().map(|part| acceptable(part, allowed));
            return if operator == " OR " { verdicts.any(|ok| ok) } else { verdicts.all(|ok| ok) };
        }
    }
    let text = text.trim();
    match text.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => acceptable(inner, allowed),
        None => allowed.contains(text),
    }
}

#[test]
fn licence_expressions_are_understood() {
    let allowed = BTreeSet::from(["MIT", "Unicode-3.0"]);
    for good in ["MIT", "MIT OR GPL-3.0", "GPL-3.0/MIT", "(GPL-3.0 OR MIT) AND Unicode-3.0"] {
        assert!(acceptable(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(GPL-3.0 OR MIT) AND GPL-3.0"] {
        assert!(!acceptable(bad, &allowed), "{bad}");
    }
}

fn bill() -> Value {
    sbom(&workspace(), "aileron", "x86_64-unknown-linux-gnu").unwrap()
}

/// The names of the components with this scope.
fn names(bill: &Value, scope: &str) -> BTreeSet<String> {
    let components = bill["components"].as_array().unwrap().iter();
    let scoped = components.filter(|component| component["scope"] == scope);
    scoped.map(|component| component["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_bill_of_materials_has_the_required_fields() {
    let bill = bill();
    assert_eq!(
        (&bill["bomFormat"], &bill["specVersion"], &bill["version"]),
        (&"CycloneDX".into(), &"1.5".into(), &1.into())
    );
    assert_eq!(bill["metadata"]["component"]["type"], "application");
    assert_eq!(bill["metadata"]["component"]["name"], "aileron");
    let known = ["type", "bom-ref", "name", "version", "purl", "licenses", "hashes", "scope"];
    let mut references = BTreeSet::from([bill["metadata"]["component"]["bom-ref"].as_str().unwrap()]);
    for component in bill["components"].as_array().unwrap() {
        for key in component.as_object().unwrap().keys() {
            assert!(known.contains(&key.as_str()), "{key}");
        }
        let text = |key: &str| component[key].as_str().unwrap_or_else(|| panic!("{key} is missing: {component}"));
        assert_eq!(text("type"), "library");
        assert_eq!(text("purl"), format!("pkg:cargo/{}@{}", text("name"), text("version")));
        assert!(["required", "excluded"].contains(&text("scope")));
        assert!(component["licenses"][0]["expression"].is_string(), "{component}");
        assert!(references.insert(text("bom-ref")), "{} is there twice", text("bom-ref"));
        if !text("name").starts_with("aileron") {
            assert_eq!(component["hashes"][0]["alg"], "SHA-256", "{component}");
        }
    }
    let dependencies = bill["dependencies"].as_array().unwrap();
    let described: BTreeSet<_> = dependencies.iter().map(|entry| entry["ref"].as_str().unwrap()).collect();
    assert_eq!(described, references, "every component has its dependencies, and nothing else has");
    for next in dependencies.iter().flat_map(|entry| entry["dependsOn"].as_array().unwrap()) {
        assert!(references.contains(next.as_str().unwrap()), "{next} is no component");
    }
}

#[test]
fn the_bill_of_materials_tells_what_is_linked_from_what_only_builds() {
    let bill = bill();
    let (linked, build) = (names(&bill, "required"), names(&bill, "excluded"));
    for name in ["kube", "tokio", "rustls", "aileron-executor"] {
        assert!(linked.contains(name), "{name}");
    }
    for name in ["serde_derive", "protox", "prost-build"] {
        assert!(build.contains(name), "{name}");
    }
    for name in ["proptest", "divan", "aileron-parity"] {
        assert!(!linked.contains(name) && !build.contains(name), "{name} is for tests");
    }
    assert_eq!(bill, self::bill(), "the same sources give the same document");
}
