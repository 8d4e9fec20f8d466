//! Flags that set configuration keys: `--executor.cluster east`, `--plugins.k8s.default-cpus=500m`.
//!
//! A flag of a boolean key needs no value. A flag of a list may be repeated, or may hold several values separated by
//! commas. A flag of a map holds `key=value` pairs separated by commas.

use std::collections::BTreeMap;

use super::environment::value_node;
use crate::document::{Data, Entry, Node};
use crate::error::{ConfigError, ConfigErrors, Origin, Problem};
use crate::schema::keys;
use crate::schema::shape::{Kind, Shape};
use crate::schema::suggest;
use crate::values::findings::Findings;
use crate::values::resolve::Resolver;
use crate::values::tree::Tree;

/// Splits command-line arguments into flags and their values, in order.
///
/// # Errors
///
/// One error for each argument that is not of the form `--section.key`, and for each flag without its value.
pub fn parse_arguments<S: AsRef<str>>(arguments: &[S]) -> Result<Vec<(String, String)>, ConfigErrors> {
    split(Shape::of(&keys(&[])), arguments)
}

/// [`parse_arguments`] for these keys.
pub(crate) fn split<S: AsRef<str>>(root: Shape<'_>, arguments: &[S]) -> Result<Vec<(String, String)>, ConfigErrors> {
    let mut flags = Vec::new();
    let mut errors = Vec::new();
    let mut arguments = arguments.iter().map(AsRef::as_ref);
    while let Some(argument) = arguments.next() {
        let Some(flag) = argument.strip_prefix("--") else {
            errors.push(error(argument, "expected a flag such as --section.key".into()));
            continue;
        };
        if let Some((name, value)) = flag.split_once('=') {
            flags.push((name.to_owned(), value.to_owned()));
        } else if matches!(find(root, flag), Ok((_, shape)) if matches!(shape.kind(), Kind::Bool)) {
            flags.push((flag.to_owned(), "true".to_owned()));
        } else if let Some(value) = arguments.next() {
            flags.push((flag.to_owned(), value.to_owned()));
        } else {
            errors.push(error(flag, "needs a value".into()));
        }
    }
    if errors.is_empty() { Ok(flags) } else { Err(ConfigErrors(errors)) }
}

/// The values that flags set.
pub(crate) fn resolve(root: Shape<'_>, flags: &[(String, String)], findings: &mut Findings) -> Tree {
    // The values of a repeated flag form one list or map, so they are collected before they are checked.
    let mut values: BTreeMap<Vec<String>, (Origin, Shape<'_>, Node)> = BTreeMap::new();
    for (name, text) in flags {
        let origin = Origin::Flag(name.clone());
        match find(root, name) {
            Ok((path, shape)) => {
                let node = flag_node(shape, text);
                match values.get_mut(&path) {
                    Some((_, _, existing)) => append(existing, node),
                    None => {
                        values.insert(path, (origin, shape, node));
                    }
                }
            }
            Err(suggestion) => {
                let problem = Problem::UnknownKey(suggestion);
                findings.errors.push(ConfigError { origin, path: String::new(), problem });
            }
        }
    }
    let mut tree = Tree::empty();
    for (path, (origin, shape, node)) in values {
        let mut resolver = Resolver::new(root, origin);
        if let Some(set) = resolver.value_at(&path, shape, &node) {
            tree.merge(set.below(&path));
        }
        findings.append(resolver.findings);
    }
    tree
}

/// Adds the value of a repeated flag: lists and maps get more entries, a single value is replaced.
fn append(existing: &mut Node, later: Node) {
    match (&mut existing.data, later.data) {
        (Data::List(items), Data::List(more)) => items.extend(more),
        (Data::Map(entries), Data::Map(more)) => entries.extend(more),
        (data, later) => *data = later,
    }
}

/// Parses the value of a flag: a list is split at commas, a map consists of `key=value` pairs.
fn flag_node(shape: Shape<'_>, text: &str) -> Node {
    let node = value_node(shape, text);
    let Data::Text(text) = &node.data else { return node };
    let parts = || text.split(',').filter(|part| !part.is_empty());
    let data = match shape.kind() {
        Kind::List(_) => Data::List(parts().map(Node::text).collect()),
        Kind::Map(_) if parts().all(|part| part.contains('=')) => Data::Map(
            parts()
                .filter_map(|part| part.split_once('='))
                .map(|(key, value)| Entry { key: key.to_owned(), line: 0, value: Node::text(value) })
                .collect(),
        ),
        _ => return node,
    };
    Node { line: 0, data }
}

/// The key that a flag names. If there is none, the error is a suggestion, if there is one.
fn find<'a>(root: Shape<'a>, name: &str) -> Result<(Vec<String>, Shape<'a>), Option<String>> {
    let mut shape = root;
    let mut path = Vec::new();
    for part in name.split('.') {
        let Some(field) = shape.field(part) else {
            let prefix = path.iter().fold(String::from("--"), |text, key: &String| text + key + ".");
            return Err(suggest::nearest(part, shape.fields().map(|field| field.name))
                .map(|key| format!("did you mean {prefix}{key}?")));
        };
        path.push(field.name.to_owned());
        shape = field.shape;
    }
    Ok((path, shape))
}

fn error(flag: &str, message: String) -> ConfigError {
    let origin = Origin::Flag(flag.trim_start_matches('-').to_owned());
    ConfigError { origin, path: String::new(), problem: Problem::Invalid(message) }
}
