//! What a crate offers to other crates: the items that can be named from outside, and the examples in their documentation.

mod examples;
mod sources;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use proc_macro2::Span;
use syn::{Attribute, ImplItem, Item, TraitItem, Type, Visibility};

use super::StructureError;
use super::imports::{Import, imports_of};
use super::references::{absolute, attributes_of, is_for_tests, name_of};
use examples::executed_examples;
use sources::{Module, Sources};

/// Something that other crates can use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicItem {
    /// The source file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// Its name; that of a method with the type or trait in front.
    pub name: String,
    /// Whether an example shows it: one of its own, or for a method one of the type, the trait or another method.
    pub has_example: bool,
}

/// All items of a crate that other crates can name: items and methods that are `pub` in modules that are `pub`, what `pub use`
/// takes from other modules, and exported macros. Code that is only compiled for tests is left out.
///
/// A glob import (`pub use module::*`) counts for all items of the module.
pub fn public_items(root: &Path) -> Result<Vec<PublicItem>, StructureError> {
    public_items_with(root, &|path| fs::read_to_string(path))
}

/// As [`public_items`], with sources from the caller.
fn public_items_with(
    root: &Path,
    source: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<Vec<PublicItem>, StructureError> {
    let sources = Sources::read(root, source)?;
    let mut finder = Finder { sources: &sources, seen: BTreeSet::new(), found: BTreeSet::new() };
    finder.module(&[]);
    finder.exported_macros();
    Ok(finder.found.into_iter().collect())
}

/// Follows the public names of a crate from its root.
struct Finder<'a> {
    sources: &'a Sources,
    /// Modules whose items were found already. Modules may re-export each other.
    seen: BTreeSet<Vec<String>>,
    found: BTreeSet<PublicItem>,
}

impl Finder<'_> {
    /// Finds the public items of a module that other crates can reach.
    fn module(&mut self, path: &[String]) {
        let Some(module) = self.sources.module(path) else { return };
        if !self.seen.insert(path.to_vec()) {
            return;
        }
        for item in &module.items {
            match item {
                Item::Use(item) if is_public(&item.vis) && item.leading_colon.is_none() => {
                    for import in imports_of(&item.tree) {
                        self.import(path, &import);
                    }
                }
                Item::Mod(item) if is_public(&item.vis) => self.module(&[path, &[item.ident.to_string()]].concat()),
                item if visibility(item).is_some_and(is_public) => self.item(module, item),
                _ => {}
            }
        }
    }

    /// Finds what a `pub use` in the module `from` re-exports. Imports from other crates are not items of this one.
    fn import(&mut self, from: &[String], import: &Import) {
        let target = match absolute(from, &import.path) {
            Some(target) => target,
            // Without `crate`, `self` or `super` the path begins with a child of the module or with another crate.
            None => [from, &import.path].concat(),
        };
        let Some((name, parent)) = target.split_last() else { return };
        if name == "*" {
            return self.module(parent);
        }
        self.module(&target);
        let Some(module) = self.sources.module(parent) else { return };
        for item in &module.items {
            match item {
                Item::Use(item) if item.leading_colon.is_none() => {
                    // A module may pass on what it has imported itself. A name that imports itself is another crate.
                    let passed_on = imports_of(&item.tree).into_iter().filter(|other| other.name == *name);
                    for other in passed_on.filter(|other| parent != from || other.path != import.path) {
                        self.import(parent, &other);
                    }
                }
                item if name_of(item).as_ref() == Some(name) => self.item(module, item),
                _ => {}
            }
        }
    }

    /// `#[macro_export]` moves a macro to the crate root, wherever it stands.
    fn exported_macros(&mut self) {
        for module in self.sources.modules() {
            for item in &module.items {
                if let Item::Macro(item) = item
                    && let Some(name) = &item.ident
                    && item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"))
                {
                    self.add(module, name.span(), format!("{name}!"), has_example(&item.attrs));
                }
            }
        }
    }

    /// Notes an item and its methods.
    fn item(&mut self, module: &Module, item: &Item) {
        let (Some(name), Some(span)) = (name_of(item), span_of(item)) else { return };
        let own = executed_examples(attributes_of(item));
        self.add(module, span, name.clone(), !own.is_empty());
        let methods = match item {
            Item::Trait(item) => trait_methods(item, &module.file),
            Item::Struct(_) | Item::Enum(_) | Item::Union(_) => self.inherent_methods(&name),
            _ => return,
        };
        let shown: String = own.into_iter().chain(methods.iter().flat_map(|method| method.examples.clone())).collect();
        for Method { file, line, name: method, .. } in methods {
            let has_example = has_word(&shown, &method);
            self.found.insert(PublicItem { file, line, name: format!("{name}::{method}"), has_example });
        }
    }

    /// The public methods and constants in the `impl` blocks of a type, in any module of the crate.
    fn inherent_methods(&self, type_name: &str) -> Vec<Method> {
        let mut methods = Vec::new();
        for module in self.sources.modules() {
            let blocks = module.items.iter().filter_map(|item| match item {
                Item::Impl(block) if block.trait_.is_none() && names_type(&block.self_ty, type_name) => Some(block),
                _ => None,
            });
            for item in blocks.flat_map(|block| &block.items) {
                let (name, visibility, attributes) = match item {
                    ImplItem::Fn(item) => (&item.sig.ident, &item.vis, &item.attrs),
                    ImplItem::Const(item) => (&item.ident, &item.vis, &item.attrs),
                    _ => continue,
                };
                if is_public(visibility) && !is_for_tests(attributes) {
                    methods.push(Method::new(name, attributes, &module.file));
                }
            }
        }
        methods
    }

    fn add(&mut self, module: &Module, span: Span, name: String, has_example: bool) {
        let line = span.start().line;
        self.found.insert(PublicItem { file: module.file.clone(), line, name, has_example });
    }
}

/// A method or a constant of a type or trait.
struct Method {
    file: PathBuf,
    line: usize,
    name: String,
    examples: Vec<String>,
}

impl Method {
    fn new(name: &syn::Ident, attributes: &[Attribute], file: &Path) -> Self {
        let examples = executed_examples(attributes);
        Self { file: file.to_path_buf(), line: name.span().start().line, name: name.to_string(), examples }
    }
}

fn trait_methods(item: &syn::ItemTrait, file: &Path) -> Vec<Method> {
    let methods = item.items.iter().filter_map(|item| match item {
        TraitItem::Fn(item) => Some(Method::new(&item.sig.ident, &item.attrs, file)),
        TraitItem::Const(item) => Some(Method::new(&item.ident, &item.attrs, file)),
        _ => None,
    });
    methods.collect()
}

/// Whether an `impl` block is for the type of this name.
fn names_type(of: &Type, name: &str) -> bool {
    matches!(of, Type::Path(path) if path.path.segments.last().is_some_and(|segment| segment.ident == name))
}

fn has_example(attributes: &[Attribute]) -> bool {
    !executed_examples(attributes).is_empty()
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn visibility(item: &Item) -> Option<&Visibility> {
    Some(match item {
        Item::Const(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Fn(item) => &item.vis,
        Item::Static(item) => &item.vis,
        Item::Struct(item) => &item.vis,
        Item::Trait(item) => &item.vis,
        Item::Type(item) => &item.vis,
        Item::Union(item) => &item.vis,
        _ => return None,
    })
}

/// Where the name of an item stands.
fn span_of(item: &Item) -> Option<Span> {
    Some(match item {
        Item::Const(item) => item.ident.span(),
        Item::Enum(item) => item.ident.span(),
        Item::Fn(item) => item.sig.ident.span(),
        Item::Static(item) => item.ident.span(),
        Item::Struct(item) => item.ident.span(),
        Item::Trait(item) => item.ident.span(),
        Item::Type(item) => item.ident.span(),
        Item::Union(item) => item.ident.span(),
        _ => return None,
    })
}

impl fmt::Display for PublicItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.name)
    }
}

#[cfg(test)]
mod tests;
