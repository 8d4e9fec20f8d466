//! Kubernetes objects of any type behind one object-safe trait, and objects whose type is known only at run time.

use std::any::Any;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::ser::{Error as _, SerializeMap};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::kind::{K8sResource, ResourceKind};
use crate::PluginError;

/// Some Kubernetes object. Watch caches hold objects of typed plugins in their own type, so that reading a phase does not
/// decode anything.
///
/// ```
/// use aileron_machinery::AnyResource;
/// use aileron_machinery::k8s_openapi::api::core::v1::Pod;
///
/// let mut object: Box<dyn AnyResource> = Box::new(Pod::default());
/// object.metadata_mut().name = Some("p-1".into());
/// assert_eq!(object.boxed_clone().metadata().name.as_deref(), Some("p-1"));
/// assert_eq!(object.to_json()?["kind"], "Pod");
/// assert!(object.as_any().downcast_ref::<Pod>().is_some());
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a Kubernetes object",
    label = "an object of a plugin is expected here",
    note = "`JsonObject::new(kind, document)` makes one of JSON; types that implement `K8sResource`, such as those of \
            `k8s_openapi`, are objects already"
)]
pub trait AnyResource: Any + Send + Sync + fmt::Debug {
    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;
    /// Its metadata, to be completed.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;
    /// The object as JSON, with `apiVersion` and `kind`.
    fn to_json(&self) -> Result<Value, PluginError>;
    /// A copy.
    fn boxed_clone(&self) -> Box<dyn AnyResource>;
    /// For the way back to the type.
    fn as_any(&self) -> &dyn Any;
}

#[diagnostic::do_not_recommend]
impl<R: K8sResource> AnyResource for R {
    fn metadata(&self) -> &ObjectMeta {
        self.object_meta()
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        self.object_meta_mut()
    }

    fn to_json(&self) -> Result<Value, PluginError> {
        let failed = |error| {
            let kind = R::resource_kind().kind;
            PluginError::caused_by("", format!("failed to serialise a {kind}"), error)
        };
        serde_json::to_value(self).map_err(failed)
    }

    fn boxed_clone(&self) -> Box<dyn AnyResource> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An object of a kind that is known only at run time: metadata, and everything else as JSON.
///
/// ```
/// use aileron_machinery::serde_json::json;
/// use aileron_machinery::{AnyResource, JsonObject, ResourceKind};
///
/// let kind = ResourceKind::new("kitchen.example.com", "v1", "Kettle", "kettles");
/// let kettle = JsonObject::new(kind, json!({"metadata": {"labels": {"room": "2"}}, "spec": {"litres": 2}}))?;
/// assert_eq!(kettle.rest["spec"]["litres"], 2);
/// assert_eq!(kettle.to_json()?["apiVersion"], "kitchen.example.com/v1");
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct JsonObject {
    /// Its kind.
    pub kind: ResourceKind,
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// All members but `apiVersion`, `kind` and `metadata`.
    pub rest: Map<String, Value>,
}

impl JsonObject {
    /// Reads an object of this kind. `apiVersion` and `kind` of the document are replaced by the kind.
    ///
    /// # Errors
    /// The document is not an object, or its metadata is not that of a Kubernetes object.
    pub fn new(kind: ResourceKind, document: Value) -> Result<Self, PluginError> {
        let unreadable =
            |detail: String| PluginError::uncoded(format!("the object is not a readable {}: {detail}", kind.kind));
        let Value::Object(mut rest) = document else { return Err(unreadable("it is not a JSON object".to_owned())) };
        let metadata = match rest.remove("metadata") {
            None | Some(Value::Null) => ObjectMeta::default(),
            Some(metadata) => {
                serde_json::from_value(metadata).map_err(|error| unreadable(format!("metadata: {error}")))?
            }
        };
        rest.remove("apiVersion");
        rest.remove("kind");
        Ok(Self { kind, metadata, rest })
    }
}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(key) = ["apiVersion", "kind", "metadata"].into_iter().find(|key| self.rest.contains_key(*key)) {
            return Err(S::Error::custom(format!("{key} stands twice in an object")));
        }
        let mut map = serializer.serialize_map(Some(3 + self.rest.len()))?;
        map.serialize_entry("apiVersion", &self.kind.api_version())?;
        map.serialize_entry("kind", &self.kind.kind)?;
        map.serialize_entry("metadata", &self.metadata)?;
        for (key, value) in &self.rest {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl AnyResource for JsonObject {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn to_json(&self) -> Result<Value, PluginError> {
        serde_json::to_value(self)
            .map_err(|error| PluginError::caused_by("", format!("failed to serialise a {}", self.kind.kind), error))
    }

    fn boxed_clone(&self) -> Box<dyn AnyResource> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_of_a_kind_known_at_run_time_keeps_all_its_members() {
        let kind = ResourceKind::new("kitchen.example.com", "v1", "Kettle", "kettles");
        let document = json!({
            "apiVersion": "kitchen.example.com/v1", "kind": "Kettle", "metadata": {"name": "k"},
            "spec": {"litres": 2}, "status": {"boils": true},
        });
        let kettle = JsonObject::new(kind.clone(), document.clone()).unwrap();
        assert_eq!(kettle.metadata().name.as_deref(), Some("k"));
        assert_eq!(kettle.to_json().unwrap(), document);
        assert!(JsonObject::new(kind.clone(), json!([])).is_err());
        assert!(JsonObject::new(kind, json!({"metadata": {"name": 1}})).is_err());
    }
}
