//! Reads one source text: which modules it declares, and which paths of its own crate it uses.

use proc_macro2::TokenStream;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, ItemMod, Meta, Stmt, TraitItem, Visibility};

use super::imports::imports_of;
use super::tokens::{Texts, demands_test, paths_in};

/// A path of this crate that a source text uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// The top-level module that uses the path; `None` in the crate root.
    pub module: Option<String>,
    /// The path from the crate root, without `crate`. The last part is `*` for a glob import.
    pub path: Vec<String>,
    /// Whether the path begins with `crate`, `self` or `super`. Otherwise it is used in the crate root and may begin with
    /// another crate.
    pub is_explicit: bool,
    /// The line, counted from 1.
    pub line: usize,
}

/// A name that a `use` item of the crate root imports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RootImport {
    /// The name that other modules see: `crate::<name>`.
    pub name: String,
    /// The imported path, which begins with a module or with another crate.
    pub path: Vec<String>,
}

/// The modules and paths of one source text. Code that is only compiled for tests is left out.
#[derive(Debug, Default)]
pub(super) struct SourceFacts {
    /// Modules whose content is in other files: their paths from the crate root.
    pub declared: Vec<Vec<String>>,
    /// Modules whose content is in this text: their paths from the crate root.
    pub inline: Vec<Vec<String>>,
    /// Paths of this crate that the text uses.
    pub references: Vec<Reference>,
    /// Only of the crate root: names that its `use` items import.
    pub root_imports: Vec<RootImport>,
    /// Only of the crate root: names of items that the root defines.
    pub root_items: Vec<String>,
    /// Macros with `#[macro_export]`, which the compiler moves to the crate root.
    pub exported_macros: Vec<String>,
}

/// Reads a source text. `module` is the path of its module from the crate root, empty for the root itself.
pub(super) fn facts_of(module: &[String], text: &str) -> syn::Result<SourceFacts> {
    let file = syn::parse_file(text)?;
    let mut reader = Reader { module: module.to_vec(), depth_of_items: 0, facts: SourceFacts::default() };
    reader.visit_file(&file);
    Ok(reader.facts)
}

/// Visits a source text and collects the facts.
struct Reader {
    /// The module that the reader is in, from the crate root.
    module: Vec<String>,
    /// Nesting depth in items, modules not counted. Imports count as imports of the root only at depth 0.
    depth_of_items: usize,
    facts: SourceFacts,
}

impl Reader {
    fn is_at_root(&self) -> bool {
        self.module.is_empty() && self.depth_of_items == 0
    }

    /// Records a path as written in the source, if it is a path of this crate.
    fn note(&mut self, written: &[String], line: usize) {
        let (path, is_explicit) = match absolute(&self.module, written) {
            Some(path) => (path, true),
            // In the root the modules are in scope by their names. A single name may be a local variable.
            None if self.module.is_empty() && written.len() > 1 => (written.to_vec(), false),
            None => return,
        };
        if !path.is_empty() {
            self.facts.references.push(Reference { module: self.module.first().cloned(), path, is_explicit, line });
        }
    }

    fn note_tokens(&mut self, tokens: TokenStream, texts: Texts) {
        for (path, line) in paths_in(tokens, texts) {
            self.note(&path, line);
        }
    }

    fn item(&mut self, item: &Item) {
        if self.is_at_root()
            && let Some(name) = name_of(item)
        {
            self.facts.root_items.push(name);
        }
        match item {
            Item::Mod(_) | Item::Use(_) => visit::visit_item(self, item),
            _ => {
                self.depth_of_items += 1;
                visit::visit_item(self, item);
                self.depth_of_items -= 1;
            }
        }
    }
}

impl Visit<'_> for Reader {
    fn visit_item(&mut self, item: &Item) {
        if !is_for_tests(attributes_of(item)) {
            self.item(item);
        }
    }

    fn visit_impl_item(&mut self, item: &ImplItem) {
        let attributes: &[Attribute] = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &TraitItem) {
        let attributes: &[Attribute] = match item {
            TraitItem::Const(item) => &item.attrs,
            TraitItem::Fn(item) => &item.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_stmt(&mut self, statement: &Stmt) {
        let attributes: &[Attribute] = match statement {
            Stmt::Local(local) => &local.attrs,
            Stmt::Macro(call) => &call.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_field(&mut self, field: &syn::Field) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_item_mod(&mut self, item: &ItemMod) {
        let name = item.ident.to_string();
        if name == "tests" {
            return;
        }
        self.module.push(name);
        match &item.content {
            None => self.facts.declared.push(self.module.clone()),
            Some(_) => self.facts.inline.push(self.module.clone()),
        }
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        // `use ::x` means another crate.
        if item.leading_colon.is_some() {
            return;
        }
        for import in imports_of(&item.tree) {
            if self.is_at_root() {
                let path = absolute(&[], &import.path).unwrap_or_else(|| import.path.clone());
                self.facts.root_imports.push(RootImport { name: import.name, path });
                // A public import re-exports a module; only a private one is a use by the root's own code.
                if !matches!(item.vis, Visibility::Inherited) {
                    continue;
                }
            }
            self.note(&import.path, import.line);
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        if path.leading_colon.is_none()
            && let Some(first) = path.segments.first()
        {
            let parts: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.note(&parts, first.ident.span().start().line);
        }
        // Generic arguments have paths of their own.
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &syn::Macro) {
        self.note_tokens(call.tokens.clone(), Texts::Skip);
        visit::visit_macro(self, call);
    }

    fn visit_item_macro(&mut self, item: &syn::ItemMacro) {
        if let Some(name) = &item.ident
            && item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"))
        {
            self.facts.exported_macros.push(name.to_string());
        }
        visit::visit_item_macro(self, item);
    }

    fn visit_attribute(&mut self, attribute: &Attribute) {
        match &attribute.meta {
            // Links in documentation are not dependencies.
            meta if meta.path().is_ident("doc") => {}
            Meta::List(list) => self.note_tokens(list.tokens.clone(), Texts::Read),
            _ => visit::visit_attribute(self, attribute),
        }
    }

    /// `pub(in crate::x)` restricts visibility; it is not a dependency.
    fn visit_visibility(&mut self, _: &Visibility) {}
}

/// The path from the crate root of a path that begins with `crate`, `self` or `super`. Every other path begins with
/// another crate, with an imported name or with a child of the same module.
pub(super) fn absolute(module: &[String], written: &[String]) -> Option<Vec<String>> {
    let (first, rest) = written.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" if rest.first().is_some_and(|part| part == "super") => climb(module, rest),
        "self" => Some([module, rest].concat()),
        "super" => climb(module, written),
        _ => None,
    }
}

/// Resolves leading `super` segments; `None` if they lead above the root.
fn climb(module: &[String], written: &[String]) -> Option<Vec<String>> {
    let levels = written.iter().take_while(|part| *part == "super").count();
    let parent = module.get(..module.len().checked_sub(levels)?)?;
    Some([parent, &written[levels..]].concat())
}

/// Whether an item is only compiled for tests.
pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) => list.path.is_ident("cfg") && demands_test(list.tokens.clone()),
        Meta::NameValue(_) => false,
    })
}

pub(super) fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name by which other modules can refer to an item.
pub(super) fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
