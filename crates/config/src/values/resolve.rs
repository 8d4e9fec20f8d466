//! Turns a parsed document into known keys and checked values.
//!
//! Existing files depend on these rules of upstream's loader:
//!
//! - The letter case of known keys does not matter.
//! - The keys of a map become lower case unless they contain a dot.
//! - A list of maps stands for one map. Its keys keep their letter case, and so does everything inside a list.
//! - An empty map and `null` mean "not set".

use std::collections::BTreeMap;

use super::findings::{Findings, Unread, WhyUnread};
use super::scalar::{self, Converted, WrongType};
use super::tree::Tree;
use crate::document::{Data, Entry, Node};
use crate::error::{ConfigError, Origin, Problem, Warning};
use crate::schema::credentials::may_be_shown;
use crate::schema::foreign::{self, PLUGIN_SECTIONS, SECTIONS};
use crate::schema::shape::{Kind, Shape};
use crate::schema::suggest;

/// Resolves one source and collects what it finds.
pub(crate) struct Resolver<'a> {
    root: Shape<'a>,
    origin: Origin,
    path: Vec<String>,
    /// How many keys of the path have no effect.
    without_effect: usize,
    pub findings: Findings,
}

/// Whether the keys of maps become lower case or keep their letter case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Lower,
    Keep,
}

/// The group whose keys are the sections of plugins.
const PLUGINS: &str = "plugins";

impl<'a> Resolver<'a> {
    /// A resolver for one source. `origin` names the source in messages.
    pub fn new(root: Shape<'a>, origin: Origin) -> Self {
        Self { root, origin, path: Vec::new(), without_effect: 0, findings: Findings::default() }
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

    /// Resolves a value. `line` is the line of its key, because that is the line a user looks for.
    fn node(&mut self, shape: Shape<'a>, node: &Node, line: usize, case: Case) -> Option<Tree> {
        if node.data == Data::Null {
            return None;
        }
        match shape.kind() {
            Kind::Struct(_) => self.group(shape, node, line, case),
            Kind::Map(values) => self.map(values, node, line, case),
            Kind::List(items) => self.list(items, node, line),
            kind => match scalar::convert(&kind, node) {
                Ok(Converted { value, warning, unlikely }) => {
                    if let Some(expected) = unlikely {
                        let problem = Problem::Mismatch { expected: expected.into(), found: node.describe() };
                        let (origin, path) = (self.origin.at(line), self.path.join("."));
                        self.findings.unlikely.push(ConfigError { origin, path, problem });
                    }
                    if let Some(message) = warning {
                        self.warn(line, message);
                    }
                    Some(Tree::Leaf(value, self.origin.at(line)))
                }
                Err(WrongType { expected }) => self.mismatch(line, expected, node),
            },
        }
    }

    fn group(&mut self, shape: Shape<'a>, node: &Node, line: usize, case: Case) -> Option<Tree> {
        let Data::Map(entries) = &node.data else {
            return self.mismatch(line, "a map of settings".into(), node);
        };
        let mut fields = BTreeMap::new();
        let mut seen = BTreeMap::new();
        for entry in entries {
            let Some(field) = shape.field(&entry.key) else {
                self.unknown(shape, entry);
                continue;
            };
            self.path.push(field.name.to_owned());
            self.check_case(&mut seen, field.name, entry);
            let without_effect = usize::from(field.no_effect.reason().is_some());
            self.without_effect += without_effect;
            if let Some(tree) = self.node(field.shape, &entry.value, entry.line, case) {
                fields.insert(field.name.to_owned(), tree);
            }
            self.without_effect -= without_effect;
            self.path.pop();
        }
        (!fields.is_empty() || case == Case::Keep).then_some(Tree::Struct(fields))
    }

    fn map(&mut self, values: Shape<'a>, node: &Node, line: usize, case: Case) -> Option<Tree> {
        let mut entries = BTreeMap::new();
        let replaces_earlier = match &node.data {
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
        Some(Tree::Map { entries, replaces_earlier, origin: self.origin.at(line) })
    }

    fn map_entries(&mut self, values: Shape<'a>, written: &[Entry], case: Case, into: &mut BTreeMap<String, Tree>) {
        let mut seen = BTreeMap::new();
        for entry in written {
            let dotted = entry.key.contains('.');
            let key = if case == Case::Keep || dotted { entry.key.clone() } else { entry.key.to_lowercase() };
            let below = if dotted { Case::Keep } else { case };
            self.path.push(key.clone());
            self.check_case(&mut seen, &key, entry);
            // Inside a list, an entry without a value is not dropped: it becomes an empty string.
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
            // A list of single values may be one string with commas, because a flag can carry only a string.
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

    /// Two keys of one map that differ only in their letter case are the same key, and one value would be lost.
    fn check_case<'e>(&mut self, seen: &mut BTreeMap<String, &'e Entry>, name: &str, entry: &'e Entry) {
        if let Some(earlier) = seen.insert(name.to_owned(), entry) {
            let message = format!(
                "{:?} is the same key as {:?} in line {}, because the letter case does not matter; remove one of them",
                entry.key, earlier.key, earlier.line
            );
            self.error(entry.line, Problem::Invalid(message));
        }
    }

    /// An unknown key is a mistake. But a whole section may belong to another service, and where nothing has an effect a
    /// newer version of Flyte may have more keys.
    fn unknown(&mut self, shape: Shape<'a>, entry: &Entry) {
        let known = match self.path.as_slice() {
            [] => Some(SECTIONS),
            [group] if group == PLUGINS => Some(PLUGIN_SECTIONS),
            _ => None,
        };
        self.path.push(entry.key.clone());
        let suggestion = || suggest::for_key(self.root, shape, &entry.key);
        let is_section = matches!(entry.value.data, Data::Map(_) | Data::Null);
        let why = match known.map(|list| foreign::find(list, &entry.key)) {
            Some(Some(foreign)) => Some(WhyUnread::Foreign { owner: foreign.owner }),
            Some(None) if is_section => Some(WhyUnread::UnknownSection(suggestion())),
            _ if self.without_effect > 0 => Some(WhyUnread::UnknownKey(suggestion())),
            _ => None,
        };
        match why {
            Some(why) => {
                let (origin, path) = (self.origin.at(entry.line), self.path.join("."));
                self.findings.unread.push(Unread { origin, path, why });
            }
            None => {
                let problem = Problem::UnknownKey(suggestion());
                self.error(entry.line, problem);
            }
        }
        self.path.pop();
    }

    fn mismatch(&mut self, line: usize, expected: String, node: &Node) -> Option<Tree> {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        // Errors are logged. A credential at the wrong place is still a credential.
        let is_shown = match &node.data {
            Data::Text(text) => may_be_shown(&path, text),
            Data::Number(number) => may_be_shown(&path, &number.to_string()),
            _ => true,
        };
        let found = if is_shown { node.describe() } else { "a text that may be a credential".into() };
        self.error(line, Problem::Mismatch { expected, found });
        None
    }

    fn error(&mut self, line: usize, problem: Problem) {
        self.findings.errors.push(ConfigError { origin: self.origin.at(line), path: self.path.join("."), problem });
    }

    fn warn(&mut self, line: usize, message: String) {
        self.findings.warnings.push(Warning { origin: self.origin.at(line), path: self.path.join("."), message });
    }
}

fn at(text: String, line: usize) -> Node {
    Node { line, data: Data::Text(text) }
}
