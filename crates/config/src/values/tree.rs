//! Checked values with their origin. Sources are merged in this form.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::Origin;

/// A part of a configuration. It holds only the keys that a source has set; defaults are added later.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    /// A group of known keys.
    Struct(BTreeMap<String, Self>),
    /// A map whose keys the user chooses.
    Map {
        entries: BTreeMap<String, Self>,
        /// True if the map was written as a list of maps. Such a map replaces the map of an earlier source. A map that
        /// was written as a map is merged with it.
        replaces_earlier: bool,
        origin: Origin,
    },
    /// A list.
    List(Vec<Self>, Origin),
    /// A single value.
    Leaf(Value, Origin),
}

impl Tree {
    /// A tree in which no key is set.
    pub fn empty() -> Self {
        Self::Struct(BTreeMap::new())
    }

    /// Puts this tree below a path of known keys.
    pub fn below(self, path: &[String]) -> Self {
        path.iter().rev().fold(self, |tree, key| Self::Struct(BTreeMap::from([(key.clone(), tree)])))
    }

    /// Merges a later source into this one. Groups and maps are merged key by key. Lists and single values are
    /// replaced.
    pub fn merge(&mut self, later: Self) {
        match (self, later) {
            (Self::Struct(mine), Self::Struct(theirs))
            | (Self::Map { entries: mine, .. }, Self::Map { entries: theirs, replaces_earlier: false, .. }) => {
                for (key, tree) in theirs {
                    match mine.get_mut(&key) {
                        Some(existing) => existing.merge(tree),
                        None => {
                            mine.insert(key, tree);
                        }
                    }
                }
            }
            (mine, theirs) => *mine = theirs,
        }
    }

    /// The values without their origins.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Struct(entries) | Self::Map { entries, .. } => {
                Value::Object(entries.iter().map(|(key, tree)| (key.clone(), tree.to_json())).collect())
            }
            Self::List(items, _) => Value::Array(items.iter().map(Self::to_json).collect()),
            Self::Leaf(value, _) => value.clone(),
        }
    }

    /// The part under one key, or the entry of a list with this number. The letter case of the key does not matter.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Struct(entries) | Self::Map { entries, .. } => entries
                .get(key)
                .or_else(|| entries.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, tree)| tree)),
            Self::List(items, _) => key.parse::<usize>().ok().and_then(|index| items.get(index)),
            Self::Leaf(..) => None,
        }
    }

    /// Removes the part at this path, if it is there.
    pub fn remove(&mut self, path: &[String]) {
        let Some((key, below)) = path.split_first() else { return };
        if let Self::Struct(entries) | Self::Map { entries, .. } = self {
            if below.is_empty() {
                entries.remove(key);
            } else if let Some(entry) = entries.get_mut(key) {
                entry.remove(below);
            }
        }
    }

    /// The lists and single values with their paths. A list counts as one value.
    pub fn leaves(&self) -> Vec<(Vec<String>, &Self)> {
        match self {
            Self::Struct(entries) | Self::Map { entries, .. } => {
                let below = entries.iter().flat_map(|(key, tree)| {
                    tree.leaves().into_iter().map(move |(path, leaf)| ([vec![key.clone()], path].concat(), leaf))
                });
                below.collect()
            }
            Self::List(..) | Self::Leaf(..) => vec![(Vec::new(), self)],
        }
    }

    /// Where the value at this path comes from. It is the default if no source has set it. A group has no origin of its
    /// own, so that of the first of its values is taken.
    pub fn origin<S: AsRef<str>>(&self, path: &[S]) -> Origin {
        let mut tree = self;
        for key in path {
            match tree.get(key.as_ref()) {
                Some(next) => tree = next,
                None => return Origin::Default,
            }
        }
        match tree {
            Self::Struct(_) => tree.first_origin(),
            Self::Map { origin, .. } | Self::List(_, origin) | Self::Leaf(_, origin) => origin.clone(),
        }
    }

    /// The origin of the value below that comes first in its file.
    fn first_origin(&self) -> Origin {
        let origins = self.leaves().into_iter().map(|(_, leaf)| leaf.origin::<&str>(&[]));
        let line = |origin: &Origin| match origin {
            Origin::File { line, .. } => *line,
            _ => usize::MAX,
        };
        origins.min_by_key(line).unwrap_or(Origin::Default)
    }
}
