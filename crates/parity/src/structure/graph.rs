//! The top-level modules of a crate and their dependencies.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use super::StructureError;
use super::references::{RootImport, SourceFacts, facts_of};

/// Where a module names another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The source file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// The path that is used there, from the crate root.
    pub path: String,
}

/// The top-level modules of a crate. The crate root counts as a module, by the name of its file, if it defines items
/// that modules use, or has code that uses modules; `pub use` is no such code.
#[derive(Debug, Default)]
pub struct ModuleGraph {
    /// The name of the crate root as a module: `lib` or `main`.
    pub root: String,
    /// All modules except those of tests.
    pub modules: BTreeSet<String>,
    /// For each module the modules that it uses, each with the first place of use.
    pub uses: BTreeMap<String, BTreeMap<String, Place>>,
    /// Paths of this crate whose module was not found. The dependencies may then be incomplete.
    pub unresolved: Vec<Place>,
}

/// One source file with its module and the facts from its source.
struct ModuleFile {
    file: PathBuf,
    module: Vec<String>,
    facts: SourceFacts,
}

impl ModuleGraph {
    /// Reads a crate from its root file.
    pub fn read(root: &Path) -> Result<Self, StructureError> {
        Self::read_with(root, &|path| fs::read_to_string(path))
    }

    /// As [`read`](Self::read), with sources from the caller.
    fn read_with(root: &Path, source: &dyn Fn(&Path) -> io::Result<String>) -> Result<Self, StructureError> {
        let folder = root.parent().unwrap_or(root);
        let mut open = VecDeque::from([(root.to_path_buf(), Vec::new())]);
        let mut files = Vec::new();
        while let Some((file, module)) = open.pop_front() {
            let text = source(&file).map_err(|source| StructureError::Read { path: file.clone(), source })?;
            let facts = facts_of(&module, &text).map_err(|source| StructureError::Parse {
                path: file.clone(),
                line: source.span().start().line,
                source,
            })?;
            for child in &facts.declared {
                let path = folder.join(child.iter().collect::<PathBuf>()).with_extension("rs");
                open.push_back((path, child.clone()));
            }
            files.push(ModuleFile { file, module, facts });
        }
        let root_name = root.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self::of(&files, &root_name))
    }

    fn of(files: &[ModuleFile], root_name: &str) -> Self {
        let names = Names::of(files);
        let mut graph = Self { root: root_name.to_owned(), modules: names.modules.clone(), ..Self::default() };
        for ModuleFile { file, facts, .. } in files {
            for reference in &facts.references {
                let from = reference.module.as_deref().unwrap_or(root_name);
                let place = || Place { file: file.clone(), line: reference.line, path: reference.path.join("::") };
                match names.home_of(&reference.path) {
                    Home::Module(to) if to == from => {}
                    Home::Module(to) => {
                        graph.uses.entry(from.to_owned()).or_default().entry(to).or_insert_with(place);
                    }
                    Home::Root if from == root_name => {}
                    Home::Root => {
                        let used = graph.uses.entry(from.to_owned()).or_default();
                        used.entry(root_name.to_owned()).or_insert_with(place);
                    }
                    Home::OtherCrate => {}
                    Home::Unknown if !reference.is_explicit => {}
                    Home::Unknown => graph.unresolved.push(place()),
                }
            }
        }
        if graph.edges().any(|(from, to, _)| from == root_name || to == root_name) {
            graph.modules.insert(root_name.to_owned());
        }
        graph
    }

    /// All dependencies: the module that uses, the module that is used, and where.
    pub fn edges(&self) -> impl Iterator<Item = (&str, &str, &Place)> {
        self.uses.iter().flat_map(|(from, used)| used.iter().map(|(to, place)| (from.as_str(), to.as_str(), place)))
    }

    /// A shortest cycle of modules, if there is one: `[a, b, a]`.
    pub fn cycle(&self) -> Option<Vec<String>> {
        let chains = self.modules.iter().filter_map(|start| self.shortest_cycle_through(start));
        chains.min_by_key(Vec::len)
    }

    /// All modules that are part of a cycle.
    pub fn in_cycles(&self) -> Vec<&str> {
        self.modules.iter().filter(|module| self.shortest_cycle_through(module).is_some()).map(String::as_str).collect()
    }

    /// A shortest cycle through a module, if there is one.
    fn shortest_cycle_through(&self, start: &str) -> Option<Vec<String>> {
        let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut open = VecDeque::from([start]);
        while let Some(module) = open.pop_front() {
            for next in self.uses.get(module).into_iter().flat_map(BTreeMap::keys) {
                if next == start {
                    let mut chain = vec![start.to_owned(), module.to_owned()];
                    let mut at = module;
                    while let Some(before) = came_from.get(at) {
                        chain.push((*before).to_owned());
                        at = before;
                    }
                    chain.reverse();
                    return Some(chain);
                }
                if !came_from.contains_key(next.as_str()) {
                    came_from.insert(next, module);
                    open.push_back(next);
                }
            }
        }
        None
    }

    /// The modules from top to bottom: each uses only modules of lower layers, and the lowest layer uses none. Modules
    /// that are part of a cycle, or that use one, have no layer and are left out.
    pub fn layers(&self) -> Vec<Vec<String>> {
        let mut layers: Vec<Vec<String>> = Vec::new();
        let mut placed: BTreeSet<&str> = BTreeSet::new();
        loop {
            let is_next = |module: &&String| {
                !placed.contains(module.as_str())
                    && self.uses.get(*module).is_none_or(|used| used.keys().all(|used| placed.contains(used.as_str())))
            };
            let layer: Vec<&String> = self.modules.iter().filter(is_next).collect();
            if layer.is_empty() {
                layers.reverse();
                return layers;
            }
            placed.extend(layer.iter().map(|module| module.as_str()));
            layers.push(layer.into_iter().cloned().collect());
        }
    }
}

/// Where an item of the crate is defined.
enum Home {
    Module(String),
    Root,
    OtherCrate,
    Unknown,
}

/// The names of the crate root.
struct Names<'a> {
    modules: BTreeSet<String>,
    imports: Vec<&'a RootImport>,
    items: BTreeSet<&'a str>,
    macros: BTreeMap<&'a str, String>,
}

impl<'a> Names<'a> {
    fn of(files: &'a [ModuleFile]) -> Self {
        let facts = || files.iter().map(|file| &file.facts);
        let declared = facts().flat_map(|facts| facts.declared.iter().chain(&facts.inline));
        let modules = declared.filter(|path| path.len() == 1).map(|path| path[0].clone()).collect();
        let macros = files.iter().flat_map(|file| {
            let home = file.module.first();
            file.facts.exported_macros.iter().filter_map(move |name| Some((name.as_str(), home?.clone())))
        });
        Self {
            modules,
            imports: facts().flat_map(|facts| &facts.root_imports).collect(),
            items: facts().flat_map(|facts| &facts.root_items).map(String::as_str).collect(),
            macros: macros.collect(),
        }
    }

    /// Where the first segment of a path from the crate root is defined.
    fn home_of(&self, path: &[String]) -> Home {
        let Some(mut name) = path.first() else { return Home::Unknown };
        // Each step follows one import of the root, so more steps than imports would be a cycle.
        for _ in 0..=self.imports.len() {
            if self.modules.contains(name) {
                return Home::Module(name.clone());
            }
            if let Some(module) = self.macros.get(name.as_str()) {
                return Home::Module(module.clone());
            }
            if self.items.contains(name.as_str()) {
                return Home::Root;
            }
            let Some(import) = self.imports.iter().find(|import| import.name == *name) else { return Home::Unknown };
            match import.path.first() {
                Some(next) if next != name => name = next,
                _ => return Home::OtherCrate,
            }
            let is_known = self.modules.contains(name) || self.imports.iter().any(|import| import.name == *name);
            if !is_known {
                return Home::OtherCrate;
            }
        }
        Home::Unknown
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: crate::{}", self.file.display(), self.line, self.path)
    }
}

#[cfg(test)]
mod tests;
