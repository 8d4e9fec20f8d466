//! A software bill of materials: what the binary `aileron` is made of, in the format of CycloneDX 1.5.
//!
//! The document has no time and no random number, so the same sources give the same document.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId, TargetKind};
use serde_json::{Value, json};
use toml_edit::DocumentMut;

/// The document cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SbomError {
    /// Cargo does not say what the packages are.
    #[error("cargo metadata failed")]
    Metadata(#[from] cargo_metadata::Error),
    /// `Cargo.lock` cannot be read.
    #[error("failed to read {path}")]
    Lock {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// `Cargo.lock` is not TOML.
    #[error("Cargo.lock is not TOML")]
    Toml(#[from] toml_edit::TomlError),
    /// A package that should be there is not.
    #[error("{0} is missing in the output of cargo metadata")]
    Missing(String),
}

/// How a package gets into the binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    /// Its code is linked.
    Linked,
    /// It runs when the binary is built: a macro or a part of a build script.
    Build,
}

/// Sums by name and version, as `Cargo.lock` has them.
pub type Checksums = BTreeMap<(String, String), String>;

/// The document for a binary package of the workspace, as it is built for a platform such as
/// `x86_64-unknown-linux-gnu`.
///
/// # Errors
/// Cargo or `Cargo.lock` cannot be read, or there is no such package.
pub fn sbom(workspace: &Path, package: &str, platform: &str) -> Result<Value, SbomError> {
    let options = ["--locked", "--filter-platform", platform].map(str::to_owned);
    let metadata =
        MetadataCommand::new().manifest_path(workspace.join("Cargo.toml")).other_options(options.to_vec()).exec()?;
    let sums = checksums(workspace)?;
    let found = metadata.workspace_packages().into_iter().find(|member| member.name.as_str() == package).cloned();
    let root = found.ok_or_else(|| SbomError::Missing(package.to_owned()))?;
    let edges = edges(&metadata)?;
    let used = used(&metadata, &root.id, &edges);
    let components = used.iter().filter(|(id, _)| **id != root.id);
    let components: Vec<Value> = components.map(|(id, how)| component(&metadata[id], Some(*how), &sums)).collect();
    let dependencies: Vec<Value> = used
        .keys()
        .map(|id| {
            let next = edges[id].iter().filter(|(next, _)| used.contains_key(next));
            let next: BTreeSet<String> = next.map(|(next, _)| reference(&metadata[next])).collect();
            json!({"ref": reference(&metadata[id]), "dependsOn": next})
        })
        .collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": component(&root, None, &sums),
            "properties": [{"name": "aileron:platform", "value": platform}],
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// The sums of all packages in `Cargo.lock` that have one.
///
/// # Errors
/// The file cannot be read.
pub fn checksums(workspace: &Path) -> Result<Checksums, SbomError> {
    let path = workspace.join("Cargo.lock");
    let text = std::fs::read_to_string(&path).map_err(|source| SbomError::Lock { path, source })?;
    let lock: DocumentMut = text.parse()?;
    let packages = lock["package"].as_array_of_tables().into_iter().flatten();
    let text = |table: &toml_edit::Table, key: &str| Some(table.get(key)?.as_str()?.to_owned());
    let entry = |table| Some(((text(table, "name")?, text(table, "version")?), text(table, "checksum")?));
    Ok(packages.filter_map(entry).collect())
}

type Edges = BTreeMap<PackageId, Vec<(PackageId, Use)>>;

/// The direct dependencies of each package, without those of tests.
fn edges(metadata: &Metadata) -> Result<Edges, SbomError> {
    let resolved = metadata.resolve.as_ref().ok_or_else(|| SbomError::Missing("the graph of packages".into()))?;
    let of = |node: &cargo_metadata::Node| {
        let mut next = Vec::new();
        for dependency in &node.deps {
            for info in &dependency.dep_kinds {
                match info.kind {
                    DependencyKind::Normal => next.push((dependency.pkg.clone(), Use::Linked)),
                    DependencyKind::Build => next.push((dependency.pkg.clone(), Use::Build)),
                    _ => {}
                }
            }
        }
        (node.id.clone(), next)
    };
    Ok(resolved.nodes.iter().map(of).collect())
}

/// All packages that the root reaches, and how. A package that is used in both ways is linked.
fn used(metadata: &Metadata, root: &PackageId, edges: &Edges) -> BTreeMap<PackageId, Use> {
    let mut used = BTreeMap::new();
    let mut open = vec![(root.clone(), Use::Linked)];
    while let Some((id, how)) = open.pop() {
        // Whatever a macro uses runs with it.
        let how = if is_macro(&metadata[&id]) { Use::Build } else { how };
        if used.get(&id).is_some_and(|before| *before <= how) {
            continue;
        }
        used.insert(id.clone(), how);
        open.extend(edges[&id].iter().map(|(next, kind)| (next.clone(), how.max(*kind))));
    }
    used
}

fn is_macro(package: &Package) -> bool {
    package.targets.iter().any(|target| target.kind.contains(&TargetKind::ProcMacro))
}

fn component(package: &Package, how: Option<Use>, sums: &Checksums) -> Value {
    let is_root = how.is_none();
    let mut component = json!({
        "type": if is_root { "application" } else { "library" },
        "bom-ref": reference(package),
        "name": package.name.as_str(),
        "version": package.version.to_string(),
        "purl": reference(package),
    });
    if let Some(licence) = &package.license {
        // Old manifests have a slash where the expression has OR.
        component["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
    }
    if let Some(sum) = sums.get(&(package.name.to_string(), package.version.to_string())) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    match how {
        Some(Use::Linked) => component["scope"] = "required".into(),
        Some(Use::Build) => component["scope"] = "excluded".into(),
        None => {}
    }
    component
}

/// The address of a package, which names it in the document too.
fn reference(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}
