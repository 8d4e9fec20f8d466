//! Types for custom resources that look like those of the core API.

use std::collections::BTreeMap;

use serde_json::Value;

/// The fields of an object that its Rust type does not declare, because only the operator uses them.
///
/// A type takes them in by `#[serde(flatten)]`, so that an object that was read is written back complete.
///
/// ```
/// use aileron_machinery::serde_json::{self, json};
/// use aileron_machinery::OtherFields;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct KettleSpec {
///     litres: u32,
///     #[serde(flatten)]
///     other: OtherFields,
/// }
/// let spec: KettleSpec = serde_json::from_value(json!({"litres": 2, "colour": "red"}))?;
/// assert_eq!(spec.other["colour"], "red");
/// assert_eq!(serde_json::to_value(&spec)?, json!({"litres": 2, "colour": "red"}));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub type OtherFields = BTreeMap<String, Value>;

/// Defines the type of a custom resource, with `metadata`, `spec` and an optional `status`.
///
/// Spec and status are types of the caller. They must be `Clone + Debug + Default + PartialEq` and (de)serialisable, and
/// should keep the fields they do not know, so that an object that was read can be written back whole.
///
/// ```
/// use aileron_machinery::custom_resource;
/// # #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
/// # pub struct KettleSpec {}
/// # #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
/// # pub struct KettleStatus {}
/// custom_resource! {
///     /// Boils water.
///     Kettle(KettleSpec, KettleStatus), "kitchen.example.com", "v1", "kettles"
/// }
/// assert_eq!(serde_json::to_value(Kettle::default())?["apiVersion"], "kitchen.example.com/v1");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[macro_export]
macro_rules! custom_resource {
    ($(#[$attribute:meta])* $kind:ident($spec:ty, $status:ty), $group:literal, $version:literal, $plural:literal) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, Default, PartialEq, $crate::serde::Deserialize)]
        #[serde(default, crate = "aileron_machinery::serde")]
        pub struct $kind {
            /// Name, labels, annotations.
            pub metadata: $crate::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// What is wanted.
            pub spec: $spec,
            /// What the operator says; absent until it has seen the object.
            pub status: ::core::option::Option<$status>,
        }

        impl $crate::k8s_openapi::Resource for $kind {
            const API_VERSION: &'static str = ::core::concat!($group, "/", $version);
            const GROUP: &'static str = $group;
            const KIND: &'static str = ::core::stringify!($kind);
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = $crate::k8s_openapi::NamespaceResourceScope;
        }

        impl $crate::k8s_openapi::Metadata for $kind {
            type Ty = $crate::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }

        impl $crate::serde::Serialize for $kind {
            fn serialize<S: $crate::serde::Serializer>(&self, serializer: S) -> ::core::result::Result<S::Ok, S::Error> {
                use $crate::serde::ser::SerializeStruct;
                let length = 4 + usize::from(self.status.is_some());
                let mut object = serializer.serialize_struct(<Self as $crate::k8s_openapi::Resource>::KIND, length)?;
                object.serialize_field("apiVersion", <Self as $crate::k8s_openapi::Resource>::API_VERSION)?;
                object.serialize_field("kind", <Self as $crate::k8s_openapi::Resource>::KIND)?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                if let ::core::option::Option::Some(status) = &self.status {
                    object.serialize_field("status", status)?;
                }
                object.end()
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use k8s_openapi::Resource as _;

    use crate::K8sResource;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::OtherFields;

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub struct KettleSpec {
        litres: Option<u32>,
        #[serde(flatten)]
        other: OtherFields,
    }

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub struct KettleStatus {
        boils: bool,
    }

    custom_resource! {
        /// Boils water.
        Kettle(KettleSpec, KettleStatus), "kitchen.example.com", "v1", "kettles"
    }

    fn is_resource<R: K8sResource>() -> std::borrow::Cow<'static, str> {
        R::resource_kind().plural
    }

    #[test]
    fn objects_say_what_they_are() {
        assert_eq!(is_resource::<Kettle>(), "kettles");
        assert_eq!((Kettle::API_VERSION, Kettle::KIND), ("kitchen.example.com/v1", "Kettle"));
        let object = json!({
            "apiVersion": "kitchen.example.com/v1", "kind": "Kettle", "metadata": {"name": "k"},
            "spec": {"litres": 2, "colour": "red"}, "status": {"boils": true},
        });
        let kettle: Kettle = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(&kettle).unwrap(), object);
    }

    #[test]
    fn a_new_object_has_no_status() {
        let kettle: Kettle = serde_json::from_value(json!({"metadata": {}})).unwrap();
        assert_eq!(kettle, Kettle::default());
        assert!(serde_json::to_value(&kettle).unwrap().get("status").is_none());
    }
}
