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
            fields.retain(|_, field| field.as_array().is_none_or(|items| !items.is_empty()));
            fields.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
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
