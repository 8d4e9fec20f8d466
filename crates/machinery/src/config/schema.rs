//! Schemas of scalar types whose text has its own grammar, and the serializers that keep upstream's spelling of
//! "nothing".
//!
//! The `format` names are what the loader looks for to check a text before it becomes a value, so that a bad duration
//! is reported at its line instead of as a failure of the whole section.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// `format` of texts in Go's duration notation.
///
/// ```
/// use aileron_machinery::config::schema::{DURATION_FORMAT, duration};
/// use aileron_machinery::schemars::SchemaGenerator;
///
/// assert_eq!(duration(&mut SchemaGenerator::default()).get("format").unwrap(), DURATION_FORMAT);
/// ```
pub const DURATION_FORMAT: &str = "go-duration";
/// `format` of texts that are Kubernetes quantities.
///
/// ```
/// use aileron_machinery::config::schema::{QUANTITY_FORMAT, quantity};
/// use aileron_machinery::schemars::SchemaGenerator;
///
/// assert_eq!(quantity(&mut SchemaGenerator::default()).get("format").unwrap(), QUANTITY_FORMAT);
/// ```
pub const QUANTITY_FORMAT: &str = "quantity";

/// Schema of a duration such as `1h30m`.
///
/// ```
/// use aileron_machinery::config::schema;
/// # use aileron_machinery::{schemars::{self, JsonSchema, schema_for}, serde_json};
///
/// #[derive(JsonSchema)]
/// struct OvenConfig {
///     #[schemars(schema_with = "schema::duration")]
///     warm_up: String, // a type that reads such a text, in a real section
/// }
/// let schema = serde_json::to_value(schema_for!(OvenConfig))?;
/// assert_eq!(schema["properties"]["warm_up"]["format"], "go-duration");
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": DURATION_FORMAT})
}

/// Schema of a Kubernetes quantity such as `500m` or `1Gi`.
///
/// ```
/// use aileron_machinery::config::schema;
/// # use aileron_machinery::{schemars::{self, JsonSchema, schema_for}, serde_json};
///
/// #[derive(JsonSchema)]
/// struct OvenConfig {
///     #[schemars(schema_with = "schema::quantity")]
///     memory: String,
/// }
/// let schema = serde_json::to_value(schema_for!(OvenConfig))?;
/// assert_eq!(schema["properties"]["memory"]["format"], "quantity");
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": QUANTITY_FORMAT})
}

/// Schema of a map from names to durations.
///
/// ```
/// use aileron_machinery::config::schema;
/// # use aileron_machinery::{schemars::{self, JsonSchema, schema_for}, serde_json};
/// # use std::collections::BTreeMap;
///
/// #[derive(JsonSchema)]
/// struct OvenConfig {
///     #[schemars(schema_with = "schema::duration_map")]
///     time_limits: BTreeMap<String, String>,
/// }
/// let schema = serde_json::to_value(schema_for!(OvenConfig))?;
/// assert_eq!(schema["properties"]["time_limits"]["additionalProperties"]["format"], "go-duration");
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn duration_map(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "additionalProperties": {"type": "string", "format": DURATION_FORMAT}})
}

/// A collection that can be asked whether it holds anything.
///
/// ```
/// use aileron_machinery::config::schema::MaybeEmpty;
///
/// assert!(MaybeEmpty::is_empty(&Vec::<String>::new()));
/// ```
pub trait MaybeEmpty {
    /// True when nothing is in it.
    fn is_empty(&self) -> bool;
}

impl<K, V> MaybeEmpty for std::collections::BTreeMap<K, V> {
    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }
}

impl<T> MaybeEmpty for Vec<T> {
    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }
}

/// Writes an empty collection as null, as upstream does for collections nobody has set.
///
/// ```
/// use aileron_machinery::config::schema::null_if_empty;
/// use aileron_machinery::serde_json::{self, json};
///
/// #[derive(serde::Serialize)]
/// struct OvenConfig {
///     #[serde(serialize_with = "null_if_empty")]
///     trays: Vec<String>,
/// }
/// assert_eq!(serde_json::to_value(OvenConfig { trays: Vec::new() })?, json!({"trays": null}));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn null_if_empty<T: MaybeEmpty + Serialize, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_empty() { serializer.serialize_none() } else { value.serialize(serializer) }
}

/// True for the zero value of a type: such fields are left out where upstream leaves them out.
///
/// ```
/// use aileron_machinery::config::schema::is_default;
/// use aileron_machinery::serde_json::{self, json};
///
/// #[derive(serde::Serialize)]
/// struct OvenConfig {
///     #[serde(skip_serializing_if = "is_default")]
///     degrees: u32,
/// }
/// assert_eq!(serde_json::to_value(OvenConfig { degrees: 0 })?, json!({}));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Removes the example from the description of a section. It is code, and the readers of the description write files.
pub(crate) fn without_example(schema: &mut Schema) {
    let text = schema.get("description").and_then(Value::as_str);
    if let Some((description, _)) = text.and_then(|text| text.split_once("```")) {
        let description = description.trim_end().to_owned();
        schema.insert("description".to_owned(), description.into());
    }
}

#[cfg(test)]
mod tests {
    use schemars::{JsonSchema, SchemaGenerator};

    use crate::config::{IoUtilsConfig, K8sConfig, LogConfig, LoggerConfig, StorageConfig};

    fn schema_of<T: JsonSchema>() -> String {
        format!("{:?}", SchemaGenerator::default().into_root_schema_for::<T>())
    }

    #[test]
    fn descriptions_of_sections_contain_no_examples_in_rust() {
        let sections = [
            schema_of::<IoUtilsConfig>(),
            schema_of::<K8sConfig>(),
            schema_of::<LogConfig>(),
            schema_of::<LoggerConfig>(),
            schema_of::<StorageConfig>(),
        ];
        for schema in sections {
            assert!(schema.contains("description") && !schema.contains("use aileron_machinery"), "{schema}");
        }
    }
}
