//! Schemas of scalar types whose text has its own grammar, and the serializers that keep upstream's spelling of
//! "nothing".
//!
//! The `format` names are what the loader looks for to check a text before it becomes a value, so that a bad duration
//! is reported at its line instead of as a failure of the whole section.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

/// `format` of texts in Go's duration notation.
pub const DURATION_FORMAT: &str = "go-duration";
/// `format` of texts that are Kubernetes quantities.
pub const QUANTITY_FORMAT: &str = "quantity";

/// Schema of a duration such as `1h30m`.
pub fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": DURATION_FORMAT})
}

/// Schema of a Kubernetes quantity such as `500m` or `1Gi`.
pub fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": QUANTITY_FORMAT})
}

/// Schema of a map from names to durations.
pub fn duration_map(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "additionalProperties": {"type": "string", "format": DURATION_FORMAT}})
}

/// A collection that can be asked whether it holds anything.
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
pub fn null_if_empty<T: MaybeEmpty + Serialize, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_empty() { serializer.serialize_none() } else { value.serialize(serializer) }
}

/// True for the zero value of a type: such fields are left out where upstream leaves them out.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
