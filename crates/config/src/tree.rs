//! A configuration with real keys, checked values, and the origin of each value.

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::Origin;

/// Part of a configuration. Only what somebody has set is in it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    /// A group of known keys.
    Struct(BTreeMap<String, Self>),
    /// Keys of the user's choice. `whole` when it was written as a list, which a later source replaces as a list.
    Map { entries: BTreeMap<String, Self>, whole: bool, origin: Origin },
    /// A list.
    List(Vec<Self>, Origin),
    /// A single value.
    Leaf(Value, Origin),
}

impl Tree {
    /// Nothing set.
    pub fn empty() -> Self {
        Self::Struct(BTreeMap::new())
    }

    /// This tree below a path of known keys.
    pub fn below(self, path: &[String]) -> Self {
        path.iter().rev().fold(self, |tree, key| Self::Struct(BTreeMap::from([(key.clone(), tree)])))
    }

    /// Puts a later source over this one: groups and maps are merged key by key, everything else is replaced.
    pub fn merge(&mut self, later: Self) {
        match (self, later) {
            (Self::Struct(mine), Self::Struct(theirs))
            | (Self::Map { entries: mine, .. }, Self::Map { entries: theirs, whole: false, .. }) => {
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

    /// The values alone.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Struct(entries) | Self::Map { entries, .. } => {
                Value::Object(entries.iter().map(|(key, tree)| (key.clone(), tree.to_json())).collect())
            }
            Self::List(items, _) => Value::Array(items.iter().map(Self::to_json).collect()),
            Self::Leaf(value, _) => value.clone(),
        }
    }

    /// The part under one key, whatever its letter case.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Struct(entries) | Self::Map { entries, .. } => entries
                .get(key)
                .or_else(|| entries.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, tree)| tree)),
            Self::List(..) | Self::Leaf(..) => None,
        }
    }

    /// Where the value under a path comes from.
    pub fn origin(&self, path: &[&str]) -> Origin {
        let mut tree = self;
        for key in path {
            match tree.get(key) {
                Some(next) => tree = next,
                None => return Origin::Default,
            }
        }
        match tree {
            Self::Struct(_) => Origin::Default,
            Self::Map { origin, .. } | Self::List(_, origin) | Self::Leaf(_, origin) => origin.clone(),
        }
    }
}
