//! Rules for custom resources, which follow from the OpenAPI schema of their definition.

mod prune;
mod schema;

use serde_json::Value;

use crate::errors::Cause;
use crate::kinds::definition::Definition;

/// Drops the fields that the schema does not have and fills in the defaults of the schema. The paths of dropped fields
/// are added to `unknown`.
pub(crate) fn shape(definition: &Definition, version: &str, object: &mut Value, unknown: &mut Vec<String>) {
    let schema = definition.schema(version);
    if schema.is_object() {
        prune::prune(object, schema, unknown);
        prune::fill_in_defaults(object, schema);
    }
}

/// Every violation of the schema.
pub(crate) fn violations(definition: &Definition, version: &str, object: &Value) -> Vec<Cause> {
    let schema = definition.schema(version);
    if schema.is_object() { schema::violations(object, schema) } else { Vec::new() }
}
