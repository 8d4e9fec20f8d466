//! Laying one Kubernetes object over another by the rules pod templates are merged with.
//!
//! The rules are those of Go's `mergo.Merge(dst, src, WithOverride, WithAppendSlice)`, and they are not those of any
//! Kubernetes patch:
//!
//! * Lists are appended, duplicates and all.
//! * A scalar overrides, unless it is empty (`""`, `0`, `false`) and there is something to override. So nothing laid
//!   over a template can turn `true` into `false`.
//! * An object with fields is merged field by field.
//! * An object that is a map (labels, limits) is merged key by key, and there even an empty value overrides.
//! * A port given by name is never overridden by a number, because Go holds both kinds in one struct whose "it is a
//!   number" flag is its zero value.
//!
//! JSON does not tell maps from objects with fields; a [`MergeSchema`] does.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Which fields of an object hold maps.
///
/// A field is known by its name alone: within the objects this is used for no name means a map in one place and a
/// structure in another. (Maps inside list items need no mention, since items are never merged.)
#[derive(Clone, Debug)]
pub struct MergeSchema {
    map_fields: Cow<'static, [&'static str]>,
}

/// Failure to move an object through JSON.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// One side cannot be expressed in JSON.
    #[error("failed to encode the {side} object for merging")]
    Encode {
        /// `base` or `overlay`.
        side: &'static str,
        /// The reason.
        #[source]
        source: serde_json::Error,
    },
    /// The result is not an object of the type of its two sources.
    #[error("the merged object is invalid")]
    Decode(#[source] serde_json::Error),
}

impl MergeSchema {
    /// Pods and everything in them: specs, containers, metadata.
    pub const POD: Self = Self {
        map_fields: Cow::Borrowed(&[
            "annotations",
            "labels",
            "limits",
            "matchLabels",
            "nodeSelector",
            "overhead",
            "requests",
        ]),
    };

    /// A schema with these map-typed fields.
    pub fn new(map_fields: &[&'static str]) -> Self {
        Self { map_fields: Cow::Owned(map_fields.to_vec()) }
    }

    fn is_map(&self, field: &str) -> bool {
        self.map_fields.contains(&field)
    }
}

/// `base` with `over` laid over it. `null` counts as absent on both sides.
pub fn overlay(base: Value, over: &Value, schema: &MergeSchema) -> Value {
    match (base, over) {
        (base, Value::Null) => base,
        (Value::Null, over) => over.clone(),
        (Value::Array(mut items), Value::Array(more)) => {
            items.extend(more.iter().cloned());
            Value::Array(items)
        }
        (Value::Object(mut fields), Value::Object(more)) => {
            for (name, value) in more {
                let merged = match (fields.remove(name), value) {
                    (Some(Value::Object(map)), Value::Object(more)) if schema.is_map(name) => {
                        Value::Object(overlay_map(map, more))
                    }
                    (old, value) => overlay(old.unwrap_or_default(), value, schema),
                };
                fields.insert(name.clone(), merged);
            }
            Value::Object(fields)
        }
        (name @ Value::String(_), Value::Number(_)) => name,
        (base, over) if is_empty(over) => base,
        (_, over) => over.clone(),
    }
}

/// [`overlay`] for typed objects.
pub fn overlay_typed<T: Serialize + DeserializeOwned>(
    base: &T,
    over: &T,
    schema: &MergeSchema,
) -> Result<T, MergeError> {
    let encode = |side, object| serde_json::to_value(object).map_err(|source| MergeError::Encode { side, source });
    let merged = overlay(encode("base", base)?, &encode("overlay", over)?, schema);
    serde_json::from_value(merged).map_err(MergeError::Decode)
}

fn overlay_map(mut map: Map<String, Value>, more: &Map<String, Value>) -> Map<String, Value> {
    for (key, value) in more.iter().filter(|(_, value)| !value.is_null()) {
        map.insert(key.clone(), value.clone());
    }
    map
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(yes) => !yes,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn merged(base: Value, over: &Value) -> Value {
        overlay(base, over, &MergeSchema::POD)
    }

    #[test]
    fn lists_are_appended_with_duplicates() {
        let got = merged(json!({"tolerations": [{"key": "a"}]}), &json!({"tolerations": [{"key": "a"}, {"key": "b"}]}));
        assert_eq!(got, json!({"tolerations": [{"key": "a"}, {"key": "a"}, {"key": "b"}]}));
    }

    #[test]
    fn empty_scalars_fill_but_never_override() {
        let base = json!({"hostNetwork": true, "terminationGracePeriodSeconds": 30, "serviceAccountName": "sa"});
        let empty = json!({"hostNetwork": false, "terminationGracePeriodSeconds": 0, "serviceAccountName": ""});
        assert_eq!(merged(base.clone(), &empty), base);
        assert_eq!(merged(json!({}), &empty), empty);
        assert_eq!(merged(base, &json!({"serviceAccountName": "other"}))["serviceAccountName"], "other");
    }

    #[test]
    fn structures_merge_field_by_field() {
        let got = merged(
            json!({"securityContext": {"runAsUser": 1, "runAsNonRoot": true}}),
            &json!({"securityContext": {"runAsUser": 7, "fsGroup": 2, "runAsNonRoot": false}}),
        );
        assert_eq!(got, json!({"securityContext": {"runAsUser": 7, "fsGroup": 2, "runAsNonRoot": true}}));
    }

    #[test]
    fn maps_merge_by_key_and_take_empty_values() {
        let got = merged(
            json!({"labels": {"a": "1", "b": "2"}, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}),
            &json!({"labels": {"a": "", "c": null}, "resources": {"limits": {"cpu": "0"}}}),
        );
        assert_eq!(got, json!({"labels": {"a": "", "b": "2"}, "resources": {"limits": {"cpu": "0", "memory": "1Gi"}}}));
    }

    #[test]
    fn a_port_name_outlives_a_port_number() {
        let probe = |port: Value| json!({"livenessProbe": {"httpGet": {"port": port}}});
        assert_eq!(merged(probe(json!("http")), &probe(json!(8080))), probe(json!("http")));
        assert_eq!(merged(probe(json!(8080)), &probe(json!("http"))), probe(json!("http")));
        assert_eq!(merged(probe(json!(8080)), &probe(json!(80))), probe(json!(80)));
    }

    #[test]
    fn a_schema_names_further_maps() {
        let schema = MergeSchema::new(&["data"]);
        let got = overlay(json!({"data": {"k": "v"}}), &json!({"data": {"k": ""}}), &schema);
        assert_eq!(got, json!({"data": {"k": ""}}));
    }

    #[test]
    fn typed_objects_keep_their_type() {
        let base = std::collections::BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]);
        let over = std::collections::BTreeMap::from([("a".to_owned(), 3)]);
        let got = overlay_typed(&base, &over, &MergeSchema::POD).unwrap();
        assert_eq!(got, [("a".to_owned(), 3), ("b".to_owned(), 2)].into());
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..3_i64).prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map(prop::sample::select(&["labels", "x", "y"][..]), inner, 0..3)
                    .prop_map(|map| map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
            ]
        })
    }

    fn without_lists(value: &Value) -> Value {
        match value {
            Value::Array(_) => Value::Null,
            Value::Object(fields) => fields.iter().map(|(k, v)| (k.clone(), without_lists(v))).collect(),
            other => other.clone(),
        }
    }

    /// How many list items stand below objects, not counting items of items.
    fn items(value: &Value) -> usize {
        match value {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.values().map(items).sum(),
            _ => 0,
        }
    }

    /// Whether two trees disagree on the kind of value at some place, which typed objects cannot.
    fn clash(left: &Value, right: &Value) -> bool {
        match (left, right) {
            (Value::Object(left), Value::Object(right)) => {
                left.iter().any(|(key, value)| right.get(key).is_some_and(|other| clash(value, other)))
            }
            _ => std::mem::discriminant(left) != std::mem::discriminant(right),
        }
    }

    proptest! {
        #[test]
        fn nothing_is_the_identity_on_both_sides(value in tree()) {
            prop_assert_eq!(merged(value.clone(), &Value::Null), value.clone());
            prop_assert_eq!(merged(Value::Null, &value), value.clone());
            if value.is_object() {
                prop_assert_eq!(merged(value.clone(), &json!({})), value.clone());
                prop_assert_eq!(merged(json!({}), &value), value);
            }
        }

        #[test]
        fn without_lists_merging_twice_changes_nothing(base in tree(), over in tree()) {
            let (base, over) = (without_lists(&base), without_lists(&over));
            let once = merged(base, &over);
            prop_assert_eq!(merged(once.clone(), &over), once);
        }

        #[test]
        fn no_list_item_is_lost(base in tree(), over in tree()) {
            prop_assume!(!clash(&base, &over));
            // Maps override per key and may so replace a list; typed maps of lists do not exist here.
            let schema = MergeSchema::new(&[]);
            prop_assert_eq!(items(&overlay(base.clone(), &over, &schema)), items(&base) + items(&over));
        }
    }
}
