//! One object as it is kept.

use std::collections::BTreeMap;

use aileron_kubekit::selector::{FieldSelector, LabelSelector};
use bytes::Bytes;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::Key;
use crate::field_names;
use crate::kind::Kind;
use crate::object::{meta, set_meta, text_map};

/// One version of one object. It never changes, so readers share it.
#[derive(Debug)]
pub struct Stored {
    pub(crate) key: Key,
    pub(crate) revision: u64,
    pub(crate) uid: String,
    pub(crate) owners: Vec<String>,
    labels: BTreeMap<String, String>,
    /// Those that field selectors may name, apart from name and namespace.
    fields: BTreeMap<String, String>,
    /// The object without its kind and version: these depend on who asks.
    body: Bytes,
}

impl Stored {
    pub(crate) fn new(kind: &Kind, object: &Value, revision: u64) -> Self {
        let empty = Map::new();
        let fields = object.as_object().unwrap_or(&empty);
        let body = Fields(fields.iter().filter(|(name, _)| *name != "kind" && *name != "apiVersion").collect());
        // Texts, numbers and lists of such always encode.
        let body = serde_json::to_vec(&body).unwrap_or_else(|_| b"{}".to_vec());
        let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        Self {
            key: Key::of(object),
            revision,
            uid: meta(object, "uid").to_owned(),
            owners: owners.filter_map(|owner| owner["uid"].as_str().map(str::to_owned)).collect(),
            labels: text_map(&object["metadata"]["labels"]),
            fields: field_names::extract(kind, object),
            body: body.into(),
        }
    }

    /// The same object under another revision.
    pub(crate) fn at(&self, kind: &Kind, revision: u64) -> Self {
        let mut object = self.body();
        set_meta(&mut object, "resourceVersion", revision.to_string().into());
        Self::new(kind, &object, revision)
    }

    /// The object without kind and version.
    #[must_use]
    pub fn body(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The object as `kind`.
    pub(crate) fn object(&self, kind: &Kind) -> Value {
        crate::object::with_type(kind, self.body())
    }

    /// The bytes from the first field on, closing brace included.
    pub(crate) fn tail(&self) -> &[u8] {
        self.body.get(1..).unwrap_or(b"}")
    }

    pub(crate) fn is_selected(&self, labels: &LabelSelector, fields: Option<&FieldSelector>) -> bool {
        if !labels.requirements().is_empty() && !labels.matches(&self.labels) {
            return false;
        }
        fields.is_none_or(|selector| {
            let mut known = self.fields.clone();
            known.insert("metadata.name".to_owned(), self.key.name.clone());
            known.insert("metadata.namespace".to_owned(), self.key.namespace.clone());
            selector.matches(&known)
        })
    }
}

/// Fields in the order they have.
struct Fields<'a>(Vec<(&'a String, &'a Value)>);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}
