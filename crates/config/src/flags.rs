//! Flags that set configuration keys: `--executor.cluster east`, `--plugins.k8s.default-cpus=500m`.
//!
//! A boolean flag needs no value. A flag for a list may be repeated or hold several values with commas between; a flag
//! for a map holds `key=value` pairs.

use std::collections::BTreeMap;

use super::environment::value_node;
use super::error::{ConfigError, ConfigErrors, Origin, Problem, Warning};
use super::explain::keys;
use super::node::{Data, Entry, Node};
use super::resolve::Resolver;
use super::shape::{Kind, Shape};
use super::suggest;
use super::tree::Tree;

/// Splits command-line arguments into flags and their values, in order.
///
/// # Errors
///
/// Every argument that is not `--section.key`, and every flag that lacks its value.
pub fn parse_arguments<S: AsRef<str>>(arguments: &[S]) -> Result<Vec<(String, String)>, ConfigErrors> {
    let schema = keys();
    let root = Shape::of(&schema);
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

/// What the flags set, over an empty configuration.
pub(super) fn resolve(
    root: Shape<'_>,
    flags: &[(String, String)],
    errors: &mut Vec<ConfigError>,
    warnings: &mut Vec<Warning>,
) -> Tree {
    // Repeated flags of one key are one value, so they are gathered first.
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
                errors.push(ConfigError { origin, path: String::new(), problem: Problem::UnknownKey(suggestion) });
            }
        }
    }
    let mut tree = Tree::empty();
    for (path, (origin, shape, node)) in values {
        let mut resolver = Resolver::new(root, origin);
        if let Some(set) = resolver.value_at(&path, shape, &node) {
            tree.merge(set.below(&path));
        }
        errors.append(&mut resolver.errors);
        warnings.append(&mut resolver.warnings);
    }
    tree
}

/// A later value of a repeated flag: lists and maps grow, single values are replaced.
fn append(existing: &mut Node, later: Node) {
    match (&mut existing.data, later.data) {
        (Data::List(items), Data::List(more)) => items.extend(more),
        (Data::Map(entries), Data::Map(more)) => entries.extend(more),
        (data, later) => *data = later,
    }
}

/// The value of a flag: lists are split at commas, maps are made of `key=value` pairs.
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

/// The key a flag names, or a remedy if it names none.
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
