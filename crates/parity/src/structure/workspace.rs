//! The crates of this workspace, from `cargo metadata`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand, Package, TargetKind};

use super::StructureError;

/// One crate of the workspace.
#[derive(Debug, Clone)]
pub struct Member {
    /// The name of the package, such as `aileron-executor`.
    pub package: String,
    /// The name of its folder below `crates`, such as `executor`. Pages and diagrams use this name.
    pub name: String,
    /// The folder of the crate.
    pub folder: PathBuf,
    /// The root file of the library, or of the binary where there is no library.
    pub root: PathBuf,
    /// Folder names of the crates that this one depends on directly, without those of its tests.
    pub dependencies: BTreeSet<String>,
}

/// All crates below `crates` of the workspace in `folder`, without the examples. Each crate comes after its dependencies.
pub fn members(folder: &Path) -> Result<Vec<Member>, StructureError> {
    // `--locked`: check the same dependency versions that are built.
    let metadata = MetadataCommand::new()
        .manifest_path(folder.join("Cargo.toml"))
        .no_deps()
        .other_options(vec!["--locked".to_owned()])
        .exec()?;
    let mut packages = metadata.workspace_packages();
    packages.retain(|package| package.manifest_path.starts_with(metadata.workspace_root.join("crates")));
    let mut open: Vec<Member> = packages.iter().filter_map(|package| member(package, &packages)).collect();
    open.sort_by(|a, b| a.name.cmp(&b.name));
    let mut ordered: Vec<Member> = Vec::new();
    // Cargo refuses cycles between crates, so each pass finds a crate whose dependencies are all ordered already.
    while !open.is_empty() {
        let is_ready = |member: &Member| member.dependencies.iter().all(|name| ordered.iter().any(|m| m.name == *name));
        let next = open.iter().position(is_ready).unwrap_or_default();
        ordered.push(open.remove(next));
    }
    Ok(ordered)
}

fn member(package: &Package, all: &[&Package]) -> Option<Member> {
    let is_library = |kinds: &[TargetKind]| kinds.contains(&TargetKind::Lib);
    let library = package.targets.iter().find(|target| is_library(&target.kind));
    let root = library.or_else(|| package.targets.iter().find(|target| target.kind.contains(&TargetKind::Bin)))?;
    let used = package.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Development);
    let dependencies = used
        .filter_map(|dependency| all.iter().find(|other| other.name.as_str() == dependency.name))
        .map(|other| folder_name(other))
        .collect();
    Some(Member {
        package: package.name.to_string(),
        name: folder_name(package),
        folder: package.manifest_path.parent()?.into(),
        root: root.src_path.clone().into(),
        dependencies,
    })
}

fn folder_name(package: &Package) -> String {
    let folder = package.manifest_path.parent().and_then(|folder| folder.file_name());
    folder.unwrap_or(package.name.as_str()).to_owned()
}
