//! Kinds of objects: what the server knows about each resource.

mod builtin;
pub(crate) mod definition;
pub(crate) mod registry;
pub(crate) mod selectable_fields;
mod typed;

use std::sync::Arc;

use serde_json::{Map, Value};

use self::definition::Definition;
pub(crate) use self::typed::canonical_quantities;

/// One resource in one version.
#[derive(Debug)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The name in URLs, such as `pods`.
    pub plural: String,
    /// The singular name, such as `pod`.
    pub singular: String,
    /// The name in objects, such as `Pod`.
    pub kind: String,
    /// Whether the objects belong to namespaces.
    pub namespaced: bool,
    /// Abbreviations that `kubectl` accepts.
    pub short_names: Vec<String>,
    /// Groups of kinds that `kubectl` accepts, such as `all`.
    pub categories: Vec<String>,
    pub(crate) schema: Schema,
    /// The name under which objects are stored: `pods`, `things.example.org`. All versions of a resource have the same
    /// name. The two groups that serve events have the same name too.
    pub(crate) resource: Arc<str>,
    pub(crate) behaviour: Behaviour,
}

/// How the server knows the fields of a kind.
#[derive(Debug)]
pub(crate) enum Schema {
    /// From the Rust type of a built-in kind. The function decodes into the type and encodes again, which drops unknown
    /// fields.
    BuiltIn(fn(Value) -> Result<Value, serde_json::Error>),
    /// From a CustomResourceDefinition.
    Custom(Arc<Definition>),
}

/// How the server treats objects of a kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Behaviour {
    /// The kind has a `status` subresource. Writes of the object itself do not change `status`.
    pub has_status: bool,
    /// Objects have `metadata.generation`.
    pub has_generation: bool,
    /// A PUT without `resourceVersion` is accepted.
    pub unconditional_update: bool,
    /// A PUT of an object that does not exist creates it.
    pub create_on_update: bool,
    /// Objects can be posted, but are neither stored nor read, such as access reviews.
    pub create_only: bool,
}

impl Kind {
    /// Plural name and group: `pods`, `things.example.org`.
    #[must_use]
    pub fn qualified(&self) -> String {
        self.with_group(&self.plural)
    }

    /// Kind and group: `Pod`, `Thing.example.org`.
    #[must_use]
    pub fn qualified_kind(&self) -> String {
        self.with_group(&self.kind)
    }

    fn with_group(&self, name: &str) -> String {
        if self.group.is_empty() { name.to_owned() } else { format!("{name}.{}", self.group) }
    }

    /// `apiVersion` of the objects: `v1`, `example.org/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    pub(crate) fn definition(&self) -> Option<&Definition> {
        match &self.schema {
            Schema::Custom(definition) => Some(definition),
            Schema::BuiltIn(_) => None,
        }
    }

    /// Whether objects of this kind are stored under this resource name.
    pub(crate) fn is(&self, resource: &str) -> bool {
        &*self.resource == resource
    }

    /// The verbs that discovery lists.
    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        if self.behaviour.create_only {
            &["create"]
        } else {
            &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        }
    }

    /// The object with `kind` and `apiVersion` of this kind as its first fields.
    pub(crate) fn with_type(&self, body: Value) -> Value {
        let mut fields = Map::new();
        fields.insert("kind".to_owned(), self.kind.clone().into());
        fields.insert("apiVersion".to_owned(), self.api_version().into());
        if let Value::Object(body) = body {
            fields.extend(body.into_iter().filter(|(name, _)| name != "kind" && name != "apiVersion"));
        }
        Value::Object(fields)
    }
}
