//! Objects of a list or a watch, each decoded on its own.
//!
//! The kube client decodes a page of a list as a whole: one object that cannot be decoded would hide all others, of all
//! tenants. A [`Listed`] object is read as raw JSON first, which only fails if the answer is not JSON, and then decoded.

use std::collections::BTreeMap;
use std::fmt::Debug;

use aileron_action::TaskAction;
use aileron_action::salvage::{Salvaged, salvage, without_content};
use kube::Resource;
use kube::api::{Api, ListParams, ObjectList, ObjectMeta, PartialObjectMeta};
use kube::core::request::Request;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object of a list or a watch.
#[derive(Clone, Debug)]
pub enum Listed<K> {
    /// The object.
    Decoded(Box<K>),
    /// The object cannot be decoded.
    Malformed(Box<Malformed>),
}

/// An object that cannot be decoded.
#[derive(Clone)]
pub struct Malformed {
    /// The metadata, without the fields that cannot be decoded.
    pub metadata: ObjectMeta,
    /// The field and the error, without the contents of the object.
    pub error: String,
    /// The object as JSON. It may contain secrets, so it is never logged.
    object: Box<RawValue>,
}

impl Malformed {
    /// What can be read of a TaskAction.
    pub fn salvage(self) -> Salvaged {
        salvage(self.metadata, self.object.get(), &self.error)
    }
}

/// The object is left out, so that no log record has it.
impl Debug for Malformed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Malformed").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<K> Listed<K> {
    /// The object, if it can be decoded.
    pub fn decoded(self) -> Option<K> {
        match self {
            Self::Decoded(object) => Some(*object),
            Self::Malformed(_) => None,
        }
    }
}

impl Listed<TaskAction> {
    /// The action, without the fields that cannot be decoded.
    pub fn into_action(self) -> TaskAction {
        match self {
            Self::Decoded(action) => *action,
            Self::Malformed(malformed) => malformed.salvage().object,
        }
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Listed<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Box::<RawValue>::deserialize(deserializer)?;
        Ok(match decode(object.get()) {
            Ok(decoded) => Self::Decoded(Box::new(decoded)),
            Err(error) => Self::Malformed(Box::new(Malformed { metadata: read_metadata(object.get()), error, object })),
        })
    }
}

impl<K: Resource> Resource for Listed<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(kind: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Decoded(object) => object.meta(),
            Self::Malformed(malformed) => &malformed.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Decoded(object) => object.meta_mut(),
            Self::Malformed(malformed) => &mut malformed.metadata,
        }
    }
}

/// Lists the metadata of objects. An object with unreadable metadata affects no other.
pub async fn list_metadata<K>(
    api: &Api<K>,
    parameters: &ListParams,
) -> Result<ObjectList<Listed<PartialObjectMeta<K>>>, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let request = Request::new(api.resource_url()).list_metadata(parameters).map_err(kube::Error::BuildRequest)?;
    api.clone().into_client().request(request).await
}

/// Decodes an object. `managedFields` are large, nested as deeply as their author likes, and never read here, so they
/// cannot make an object malformed.
fn decode<K: DeserializeOwned>(object: &str) -> Result<K, String> {
    let error = match serde_json::from_str(object) {
        Ok(decoded) => return Ok(decoded),
        Err(error) => error,
    };
    let Some(object) = without_managed_fields(object) else { return Err(without_content(&error)) };
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(&object)).map_err(|error| {
        let path = error.path().to_string();
        format!("{path}: {}", without_content(error.inner()))
    })
}

type Fields = BTreeMap<String, Box<RawValue>>;

fn without_managed_fields(object: &str) -> Option<String> {
    let mut fields: Fields = serde_json::from_str(object).ok()?;
    let mut metadata: Fields = serde_json::from_str(fields.get("metadata")?.get()).ok()?;
    metadata.remove("managedFields");
    let metadata = serde_json::value::to_raw_value(&metadata).ok()?;
    fields.insert("metadata".to_owned(), metadata);
    serde_json::to_string(&fields).ok()
}

/// The metadata without the fields that cannot be decoded.
fn read_metadata(object: &str) -> ObjectMeta {
    let fields = || -> Option<Fields> {
        let object: Fields = serde_json::from_str(object).ok()?;
        serde_json::from_str(object.get("metadata")?.get()).ok()
    };
    let fields = fields().unwrap_or_default();
    ObjectMeta {
        name: field(&fields, "name"),
        namespace: field(&fields, "namespace"),
        uid: field(&fields, "uid"),
        resource_version: field(&fields, "resourceVersion"),
        generation: field(&fields, "generation"),
        labels: field(&fields, "labels"),
        annotations: field(&fields, "annotations"),
        finalizers: field(&fields, "finalizers"),
        owner_references: field(&fields, "ownerReferences"),
        creation_timestamp: field(&fields, "creationTimestamp"),
        deletion_timestamp: field(&fields, "deletionTimestamp"),
        ..ObjectMeta::default()
    }
}

fn field<T: DeserializeOwned>(fields: &Fields, name: &str) -> Option<T> {
    fields.get(name).and_then(|text| serde_json::from_str(text.get()).ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use k8s_openapi::api::core::v1::Pod;
    use kube::ResourceExt;
    use kube::api::{DynamicObject, WatchEvent};
    use serde_json::{Value, json};

    use super::*;

    /// JSON of this depth, deeper than the decoder follows.
    fn deep(depth: usize) -> String {
        format!("{}1{}", "{\"f:a\":".repeat(depth), "}".repeat(depth))
    }

    fn pod(name: &str, phase: &Value) -> Value {
        json!({"metadata": {"name": name, "namespace": "ns", "resourceVersion": "7"}, "status": {"phase": phase}})
    }

    fn list<K: Clone + DeserializeOwned>(items: &str) -> Vec<Listed<K>> {
        let text =
            format!(r#"{{"apiVersion":"v1","kind":"List","metadata":{{"resourceVersion":"9"}},"items":[{items}]}}"#);
        serde_json::from_str::<ObjectList<Listed<K>>>(&text).unwrap().items
    }

    #[test]
    fn one_malformed_object_affects_no_other_object_of_the_list() {
        let items =
            [pod("a", &json!("Running")), pod("b", &json!({"s3cret": 1})), pod("c", &json!(null)), json!("s3cret")];
        let listed = list::<Pod>(&items.map(|item| item.to_string()).join(","));
        assert!(matches!((&listed[0], &listed[2]), (Listed::Decoded(_), Listed::Decoded(_))));
        let [_, Listed::Malformed(second), _, Listed::Malformed(last)] = &listed[..] else { panic!("{listed:?}") };
        assert!(second.error.starts_with("status.phase: invalid type: map, expected a string"), "{}", second.error);
        assert_eq!((listed[1].name_any(), listed[1].resource_version()), ("b".into(), Some("7".into())));
        assert_eq!(last.metadata, ObjectMeta::default());
        assert!(!format!("{listed:?}").contains("s3cret"), "{listed:?}");
    }

    #[test]
    fn a_malformed_object_of_a_watch_keeps_its_event_and_its_version() {
        let line = format!(r#"{{"type":"MODIFIED","object":{}}}"#, pod("b", &json!(7)));
        let event: WatchEvent<Listed<Pod>> = serde_json::from_str(&line).unwrap();
        let WatchEvent::Modified(object) = event else { panic!("{event:?}") };
        assert!(matches!(object, Listed::Malformed(_)));
        assert_eq!(object.resource_version().as_deref(), Some("7"));
    }

    #[test]
    fn metadata_is_read_field_by_field() {
        let mut object = pod("a", &json!("Running"));
        object["metadata"]["labels"] = json!({"app": 7});
        object["metadata"]["deletionTimestamp"] = json!("yesterday");
        object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}]);
        let listed = list::<Pod>(&object.to_string());
        let Listed::Malformed(malformed) = &listed[0] else { panic!("{listed:?}") };
        assert!(malformed.error.contains("metadata"), "{}", malformed.error);
        assert_eq!((malformed.metadata.labels.as_ref(), malformed.metadata.deletion_timestamp.as_ref()), (None, None));
        assert_eq!(malformed.metadata.owner_references.as_ref().unwrap()[0].uid, "u");
    }

    #[test]
    fn objects_nested_too_deeply_affect_no_other_object() {
        let item = |name: &str, status: &str| format!(r#"{{"metadata":{{"name":"{name}"}},"status":{status}}}"#);
        let listed = list::<DynamicObject>(&[item("a", "{}"), item("b", &deep(5_000)), item("c", "{}")].join(","));
        let decoded: Vec<_> = listed.iter().map(|object| matches!(object, Listed::Decoded(_))).collect();
        assert_eq!(decoded, [true, false, true]);
        assert_eq!(listed[1].name_any(), "b");
    }

    #[test]
    fn managed_fields_cannot_make_an_object_malformed() {
        for odd in [deep(5_000), "7".to_owned()] {
            let item = format!(
                r#"{{"metadata":{{"name":"a","managedFields":[{{"manager":"m","fieldsV1":{odd}}}]}},"spec":{{"containers":[]}}}}"#
            );
            assert!(matches!(&list::<Pod>(&item)[0], Listed::Decoded(pod) if pod.name_any() == "a"));
            assert!(matches!(&list::<PartialObjectMeta<Pod>>(&item)[0], Listed::Decoded(_)));
        }
    }

    #[test]
    fn an_action_keeps_the_fields_that_can_be_read() {
        let item = json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"runName": "r", "taskTemplate": "!"}});
        let listed = list::<TaskAction>(&item.to_string()).remove(0);
        let action = listed.into_action();
        assert_eq!((action.metadata.uid.as_deref(), action.spec.run_name.as_str()), (Some("u"), "r"));
    }
}
