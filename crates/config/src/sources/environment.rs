//! Environment variables that set configuration keys.
//!
//! The variable of a key is the dotted key in upper case: `EXECUTOR.CLUSTER`, `PLUGINS.K8S.DEFAULT_CPUS`. A dash may be
//! written as a dash or as an underscore. An empty variable counts as not set. Mirrors the bindings of flytestdlib's
//! viper accessor.

use std::collections::BTreeMap;

use crate::document::{Data, Node, yaml};
use crate::error::{Origin, Warning};
use crate::schema::shape::{Kind, Shape};
use crate::values::findings::Findings;
use crate::values::resolve::Resolver;
use crate::values::tree::Tree;

/// The key that the name of a variable stands for.
enum Target<'a> {
    /// A known key.
    Key(Vec<String>, Shape<'a>),
    /// An entry of a map whose keys the user chooses: the path of the map, the key of the entry, the type of its value.
    MapEntry(Vec<String>, String, Shape<'a>),
}

/// The environment variables of the process. Variables that are not valid UTF-8 are left out: they can be neither
/// configuration nor put into a pod.
#[must_use]
pub fn environment_variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The values that environment variables set.
pub(crate) fn resolve<'a>(
    root: Shape<'_>,
    environment: impl Iterator<Item = (&'a str, &'a str)>,
    findings: &mut Findings,
) -> Tree {
    let mut tree = Tree::empty();
    for (name, value) in environment.filter(|(name, value)| !value.is_empty() && is_candidate(root, name)) {
        let origin = Origin::Env(name.to_owned());
        let Some(target) = find(root, name) else {
            let message = "is ignored: it names no configuration key".to_owned();
            findings.warnings.push(Warning { origin, path: String::new(), message });
            continue;
        };
        let mut resolver = Resolver::new(root, origin.clone());
        let set = match target {
            Target::Key(path, shape) => {
                resolver.value_at(&path, shape, &value_node(shape, value)).map(|tree| tree.below(&path))
            }
            Target::MapEntry(path, key, shape) => {
                resolver.value_at(&path, shape, &value_node(shape, value)).map(|value| {
                    Tree::Map { entries: [(key, value)].into(), replaces_earlier: false, origin }.below(&path)
                })
            }
        };
        findings.append(resolver.findings);
        if let Some(set) = set {
            tree.merge(set);
        }
    }
    tree
}

/// The value of a variable or flag. For a list, map or group it may be YAML in flow style, such as `[a, b]` or
/// `{a: b}`.
pub(crate) fn value_node(shape: Shape<'_>, value: &str) -> Node {
    let collection = matches!(shape.kind(), Kind::Struct(_) | Kind::Map(_) | Kind::List(_));
    if collection
        && value.starts_with(['[', '{'])
        && let Ok(node @ Node { data: Data::List(_) | Data::Map(_), .. }) = yaml::parse(value)
    {
        return node;
    }
    Node::text(value)
}

/// Only variables in upper case that begin with the name of a section and a dot are for the executor. All others belong
/// to other programs and are ignored without a warning.
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
