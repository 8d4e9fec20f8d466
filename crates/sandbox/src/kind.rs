//! Kinds of objects: what the server must know of each to treat all of them alike.

mod builtin;
mod typed;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use builtin::builtin_kinds;
pub(crate) use typed::canonical_quantities;

use crate::crd::Definition;

/// One resource in one version.
#[derive(Debug)]
pub struct Kind {
    /// The group; empty for the core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The name in URLs.
    pub plural: String,
    /// The name of one.
    pub singular: String,
    /// The name in objects.
    pub kind: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// What `kubectl` may call it.
    pub short_names: Vec<String>,
    /// Groups of kinds such as `all`.
    pub categories: Vec<String>,
    pub(crate) nature: Nature,
    /// Where its objects are: versions of a kind, and the two groups of events, share a place.
    pub(crate) place: Arc<str>,
    pub(crate) traits: Traits,
}

/// Where the shape of a kind is known from.
#[derive(Debug)]
pub(crate) enum Nature {
    /// From the types that every client has: decode and encode again, so that what is unknown falls off.
    Typed(fn(Value) -> Result<Value, serde_json::Error>),
    /// From its definition.
    Custom(Arc<Definition>),
}

/// How kinds differ in their treatment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traits {
    /// `/status` exists, and the object itself keeps its status on writes.
    pub has_status: bool,
    /// Carries `metadata.generation`.
    pub has_generation: bool,
    /// A PUT without a version is taken.
    pub unconditional_update: bool,
    /// A PUT of an object that does not exist makes it.
    pub create_on_update: bool,
    /// Cannot be changed or read, only posted: reviews.
    pub virtual_only: bool,
}

impl Kind {
    /// `pods`, `things.example.org`.
    #[must_use]
    pub fn qualified(&self) -> String {
        self.with_group(&self.plural)
    }

    /// `Pod`, `Thing.example.org`.
    #[must_use]
    pub fn qualified_kind(&self) -> String {
        self.with_group(&self.kind)
    }

    fn with_group(&self, name: &str) -> String {
        if self.group.is_empty() { name.to_owned() } else { format!("{name}.{}", self.group) }
    }

    /// `v1`, `example.org/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    pub(crate) fn definition(&self) -> Option<&Definition> {
        match &self.nature {
            Nature::Custom(definition) => Some(definition),
            Nature::Typed(_) => None,
        }
    }

    pub(crate) fn is(&self, place: &str) -> bool {
        &*self.place == place
    }

    /// The verbs that discovery lists.
    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        if self.traits.virtual_only {
            &["create"]
        } else {
            &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        }
    }
}
