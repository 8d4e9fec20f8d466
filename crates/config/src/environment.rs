//! Environment variables that set configuration keys.
//!
//! The name of a key's variable is the dotted key in upper case: `EXECUTOR.CLUSTER`, `PLUGINS.K8S.DEFAULT_CPUS`. Dashes
//! may be written as they are or as underscores. An empty variable counts as not set. Mirrors the bindings that
//! flytestdlib's viper accessor makes.

use super::error::{Origin, Warning};
use super::node::{Data, Node};
use super::resolve::Resolver;
use super::shape::{Kind, Shape};
use super::tree::Tree;
use super::{ConfigError, yaml};

/// What a variable's name points at.
enum Target<'a> {
    /// A known key.
    Key(Vec<String>, Shape<'a>),
    /// An entry of a map whose keys are the user's choice.
    MapEntry(Vec<String>, String, Shape<'a>),
}

/// What the environment sets, over an empty configuration.
pub(super) fn resolve<'a>(
    root: Shape<'_>,
    environment: impl Iterator<Item = (&'a str, &'a str)>,
    errors: &mut Vec<ConfigError>,
    warnings: &mut Vec<Warning>,
) -> Tree {
    let mut tree = Tree::empty();
    for (name, value) in environment.filter(|(name, value)| !value.is_empty() && is_candidate(root, name)) {
        let origin = Origin::Env(name.to_owned());
        let Some(target) = find(root, name) else {
            let message = "names no configuration key; it is ignored".to_owned();
            warnings.push(Warning { origin, path: String::new(), message });
            continue;
        };
        let mut resolver = Resolver::new(root, origin.clone());
        let set = match target {
            Target::Key(path, shape) => {
                resolver.value_at(&path, shape, &value_node(shape, value)).map(|tree| tree.below(&path))
            }
            Target::MapEntry(path, key, shape) => resolver
                .value_at(&path, shape, &value_node(shape, value))
                .map(|value| Tree::Map { entries: [(key, value)].into(), whole: false, origin }.below(&path)),
        };
        errors.append(&mut resolver.errors);
        warnings.append(&mut resolver.warnings);
        if let Some(set) = set {
            tree.merge(set);
        }
    }
    tree
}

/// A text that may stand for a whole list or map when it is written as one.
pub(super) fn value_node(shape: Shape<'_>, value: &str) -> Node {
    let collection = matches!(shape.kind(), Kind::Struct(_) | Kind::Map(_) | Kind::List(_));
    if collection
        && value.starts_with(['[', '{'])
        && let Ok(node @ Node { data: Data::List(_) | Data::Map(_), .. }) = yaml::parse(value)
    {
        return node;
    }
    Node::text(value)
}

/// Only dotted upper-case names below a section of ours are ours; everything else belongs to somebody else.
fn is_candidate(root: Shape<'_>, name: &str) -> bool {
    name.split_once('.').is_some_and(|(section, _)| {
        !name.contains(char::is_lowercase) && root.fields().any(|field| variable_part(field.name) == section)
    })
}

fn find<'a>(root: Shape<'a>, name: &str) -> Option<Target<'a>> {
    let mut shape = root;
    let mut path = Vec::new();
    let mut rest = name;
    loop {
        let (part, tail) = rest.split_once('.').map_or((rest, None), |(part, tail)| (part, Some(tail)));
        let part = variable_part(part);
        let field = shape.fields().find(|field| variable_part(field.name) == part)?;
        path.push(field.name.to_owned());
        match (tail, field.shape.kind()) {
            (None, _) => return Some(Target::Key(path, field.shape)),
            (Some(tail), Kind::Struct(_)) => {
                shape = field.shape;
                rest = tail;
            }
            (Some(tail), Kind::Map(values)) => return Some(Target::MapEntry(path, tail.to_lowercase(), values)),
            (Some(_), _) => return None,
        }
    }
}

fn variable_part(key: &str) -> String {
    key.to_uppercase().replace('-', "_")
}
