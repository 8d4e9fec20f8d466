//! Pod specs that arrive as protobuf structs.

use aileron_idl::{JsonError, struct_to_json};
use aileron_kubekit::quantity::{ParseQuantityError, Quantity};
use k8s_openapi::api::core::v1::PodSpec;
use prost_types::Struct;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Why a struct cannot be read as an object.
///
/// ```
/// use aileron_machinery::idl::json_to_struct;
/// use aileron_machinery::pod::decode::{DecodeError, pod_spec};
/// # use aileron_machinery::serde_json::json;
///
/// assert!(matches!(pod_spec(None), Err(DecodeError::Absent)));
/// let odd = json!({"containers": [{"name": "main", "resources": {"limits": {"cpu": "many"}}}]});
/// let error = pod_spec(Some(&json_to_struct(&odd).unwrap())).unwrap_err();
/// assert!(error.to_string().starts_with("containers[0].resources.limits.cpu: "));
/// ```
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// There is no struct at all.
    #[error("nil Struct Object passed")]
    Absent,
    /// A number has no JSON form.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The fields do not fit.
    #[error(transparent)]
    Shape(#[from] serde_json::Error),
    /// A quantity cannot be read.
    #[error("{path}: {source}")]
    Quantity {
        /// Where in the object.
        path: String,
        /// What is wrong with it.
        source: ParseQuantityError,
    },
}

/// Reads a pod spec. Unknown fields are ignored. Quantities get their canonical form.
///
/// Mirrors `utils.UnmarshalStructToObj` for a `PodSpec`.
///
/// ```
/// use aileron_machinery::idl::json_to_struct;
/// use aileron_machinery::pod::decode::pod_spec;
/// # use aileron_machinery::serde_json::json;
///
/// let given = json!({"containers": [{"name": "main", "resources": {"limits": {"cpu": "1000m"}}}]});
/// let spec = pod_spec(Some(&json_to_struct(&given).unwrap()))?;
/// let limits = spec.containers[0].resources.as_ref().unwrap().limits.as_ref().unwrap();
/// assert_eq!(limits["cpu"].0, "1", "in the form that Kubernetes writes");
/// # Ok::<(), aileron_machinery::pod::decode::DecodeError>(())
/// ```
pub fn pod_spec(source: Option<&Struct>) -> Result<PodSpec, DecodeError> {
    object(source)
}

/// Reads an object that contains a pod spec.
///
/// ```
/// use aileron_machinery::idl::json_to_struct;
/// use aileron_machinery::k8s_openapi::api::core::v1::PodTemplateSpec;
/// use aileron_machinery::pod::decode::object;
/// # use aileron_machinery::serde_json::json;
///
/// let given = json!({"metadata": {"labels": {"tier": "1"}}, "spec": {"containers": [{"name": "main"}]}});
/// let template: PodTemplateSpec = object(Some(&json_to_struct(&given).unwrap()))?;
/// assert_eq!(template.spec.unwrap().containers[0].name, "main");
/// # Ok::<(), aileron_machinery::pod::decode::DecodeError>(())
/// ```
pub fn object<T: DeserializeOwned>(source: Option<&Struct>) -> Result<T, DecodeError> {
    let mut json = struct_to_json(source.ok_or(DecodeError::Absent)?)?;
    canonicalize_quantities(&mut json, "", "")?;
    Ok(serde_json::from_value(json)?)
}

/// Fields of pod specs with one quantity: the name of the parent field, and the name of the field.
const QUANTITY_FIELDS: [(&str, &str); 2] = [("emptyDir", "sizeLimit"), ("resourceFieldRef", "divisor")];
/// Fields of pod specs with a map from resource names to quantities: the name of the parent field, and the name of the
/// field. The parent of `overhead` is the pod spec itself. It has no name, except in sidecar tasks of version 0, where
/// it is the field `podspec`.
const QUANTITY_MAPS: [(&str, &str); 4] =
    [("resources", "limits"), ("resources", "requests"), ("", "overhead"), ("podspec", "overhead")];

/// Writes all quantities in `json` in their canonical form. `above` is the name of the field that holds `json`.
fn canonicalize_quantities(json: &mut Value, above: &str, path: &str) -> Result<(), DecodeError> {
    match json {
        Value::Object(fields) => {
            for (name, value) in fields {
                let place = (above, name.as_str());
                let path = format!("{path}.{name}");
                match value {
                    Value::Object(amounts) if QUANTITY_MAPS.contains(&place) => {
                        let mut amounts = amounts.iter_mut();
                        amounts.try_for_each(|(name, amount)| canonicalize(amount, &format!("{path}.{name}")))?;
                    }
                    value if QUANTITY_FIELDS.contains(&place) => canonicalize(value, &path)?,
                    value => canonicalize_quantities(value, name, &path)?,
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                canonicalize_quantities(item, above, &format!("{path}[{index}]"))?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Writes one quantity in its canonical form. It may be a text or a number. Null stays null, because Go reads it as
/// absent.
fn canonicalize(amount: &mut Value, path: &str) -> Result<(), DecodeError> {
    let text = match amount {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null => "0".to_owned(),
        _ => return Ok(()), // not a quantity: reading the object as its type fails
    };
    let parsed: Quantity = text
        .parse()
        .map_err(|source| DecodeError::Quantity { path: path.trim_start_matches('.').to_owned(), source })?;
    *amount = Value::String(parsed.to_string());
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use aileron_idl::json_to_struct;
    use serde_json::json;

    use super::*;

    fn with_limit(limit: &Value) -> Struct {
        let spec = json!({
            "containers": [{"resources": {"limits": {"memory": limit}}}],
            "terminationGracePeriodSeconds": 30,
            "somethingNew": true,
        });
        json_to_struct(&spec).unwrap()
    }

    #[test]
    fn amounts_become_canonical_and_whole_numbers_integers() {
        let spec = pod_spec(Some(&with_limit(&json!("1024Mi")))).unwrap();
        assert_eq!(spec.termination_grace_period_seconds, Some(30));
        let limits = spec.containers[0].resources.clone().unwrap().limits.unwrap();
        assert_eq!(limits["memory"].0, "1Gi");
        let spec = pod_spec(Some(&with_limit(&json!(2)))).unwrap();
        assert_eq!(spec.containers[0].resources.clone().unwrap().limits.unwrap()["memory"].0, "2");
    }

    #[test]
    fn a_bad_amount_is_named_by_its_place() {
        let error = pod_spec(Some(&with_limit(&json!("lots")))).unwrap_err();
        assert!(error.to_string().starts_with("containers[0].resources.limits.memory: "), "{error}");
        assert!(matches!(pod_spec(None), Err(DecodeError::Absent)));
    }
}
