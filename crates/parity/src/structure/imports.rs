//! Splits `use` items into single imports.

use syn::UseTree;

/// One name that a `use` item imports.
pub(super) struct Import {
    /// The imported name; `*` for a glob.
    pub name: String,
    /// The path as it is written.
    pub path: Vec<String>,
    /// The line, counted from 1.
    pub line: usize,
}

/// All names that a `use` item imports.
pub(super) fn imports_of(tree: &UseTree) -> Vec<Import> {
    let mut found = Vec::new();
    flatten(tree, &mut Vec::new(), &mut found);
    found
}

fn flatten(tree: &UseTree, prefix: &mut Vec<String>, found: &mut Vec<Import>) {
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, found);
            prefix.pop();
        }
        UseTree::Name(name) => add(&name.ident, &name.ident, prefix, found),
        UseTree::Rename(name) => add(&name.ident, &name.rename, prefix, found),
        UseTree::Glob(glob) => {
            let mut path = prefix.clone();
            path.push("*".to_owned());
            found.push(Import { name: "*".to_owned(), path, line: glob.star_token.spans[0].start().line });
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, prefix, found);
            }
        }
    }
}

fn add(name: &syn::Ident, alias: &syn::Ident, prefix: &[String], found: &mut Vec<Import>) {
    let mut path = prefix.to_vec();
    // `use crate::x::{self}` is `use crate::x`.
    if name != "self" || prefix.is_empty() {
        path.push(name.to_string());
    }
    let shown = if alias == "self" { path.last().cloned().unwrap_or_default() } else { alias.to_string() };
    found.push(Import { name: shown, path, line: name.span().start().line });
}
