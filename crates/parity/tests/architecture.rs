//! Which crates may depend on which, and which modules may use which. DESIGN.md has the reasons.
//! With `UPDATE_DOCS=1` the lists of modules are written from the code instead of compared.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use aileron_parity::structure::{Member, ModuleGraph, ModuleList, members};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};

/// For each crate of this workspace the crates of this workspace that it may depend on directly. A new crate needs a row.
const ARROWS: &[(&str, &[&str])] = &[
    ("aileron-kubekit", &[]),
    ("aileron-idl", &[]),
    ("aileron-machinery", &["aileron-kubekit", "aileron-idl"]),
    ("aileron-plugins", &["aileron-machinery", "aileron-kubekit", "aileron-idl"]),
    ("aileron-config", &["aileron-plugins", "aileron-machinery", "aileron-kubekit"]),
    ("aileron-action", &["aileron-config", "aileron-machinery", "aileron-kubekit", "aileron-idl"]),
    ("aileron-admission", &["aileron-machinery", "aileron-kubekit"]),
    ("aileron-lease", &["aileron-machinery"]),
    ("aileron-preview", &["aileron-action", "aileron-config", "aileron-machinery", "aileron-kubekit", "aileron-idl"]),
    (
        "aileron-executor",
        &[
            "aileron-action",
            "aileron-admission",
            "aileron-config",
            "aileron-lease",
            "aileron-machinery",
            "aileron-kubekit",
            "aileron-idl",
        ],
    ),
    ("aileron-apiserver", &["aileron-kubekit"]),
    ("aileron-sandbox", &["aileron-apiserver", "aileron-kubekit"]),
    ("aileron-flyte-local", &["aileron-idl"]),
    (
        "aileron",
        &[
            "aileron-executor",
            "aileron-preview",
            "aileron-action",
            "aileron-admission",
            "aileron-config",
            "aileron-plugins",
            "aileron-machinery",
            "aileron-kubekit",
            "aileron-idl",
            "aileron-apiserver",
            "aileron-sandbox",
            "aileron-flyte-local",
        ],
    ),
    (
        "aileron-fuzz-targets",
        &[
            "aileron-executor",
            "aileron-preview",
            "aileron-action",
            "aileron-admission",
            "aileron-config",
            "aileron-plugins",
            "aileron-machinery",
            "aileron-kubekit",
            "aileron-idl",
            "aileron-apiserver",
        ],
    ),
    ("aileron-history", &["aileron-action"]),
    (
        "aileron-testkit",
        &[
            "aileron-history",
            "aileron-executor",
            "aileron-action",
            "aileron-config",
            "aileron-lease",
            "aileron-machinery",
            "aileron-kubekit",
            "aileron-idl",
            "aileron-apiserver",
        ],
    ),
    (
        "aileron-simulator",
        &[
            "aileron-testkit",
            "aileron-history",
            "aileron-parity",
            "aileron-executor",
            "aileron-action",
            "aileron-config",
            "aileron-lease",
            "aileron-plugins",
            "aileron-machinery",
            "aileron-idl",
            "aileron-apiserver",
        ],
    ),
    (
        "aileron-parity",
        &[
            "aileron",
            "aileron-testkit",
            "aileron-history",
            "aileron-executor",
            "aileron-lease",
            "aileron-preview",
            "aileron-action",
            "aileron-admission",
            "aileron-config",
            "aileron-plugins",
            "aileron-machinery",
            "aileron-kubekit",
            "aileron-idl",
            "aileron-apiserver",
            "aileron-sandbox",
            "aileron-flyte-local",
        ],
    ),
];

/// Crates that must compile without a Kubernetes client: a plugin only computes.
const WITHOUT_A_CLIENT: &[&str] = &[
    "aileron-kubekit",
    "aileron-idl",
    "aileron-machinery",
    "aileron-plugins",
    "aileron-config",
    "aileron-action",
    "aileron-admission",
    "aileron-preview",
];
const CLIENTS: &[&str] = &["kube", "kube-client", "kube-runtime"];

/// A crate with more top-level modules than this no longer shows its structure at first sight: some of the modules
/// belong together, in a folder or in a crate of their own.
const MAX_MODULES: usize = 14;

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

    /// All packages that `root` reaches by normal dependencies, each with one chain of dependencies to it.
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
fn crates_depend_only_on_crates_that_the_list_allows() {
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

fn workspace() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// What is wrong with the modules of a crate, whatever its list says.
fn structural_problems(graph: &ModuleGraph) -> Vec<String> {
    let mut problems = Vec::new();
    let count = graph.modules.iter().filter(|module| **module != graph.root).count();
    if count > MAX_MODULES {
        problems.push(format!(
            "{count} top-level modules, at most {MAX_MODULES} are allowed: put modules that belong together into one folder"
        ));
    }
    if let Some(cycle) = graph.cycle() {
        let places = cycle.windows(2).map(|step| format!("\n      {}", graph.uses[&step[0]][&step[1]]));
        let all = graph.in_cycles().join(", ");
        let places = places.collect::<String>();
        problems.push(format!("import cycle {}:{places}\n      All modules in cycles: {all}", cycle.join(" -> ")));
    }
    for place in &graph.unresolved {
        problems.push(format!("which module defines this name? Import it from its module instead: {place}"));
    }
    problems
}

/// Compares a crate with its list. In update mode it writes the list first, unless there is a cycle.
fn module_problems(member: &Member) -> Vec<String> {
    let graph = ModuleGraph::read(&member.root).unwrap();
    let mut problems = structural_problems(&graph);
    let path = member.folder.join("modules.txt");
    if std::env::var_os("UPDATE_DOCS").is_some() && graph.cycle().is_none() {
        fs::write(&path, ModuleList::render(&graph)).unwrap();
    }
    match fs::read_to_string(&path) {
        Err(error) => problems.push(format!("failed to read {}: {error}", path.display())),
        Ok(text) => match ModuleList::parse(&text) {
            Err(error) => problems.push(format!("{}: {error}", path.display())),
            Ok(list) => problems.extend(list.problems(&graph)),
        },
    }
    problems
}

#[test]
fn modules_use_only_the_modules_that_their_list_allows() {
    let root = workspace();
    let mut text = String::new();
    for member in members(&root).unwrap() {
        for problem in module_problems(&member) {
            text.push_str(&format!("  {}: {problem}\n", member.name));
        }
    }
    let text = text.replace(&format!("{}/", root.display()), "");
    assert!(
        text.is_empty(),
        "\n{text}The lists are crates/<crate>/modules.txt. To write them from the code: \
         UPDATE_DOCS=1 cargo test -p aileron-parity --test architecture\n"
    );
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
    // The check finds a client where there is one: the executor has it.
    let executor = graph.metadata.workspace_members.iter().find(|id| graph.name(id) == "aileron-executor").unwrap();
    assert!(graph.reached(executor).contains_key("kube-client"));
}
