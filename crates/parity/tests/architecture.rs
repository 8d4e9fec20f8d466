//! Who may know whom, and what must never come in. DESIGN.md has the reasons.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};

/// Crates of this workspace that each may depend on directly. A new crate needs a row.
const ARROWS: &[(&str, &[&str])] = &[
    ("aileron-kubekit", &[]),
    ("aileron-idl", &[]),
    ("aileron-machinery", &["aileron-kubekit", "aileron-idl"]),
    ("aileron-plugins", &["aileron-machinery", "aileron-kubekit", "aileron-idl"]),
    ("aileron-executor", &["aileron-plugins", "aileron-machinery", "aileron-kubekit", "aileron-idl"]),
    ("aileron-apiserver", &["aileron-kubekit"]),
    ("aileron-sandbox", &["aileron-apiserver", "aileron-kubekit"]),
    (
        "aileron",
        &[
            "aileron-executor",
            "aileron-plugins",
            "aileron-machinery",
            "aileron-kubekit",
            "aileron-idl",
            "aileron-apiserver",
            "aileron-sandbox",
        ],
    ),
    (
        "aileron-parity",
        &[
            "aileron",
            "aileron-executor",
            "aileron-plugins",
            "aileron-machinery",
            "aileron-kubekit",
            "aileron-idl",
            "aileron-apiserver",
            "aileron-sandbox",
        ],
    ),
];

/// Crates that must compile without a Kubernetes client: a plugin only computes.
const WITHOUT_A_CLIENT: &[&str] = &["aileron-kubekit", "aileron-idl", "aileron-machinery", "aileron-plugins"];
const CLIENTS: &[&str] = &["kube", "kube-client", "kube-runtime"];

/// Nowhere at all: a second TLS provider makes rustls unable to choose, OpenSSL needs C and a system library, and
/// the YAML crate is abandoned. deny.toml says the same.
const NOWHERE: &[&str] =
    &["aws-lc-rs", "aws-lc-sys", "openssl", "openssl-sys", "native-tls", "serde_yaml", "serde_yml"];

struct Graph {
    metadata: Metadata,
    /// Direct dependencies of a package, by kind.
    edges: BTreeMap<PackageId, Vec<(PackageId, BTreeSet<&'static str>)>>,
}

impl Graph {
    fn load() -> Self {
        // Locked: what is checked is what is built.
        let metadata = MetadataCommand::new()
            .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
            .other_options(vec!["--locked".to_owned()])
            .exec()
            .unwrap();
        let nodes = &metadata.resolve.as_ref().unwrap().nodes;
        let edges = nodes.iter().map(|node| {
            let of = |dep: &cargo_metadata::NodeDep| {
                let kinds = dep.dep_kinds.iter().map(|info| match info.kind {
                    DependencyKind::Development => "dev",
                    DependencyKind::Build => "build",
                    _ => "normal",
                });
                (dep.pkg.clone(), kinds.collect())
            };
            (node.id.clone(), node.deps.iter().map(of).collect())
        });
        let edges = edges.collect();
        Self { metadata, edges }
    }

    fn name(&self, id: &PackageId) -> String {
        self.metadata[id].name.to_string()
    }

    /// All that `root` reaches by normal dependencies, each with one way there.
    fn reached(&self, root: &PackageId) -> BTreeMap<String, String> {
        let mut ways = BTreeMap::new();
        let mut open = vec![(root.clone(), self.name(root))];
        while let Some((id, way)) = open.pop() {
            for (next, kinds) in &self.edges[&id] {
                let name = self.name(next);
                if kinds.contains("normal") && !ways.contains_key(&name) {
                    let way = format!("{way} -> {name}");
                    ways.insert(name, way.clone());
                    open.push((next.clone(), way));
                }
            }
        }
        ways
    }
}

#[test]
fn crates_know_only_those_they_may() {
    let graph = Graph::load();
    let ours: BTreeSet<_> = graph.metadata.workspace_members.iter().map(|id| graph.name(id)).collect();
    for id in &graph.metadata.workspace_members {
        let name = graph.name(id);
        let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
            panic!("{name} has no row in ARROWS: decide what it may depend on");
        };
        for (next, kinds) in &graph.edges[id] {
            let next = graph.name(next);
            if ours.contains(&next) && kinds.iter().any(|kind| *kind != "dev") {
                assert!(allowed.contains(&next.as_str()), "{name} must not depend on {next}");
            }
        }
    }
}

#[test]
fn plugins_compile_without_a_kubernetes_client() {
    let graph = Graph::load();
    for id in &graph.metadata.workspace_members {
        let name = graph.name(id);
        if WITHOUT_A_CLIENT.contains(&name.as_str()) {
            let reached = graph.reached(id);
            for client in CLIENTS {
                assert!(!reached.contains_key(*client), "must not be there: {}", reached[*client]);
            }
        }
    }
    // The test sees: the executor does have a client.
    let executor = graph.metadata.workspace_members.iter().find(|id| graph.name(id) == "aileron-executor").unwrap();
    assert!(graph.reached(executor).contains_key("kube-client"));
}

#[test]
fn what_is_banned_is_nowhere() {
    let graph = Graph::load();
    let resolved: BTreeSet<_> = graph.edges.keys().map(|id| graph.name(id)).collect();
    for banned in NOWHERE {
        assert!(!resolved.contains(*banned), "{banned} came in; `cargo tree -i {banned}` says through whom");
    }
}

#[test]
fn the_policy_file_bans_the_same() {
    let policy = include_str!("../../../deny.toml");
    for banned in NOWHERE {
        assert!(policy.contains(&format!("crate = \"{banned}\"")), "deny.toml does not ban {banned}");
    }
}

#[test]
fn licences_are_those_that_the_policy_allows() {
    let policy = include_str!("../../../deny.toml");
    let allowed: BTreeSet<_> = policy
        .split_once("allow = [")
        .and_then(|(_, rest)| rest.split_once(']'))
        .unwrap()
        .0
        .lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.split('"').next())
        .collect();
    let graph = Graph::load();
    for id in graph.edges.keys() {
        let package = &graph.metadata[id];
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
