//! The parsed sources of a crate, by the paths of their modules.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use syn::Item;

use super::super::StructureError;
use super::super::references::{attributes_of, is_for_tests};

/// One module: a file, or a part of one.
pub(super) struct Module {
    /// The file that has its items.
    pub file: PathBuf,
    /// Its items, without those that are only compiled for tests.
    pub items: Vec<Item>,
}

/// All modules of a crate.
pub(super) struct Sources {
    modules: BTreeMap<Vec<String>, Module>,
}

impl Sources {
    /// Reads a crate from its root file.
    pub(super) fn read(root: &Path, source: &dyn Fn(&Path) -> io::Result<String>) -> Result<Self, StructureError> {
        let folder = root.parent().unwrap_or(root);
        let mut open = VecDeque::from([(root.to_path_buf(), Vec::new())]);
        let mut modules = BTreeMap::new();
        while let Some((file, path)) = open.pop_front() {
            let text = source(&file).map_err(|source| StructureError::Read { path: file.clone(), source })?;
            let parsed = syn::parse_file(&text).map_err(|source| StructureError::Parse {
                path: file.clone(),
                line: source.span().start().line,
                source,
            })?;
            for declared in add(&mut modules, &file, path, parsed.items) {
                let file = folder.join(declared.iter().collect::<PathBuf>()).with_extension("rs");
                open.push_back((file, declared));
            }
        }
        Ok(Self { modules })
    }

    /// The module at this path from the crate root.
    pub(super) fn module(&self, path: &[String]) -> Option<&Module> {
        self.modules.get(path)
    }

    /// All modules.
    pub(super) fn modules(&self) -> impl Iterator<Item = &Module> {
        self.modules.values()
    }
}

/// Adds a module and the modules inside of it. Returns the paths of modules that are in files of their own.
fn add(
    modules: &mut BTreeMap<Vec<String>, Module>,
    file: &Path,
    path: Vec<String>,
    mut items: Vec<Item>,
) -> Vec<Vec<String>> {
    items.retain(|item| !is_for_tests(attributes_of(item)));
    let mut declared = Vec::new();
    for item in &mut items {
        if let Item::Mod(item) = item {
            let child = [&path[..], &[item.ident.to_string()]].concat();
            match item.content.take() {
                Some((_, items)) => declared.extend(add(modules, file, child, items)),
                None => declared.push(child),
            }
        }
    }
    modules.insert(path, Module { file: file.to_path_buf(), items });
    declared
}
