//! PATCH: four ways to say what changes.

mod apply;
mod strategic;

use json_patch::PatchOperation;
use json_patch::jsonptr::PointerBuf;
use serde_json::Value;

use crate::body;
use crate::kind::Kind;
use crate::request::Query;
use crate::status::{ApiError, Cause};

pub(crate) use apply::Apply;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A patch that was read and can be tried on an object.
#[derive(Debug)]
pub(crate) enum Patch {
    /// RFC 6902.
    Json(json_patch::Patch),
    /// RFC 7396.
    Merge(Value),
    /// Like a merge, with lists merged by the key of their items.
    Strategic(Value),
    /// What one writer wants, whole; it may make the object.
    Apply(Apply),
}

impl Patch {
    pub(crate) fn read(kind: &Kind, media: &str, body: &[u8], query: &Query) -> Result<Self, ApiError> {
        let undecodable = |problem: String| ApiError::bad_request(format!("error decoding patch: {problem}"));
        let object = |body: &[u8]| -> Result<Value, ApiError> {
            let value: Value = serde_json::from_slice(body).map_err(|error| undecodable(body::go_text(&error)))?;
            if value.is_object() {
                return Ok(value);
            }
            let found = body::json_type(&value);
            Err(undecodable(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")))
        };
        match media.split(';').next().unwrap_or_default().trim() {
            JSON => {
                let value: Value = serde_json::from_slice(body).map_err(|error| undecodable(body::go_text(&error)))?;
                if !value.is_array() {
                    let found = body::json_type(&value);
                    return Err(undecodable(format!(
                        "json: cannot unmarshal {found} into Go value of type jsonpatch.Patch"
                    )));
                }
                // An operation that is none is found out when it is to be done.
                let patch = serde_json::from_value(value).map_err(|_| ApiError::unprocessable_patch());
                patch.map(Self::Json)
            }
            MERGE => object(body).map(Self::Merge),
            STRATEGIC if kind.definition().is_some() => Err(ApiError::unsupported_media(&[JSON, MERGE, APPLY])),
            STRATEGIC => object(body).map(Self::Strategic),
            APPLY => {
                let Some(manager) = query.get("fieldManager") else {
                    let cause = Cause::required("fieldManager", "is required for apply patch");
                    return Err(ApiError::invalid_named("meta.k8s.io", "PatchOptions", "", &[cause]));
                };
                let value =
                    body::yaml(body).map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
                Apply::new(kind, manager, value).map(Self::Apply)
            }
            _ => Err(ApiError::unsupported_patch()),
        }
    }

    /// The object after the patch, in the shape of its kind. Null: there is none to be patched.
    pub(crate) fn try_on(self, kind: &Kind, current: Option<&Value>, query: &Query) -> Result<Value, ApiError> {
        let patched = match (self, current) {
            (Self::Apply(apply), current) => apply.on(kind, current)?,
            (_, None) => return Ok(Value::Null),
            (Self::Json(patch), Some(current)) => {
                let mut object = current.clone();
                operate(&mut object, &patch)?;
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
            Some(_) => unfit(&error.message),
            None => error,
        })?;
        body::strict(kind, &shaped, query)?;
        Ok(shaped.object)
    }
}

/// Does one operation after the other, as the library does that Kubernetes uses. In two things it is kinder than the
/// standard: what is not there is null to a test, and places in a list may be counted from its end.
fn operate(object: &mut Value, patch: &json_patch::Patch) -> Result<(), ApiError> {
    for operation in &patch.0 {
        let mut operation = operation.clone();
        let path = match &mut operation {
            PatchOperation::Test(test) => Some(&mut test.path),
            PatchOperation::Remove(remove) => Some(&mut remove.path),
            PatchOperation::Replace(replace) => Some(&mut replace.path),
            _ => None,
        };
        if let Some(path) = path
            && let Some(place) = counted_from_end(object, path.as_str())
        {
            *path = place;
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

/// The path to what `/list/-1` and the like mean.
fn counted_from_end(object: &Value, path: &str) -> Option<PointerBuf> {
    let (list, back) = path.rsplit_once("/-")?;
    let place = object.pointer(list)?.as_array()?.len().checked_sub(back.parse().ok()?)?;
    PointerBuf::parse(format!("{list}/{place}")).ok()
}

/// A patch whose result is no object of the kind.
fn unfit(problem: &str) -> ApiError {
    ApiError::invalid_named("", "", "", &[Cause::invalid("patch", &Value::Null, problem)])
}

fn check_type(kind: &Kind, patched: &Value, current: &Value) -> Result<(), ApiError> {
    let (given, expected) = (&patched["apiVersion"], &current["apiVersion"]);
    if given != expected {
        let given = given.as_str().unwrap_or_default();
        let expected = expected.as_str().unwrap_or_default();
        let text =
            format!("the API version in the data ({given}) does not match the expected API version ({expected})");
        return Err(if kind.definition().is_some() { ApiError::bad_request(text) } else { unfit(&text) });
    }
    if patched["kind"] != current["kind"] {
        let given = patched["kind"].as_str().unwrap_or_default();
        let name = current["metadata"]["name"].as_str().unwrap_or_default();
        let cause = Cause::invalid("kind", &given.into(), &format!("must be {}", kind.kind));
        return Err(ApiError::invalid_named(&kind.group, given, name, &[cause]));
    }
    Ok(())
}
