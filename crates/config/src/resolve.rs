//! From a parsed document to real keys and checked values.
//!
//! Upstream's loader has habits that files depend on, kept here: keys of groups have no letter case; keys of a plain
//! map are lower-cased unless they contain a dot; a list of maps stands for a map and keeps its keys' case, and so does
//! everything inside a list; an empty map and null mean "not set".

use std::collections::BTreeMap;

use super::error::{ConfigError, Origin, Problem, Warning};
use super::node::{Data, Entry, Node};
use super::scalar::{self, Fit, Misfit};
use super::shape::{Kind, Shape};
use super::suggest;
use super::tree::Tree;

/// Collects what is wrong while a document is resolved.
pub(super) struct Resolver<'a> {
    root: Shape<'a>,
    origin: Origin,
    path: Vec<String>,
    pub errors: Vec<ConfigError>,
    pub warnings: Vec<Warning>,
}

/// Whether keys of maps keep their letter case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Lower,
    Keep,
}

/// Sections of other Flyte services that share one configuration file with the executor.
const FOREIGN_SECTIONS: [&str; 6] = ["actions", "cache_service", "database", "events", "prof", "runs"];

impl<'a> Resolver<'a> {
    /// A resolver for one source; `origin` names it.
    pub fn new(root: Shape<'a>, origin: Origin) -> Self {
        Self { root, origin, path: Vec::new(), errors: Vec::new(), warnings: Vec::new() }
    }

    /// Resolves a whole document.
    pub fn document(&mut self, node: &Node) -> Tree {
        self.node(self.root, node, node.line, Case::Lower).unwrap_or_else(Tree::empty)
    }

    /// Resolves a single value below a path of known keys.
    pub fn value_at(&mut self, path: &[String], shape: Shape<'a>, node: &Node) -> Option<Tree> {
        self.path = path.to_vec();
        self.node(shape, node, node.line, Case::Keep)
    }

    /// `line` is where the key stands, which is what people look for.
    fn node(&mut self, shape: Shape<'a>, node: &Node, line: usize, case: Case) -> Option<Tree> {
        if node.data == Data::Null {
            return None;
        }
        match shape.kind() {
            Kind::Struct(_) => self.group(shape, node, line, case),
            Kind::Map(values) => self.map(values, node, line, case),
            Kind::List(items) => self.list(items, node, line),
            kind => match scalar::fit(&kind, node) {
                Ok(Fit { value, remark }) => {
                    if let Some(message) = remark {
                        self.warn(line, message);
                    }
                    Some(Tree::Leaf(value, self.origin.at(line)))
                }
                Err(Misfit { expected }) => self.mismatch(line, expected, node),
            },
        }
    }

    fn group(&mut self, shape: Shape<'a>, node: &Node, line: usize, case: Case) -> Option<Tree> {
        let Data::Map(entries) = &node.data else {
            return self.mismatch(line, "a map of settings".into(), node);
        };
        let mut fields = BTreeMap::new();
        for entry in entries {
            let Some(field) = shape.field(&entry.key) else {
                self.unknown(shape, entry);
                continue;
            };
            self.path.push(field.name.to_owned());
            if let Some(tree) = self.node(field.shape, &entry.value, entry.line, case) {
                fields.insert(field.name.to_owned(), tree);
            }
            self.path.pop();
        }
        (!fields.is_empty() || case == Case::Keep).then_some(Tree::Struct(fields))
    }

    fn map(&mut self, values: Shape<'a>, node: &Node, line: usize, case: Case) -> Option<Tree> {
        let mut entries = BTreeMap::new();
        let whole = match &node.data {
            Data::Map(written) => {
                if written.is_empty() && case == Case::Lower {
                    return None;
                }
                self.map_entries(values, written, case, &mut entries);
                false
            }
            Data::List(items) => {
                for item in items {
                    match &item.data {
                        Data::Map(written) => self.map_entries(values, written, Case::Keep, &mut entries),
                        _ => {
                            self.mismatch(item.line, "a map with one entry".into(), item);
                        }
                    }
                }
                true
            }
            _ => return self.mismatch(line, "a map, or a list of maps with one entry each".into(), node),
        };
        Some(Tree::Map { entries, whole, origin: self.origin.at(line) })
    }

    fn map_entries(&mut self, values: Shape<'a>, written: &[Entry], case: Case, into: &mut BTreeMap<String, Tree>) {
        for entry in written {
            let dotted = entry.key.contains('.');
            let key = if case == Case::Keep || dotted { entry.key.clone() } else { entry.key.to_lowercase() };
            let below = if dotted { Case::Keep } else { case };
            self.path.push(key.clone());
            // Inside lists nothing is dropped: an entry without a value is an empty text there.
            let empty = below == Case::Keep && entry.value.data == Data::Null && matches!(values.kind(), Kind::Text);
            let value = if empty { &Node::text("") } else { &entry.value };
            if let Some(tree) = self.node(values, value, entry.line, below) {
                into.insert(key, tree);
            }
            self.path.pop();
        }
    }

    fn list(&mut self, items: Shape<'a>, node: &Node, line: usize) -> Option<Tree> {
        let single = !matches!(items.kind(), Kind::Struct(_) | Kind::Map(_) | Kind::List(_) | Kind::Any);
        let parts: Vec<Node> = match &node.data {
            Data::List(nodes) => nodes.clone(),
            // Single values that are texts may be given in one text, which is all a flag can carry.
            Data::Text(text) if single => {
                text.split(',').filter(|_| !text.is_empty()).map(|part| at(part.to_owned(), line)).collect()
            }
            Data::Bool(_) | Data::Number(_) if single => vec![node.clone()],
            Data::Map(_) if !single => vec![node.clone()],
            _ => return self.mismatch(line, "a list".into(), node),
        };
        let mut trees = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            self.path.push(index.to_string());
            let line = if part.line == 0 { line } else { part.line };
            trees.extend(self.node(items, part, line, Case::Keep));
            self.path.pop();
        }
        Some(Tree::List(trees, self.origin.at(line)))
    }

    fn unknown(&mut self, shape: Shape<'a>, entry: &Entry) {
        if self.path.is_empty() && FOREIGN_SECTIONS.iter().any(|name| name.eq_ignore_ascii_case(&entry.key)) {
            self.path.push(entry.key.clone());
            self.warn(entry.line, "section of another Flyte service, not read here".into());
            self.path.pop();
            return;
        }
        self.path.push(entry.key.clone());
        let problem = Problem::UnknownKey(suggest::for_key(self.root, shape, &entry.key));
        self.error(entry.line, problem);
        self.path.pop();
    }

    fn mismatch(&mut self, line: usize, expected: String, node: &Node) -> Option<Tree> {
        self.error(line, Problem::Mismatch { expected, found: node.describe() });
        None
    }

    fn error(&mut self, line: usize, problem: Problem) {
        self.errors.push(ConfigError { origin: self.origin.at(line), path: self.path.join("."), problem });
    }

    fn warn(&mut self, line: usize, message: String) {
        self.warnings.push(Warning { origin: self.origin.at(line), path: self.path.join("."), message });
    }
}

fn at(text: String, line: usize) -> Node {
    Node { line, data: Data::Text(text) }
}
