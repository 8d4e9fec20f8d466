//! One stored version of an object.

use std::collections::BTreeMap;

use aileron_kubekit::selector::{FieldSelector, LabelSelector};
use bytes::Bytes;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::kinds::{Kind, selectable_fields};
use crate::object::{Key, meta, set_meta, string_map};

/// One version of one object. It is immutable, so readers share it.
#[derive(Clone, Debug)]
pub struct Stored {
    pub(crate) key: Key,
    pub(crate) revision: u64,
    pub(crate) uid: String,
    /// Uids of the owner references.
    pub(crate) owners: Vec<String>,
    labels: BTreeMap<String, String>,
    /// Values of the fields that field selectors may use, except for name and namespace.
    fields: BTreeMap<String, String>,
    /// The encoded object without `kind` and `apiVersion`, which depend on the URL of the request.
    body: Bytes,
}

impl Stored {
    pub(crate) fn new(kind: &Kind, object: &Value, revision: u64) -> Self {
        let empty = Map::new();
        let fields = object.as_object().unwrap_or(&empty);
        let body = Fields(fields.iter().filter(|(name, _)| *name != "kind" && *name != "apiVersion").collect());
        // Encoding a JSON value cannot fail.
        let body = serde_json::to_vec(&body).unwrap_or_else(|_| b"{}".to_vec());
        let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        Self {
            key: Key::of(object),
            revision,
            uid: meta(object, "uid").to_owned(),
            owners: owners.filter_map(|owner| owner["uid"].as_str().map(str::to_owned)).collect(),
            labels: string_map(&object["metadata"]["labels"]),
            fields: selectable_fields::extract(kind, object),
            body: body.into(),
        }
    }

    /// The same object with another resourceVersion.
    pub(crate) fn at_revision(&self, revision: u64) -> Self {
        let mut object = self.body();
        set_meta(&mut object, "resourceVersion", revision.to_string().into());
        // Encoding a JSON value cannot fail.
        let body = serde_json::to_vec(&object).unwrap_or_else(|_| b"{}".to_vec()).into();
        Self { revision, body, ..self.clone() }
    }

    /// The object without `kind` and `apiVersion`.
    #[must_use]
    pub fn body(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The object with `kind` and `apiVersion`.
    pub(crate) fn object(&self, kind: &Kind) -> Value {
        kind.with_type(self.body())
    }

    /// The encoded object without its opening brace, so that other fields can be written in front.
    pub(crate) fn encoded_fields(&self) -> &[u8] {
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

/// Encodes fields as a JSON object and keeps their order.
struct Fields<'a>(Vec<(&'a String, &'a Value)>);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}
