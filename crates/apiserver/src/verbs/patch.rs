//! Patch (PATCH): the four patch formats.

mod apply;
mod strategic;

use json_patch::PatchOperation;
use json_patch::jsonptr::PointerBuf;
use serde_json::Value;

use self::apply::Apply;
use crate::errors::{ApiError, Cause};
use crate::kinds::Kind;
use crate::request::{Query, body};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A parsed patch.
#[derive(Debug)]
pub(crate) enum Patch {
    /// A JSON patch (RFC 6902).
    Json(json_patch::Patch),
    /// A JSON merge patch (RFC 7396).
    Merge(Value),
    /// A strategic merge patch: like a merge patch, but lists are merged by the key of their items.
    Strategic(Value),
    /// A server-side apply: all fields that one field manager wants. It may create the object.
    Apply(Apply),
}

impl Patch {
    pub(crate) fn read(kind: &Kind, media_type: &str, bytes: &[u8], query: &Query) -> Result<Self, ApiError> {
        let undecodable = |problem: String| ApiError::bad_request(format!("error decoding patch: {problem}"));
        let object = |bytes: &[u8]| -> Result<Value, ApiError> {
            let value: Value = serde_json::from_slice(bytes).map_err(|error| undecodable(body::go_text(&error)))?;
            if value.is_object() {
                return Ok(value);
            }
            let found = body::json_type(&value);
            Err(undecodable(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")))
        };
        match media_type.split(';').next().unwrap_or_default().trim() {
            JSON => {
                let value: Value = serde_json::from_slice(bytes).map_err(|error| undecodable(body::go_text(&error)))?;
                if !value.is_array() {
                    let found = body::json_type(&value);
                    return Err(undecodable(format!(
                        "json: cannot unmarshal {found} into Go value of type jsonpatch.Patch"
                    )));
                }
                // kube-apiserver finds an invalid operation only when it applies the patch.
                let patch = serde_json::from_value(value).map_err(|_| ApiError::unprocessable_patch());
                patch.map(Self::Json)
            }
            MERGE => object(bytes).map(Self::Merge),
            STRATEGIC if kind.definition().is_some() => Err(ApiError::unsupported_media(&[JSON, MERGE, APPLY])),
            STRATEGIC => object(bytes).map(Self::Strategic),
            APPLY => {
                let Some(manager) = query.get("fieldManager") else {
                    let cause = Cause::required("fieldManager", "is required for apply patch");
                    return Err(ApiError::invalid_named("meta.k8s.io", "PatchOptions", "", &[cause]));
                };
                let value = body::yaml(bytes)
                    .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
                Apply::new(kind, manager, value).map(Self::Apply)
            }
            _ => Err(ApiError::unsupported_patch()),
        }
    }

    /// The patched object, with the fields that its kind has. Null if the object does not exist and the patch cannot
    /// create it.
    pub(crate) fn apply(self, kind: &Kind, current: Option<&Value>, query: &Query) -> Result<Value, ApiError> {
        let patched = match (self, current) {
            (Self::Apply(apply), current) => apply.run(kind, current),
            (_, None) => return Ok(Value::Null),
            (Self::Json(patch), Some(current)) => {
                let mut object = current.clone();
                apply_json_patch(&mut object, &patch)?;
                object
            }
            (Self::Merge(patch), Some(current)) => {
                let mut object = current.clone();
                json_patch::merge(&mut object, &patch);
                object
            }
            (Self::Strategic(patch), Some(current)) => strategic::merge(current, &patch),
        };
        if !patched.is_object() {
            return Err(ApiError::unprocessable_patch());
        }
        if let Some(current) = current {
            check_type(kind, &patched, current)?;
        }
        let shaped = body::shape(kind, patched).map_err(|error| match current {
            Some(_) => invalid_result(&error.message),
            None => error,
        })?;
        body::check_strict(kind, &shaped, query)?;
        Ok(shaped.object)
    }
}

/// Applies the operations of a JSON patch in order. Like the Go library that Kubernetes uses, it accepts two things
/// that the standard does not: a test for null holds for an absent field, and negative list indices count from the end.
fn apply_json_patch(object: &mut Value, patch: &json_patch::Patch) -> Result<(), ApiError> {
    for operation in &patch.0 {
        let mut operation = operation.clone();
        let path = match &mut operation {
            PatchOperation::Test(test) => Some(&mut test.path),
            PatchOperation::Remove(remove) => Some(&mut remove.path),
            PatchOperation::Replace(replace) => Some(&mut replace.path),
            _ => None,
        };
        if let Some(path) = path
            && let Some(resolved) = resolve_negative_index(object, path.as_str())
        {
            *path = resolved;
        }
        if let PatchOperation::Test(test) = &operation
            && test.value.is_null()
            && object.pointer(test.path.as_str()).is_none()
            && test.path.parent().and_then(|parent| object.pointer(parent.as_str())).is_some_and(Value::is_object)
        {
            continue;
        }
        json_patch::patch(object, &[operation]).map_err(|_| ApiError::unprocessable_patch())?;
    }
    Ok(())
}

/// Resolves a negative index such as `/list/-1`. `None` if the path has none.
fn resolve_negative_index(object: &Value, path: &str) -> Option<PointerBuf> {
    let (list, back) = path.rsplit_once("/-")?;
    let index = object.pointer(list)?.as_array()?.len().checked_sub(back.parse().ok()?)?;
    PointerBuf::parse(format!("{list}/{index}")).ok()
}

/// The answer to a patch whose result is not a valid object of the kind.
fn invalid_result(problem: &str) -> ApiError {
    ApiError::invalid_named("", "", "", &[Cause::invalid("patch", &Value::Null, problem)])
}

fn check_type(kind: &Kind, patched: &Value, current: &Value) -> Result<(), ApiError> {
    let (given, expected) = (&patched["apiVersion"], &current["apiVersion"]);
    if given != expected {
        let given = given.as_str().unwrap_or_default();
        let expected = expected.as_str().unwrap_or_default();
        let text =
            format!("the API version in the data ({given}) does not match the expected API version ({expected})");
        return Err(if kind.definition().is_some() { ApiError::bad_request(text) } else { invalid_result(&text) });
    }
    if patched["kind"] != current["kind"] {
        let given = patched["kind"].as_str().unwrap_or_default();
        let name = current["metadata"]["name"].as_str().unwrap_or_default();
        let cause = Cause::invalid("kind", &given.into(), &format!("must be {}", kind.kind));
        return Err(ApiError::invalid_named(&kind.group, given, name, &[cause]));
    }
    Ok(())
}
