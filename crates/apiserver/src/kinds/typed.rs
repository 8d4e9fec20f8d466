//! Fields of built-in kinds: objects are decoded into the Rust type of the kind and encoded again.

use aileron_kubekit::quantity::Quantity;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Fields whose value is a map of quantities, in all built-in kinds.
const AMOUNTS: [&str; 12] = [
    "limits",
    "requests",
    "hard",
    "used",
    "capacity",
    "allocatable",
    "min",
    "max",
    "default",
    "defaultRequest",
    "maxLimitRequestRatio",
    "overhead",
];

/// The field of a CustomResourceDefinition with the schema of a version.
const SCHEMA: &str = "openAPIV3Schema";

/// Fields of a schema that hold a value of the described type, which can be any JSON.
const EXAMPLE_VALUES: [&str; 2] = ["default", "example"];

/// Fields of a schema that map any names to schemas.
const SCHEMAS_BY_NAME: [&str; 4] = ["definitions", "dependencies", "patternProperties", "properties"];

/// Drops unknown fields, nulls and empty lists, as Go does.
pub(super) fn round_trip<T: Serialize + DeserializeOwned>(value: Value) -> Result<Value, serde_json::Error> {
    let typed: T = serde_json::from_value(value)?;
    let mut value = serde_json::to_value(typed)?;
    tidy(&mut value);
    Ok(value)
}

/// Drops empty lists, and writes whole numbers without a fraction.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !is_empty_list(field));
            for (name, field) in fields {
                if name == SCHEMA { tidy_schema(field) } else { tidy(field) }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Number(_) => whole_numbers(value),
        _ => {}
    }
}

/// Like [`tidy`], for the schema of a CustomResourceDefinition. Its examples of values keep their empty lists: the default
/// `[]` differs from no default.
fn tidy_schema(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, field| EXAMPLE_VALUES.contains(&name.as_str()) || !is_empty_list(field));
            for (name, field) in fields {
                match field {
                    Value::Object(schemas) if SCHEMAS_BY_NAME.contains(&name.as_str()) => {
                        schemas.values_mut().for_each(tidy_schema);
                    }
                    _ if name == "enum" || EXAMPLE_VALUES.contains(&name.as_str()) => whole_numbers(field),
                    _ => tidy_schema(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy_schema),
        Value::Number(_) => whole_numbers(schema),
        _ => {}
    }
}

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// Writes whole numbers without a fraction.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Number(number) if number.is_f64() => {
            /// 2^53. Beyond it, a double cannot represent every whole number.
            const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
            let whole = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < MAX_EXACT);
            if let Some(whole) = whole.and_then(|whole| format!("{whole}").parse::<i64>().ok()) {
                *value = whole.into();
            }
        }
        _ => {}
    }
}

/// Writes every quantity of an object in its canonical form, so that `0.5` and `500m` become equal. Every object below a
/// field with one of the names in [`AMOUNTS`] counts as a map of quantities, so this is not for objects with free JSON,
/// like the schema of a CustomResourceDefinition.
///
/// # Errors
/// A value is not a quantity. The text is that of kube-apiserver.
pub(crate) fn canonical_quantities(value: &mut Value) -> Result<(), String> {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                match field {
                    Value::Object(amounts) if AMOUNTS.contains(&name.as_str()) => {
                        for amount in amounts.values_mut() {
                            canonical(amount)?;
                        }
                    }
                    _ => canonical_quantities(field)?,
                }
            }
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(canonical_quantities),
        _ => Ok(()),
    }
}

fn canonical(amount: &mut Value) -> Result<(), String> {
    let text = match &*amount {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        // Another field with the same name as a map of quantities.
        _ => return Ok(()),
    };
    let quantity: Quantity = text.parse().map_err(|_| {
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned()
    })?;
    *amount = Value::String(quantity.to_string());
    Ok(())
}
