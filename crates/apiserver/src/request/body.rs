//! From the body of a request to an object of its kind.

mod protobuf;

use serde_json::{Map, Value};

use super::Query;
use crate::errors::{ApiError, Cause};
use crate::kinds::{Kind, Schema, canonical_quantities, definition};
use crate::object::set;
use crate::strategy::{custom, defaults, events, metadata};

/// Largest body of a request, as in kube-apiserver.
pub(crate) const MAX_BYTES: usize = 3 * 1024 * 1024;
/// How many characters of a body an error message shows, as in kube-apiserver.
const SHOWN_CHARS: usize = 30;
/// Deepest nesting of an object. Real objects are far less deep. The bound keeps recursive functions from overflowing
/// the stack.
const MAX_DEPTH: usize = 100;

const MEDIA_TYPES: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// A decoded object.
pub(crate) struct Shaped {
    pub object: Value,
    /// Paths of dropped fields: the kind does not have them.
    pub unknown: Vec<String>,
}

/// Parses a body of this media type.
pub(crate) fn parse(kind: &str, media_type: &str, body: &[u8]) -> Result<Value, ApiError> {
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    let refused = |problem: String| {
        let shown = summary(body);
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {problem} ({shown})"
        ))
    };
    match media_type {
        "" | "application/json" => serde_json::from_slice(body)
            .map_err(|error| refused(format!("couldn't get version/kind; json parse error: {}", go_text(&error)))),
        "application/yaml" => yaml(body).map_err(|error| refused(format!("yaml: {error}"))),
        // The answer tells clients to send objects that cannot be decoded from protobuf in another format.
        "application/vnd.kubernetes.protobuf" => {
            protobuf::parse(body).ok_or_else(|| ApiError::unsupported_media(&MEDIA_TYPES[..2]))
        }
        _ => Err(ApiError::unsupported_media(&MEDIA_TYPES)),
    }
}

/// Parses YAML or JSON.
pub(crate) fn yaml(body: &[u8]) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

/// The error text of Go for the most common JSON errors. Other errors keep the text of serde.
pub(crate) fn go_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let Some((found, expected)) = text.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected "))
    else {
        return text;
    };
    let found = match found.split([' ', '`']).next().unwrap_or_default() {
        "integer" | "floating" => "number",
        "boolean" => "bool",
        "map" => "object",
        "sequence" => "array",
        other => other,
    };
    format!("json: cannot unmarshal {found} into Go value of type {}", expected.trim_start_matches("a "))
}

fn summary(body: &[u8]) -> String {
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let text = String::from_utf8_lossy(body);
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.into_owned(),
    }
}

/// Decodes an object of `kind`.
pub(crate) fn decode(kind: &Kind, media_type: &str, body: &[u8], query: &Query) -> Result<Value, ApiError> {
    let value = parse(&kind.kind, media_type, body)?;
    check_type(kind, &value, body)?;
    let shaped = shape(kind, value)?;
    check_strict(kind, &shaped, query)?;
    Ok(shaped.object)
}

/// Refuses unknown fields if the request has `fieldValidation=Strict`.
pub(crate) fn check_strict(kind: &Kind, shaped: &Shaped, query: &Query) -> Result<(), ApiError> {
    if query.get("fieldValidation") != Some("Strict") || shaped.unknown.is_empty() {
        return Ok(());
    }
    let list = shaped.unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect::<Vec<_>>().join(", ");
    Err(cannot_be_handled(kind, &kind.kind, &format!("strict decoding error: {list}")))
}

fn cannot_be_handled(kind: &Kind, given: &str, problem: &str) -> ApiError {
    let (version, wanted) = (&kind.version, &kind.kind);
    ApiError::bad_request(format!("{given} in version \"{version}\" cannot be handled as a {wanted}: {problem}"))
}

fn check_type(kind: &Kind, value: &Value, body: &[u8]) -> Result<(), ApiError> {
    if !value.is_object() {
        let text = format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            json_type(value)
        );
        let shown = summary(body);
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {text} ({shown})",
            kind.kind
        )));
    }
    let given = value["kind"].as_str().unwrap_or_default();
    let version = value["apiVersion"].as_str().unwrap_or_default();
    let expected = kind.api_version();
    match &kind.schema {
        Schema::Custom(_) => {
            let missing = if given.is_empty() {
                "Kind"
            } else if version.is_empty() {
                "apiVersion"
            } else {
                ""
            };
            if !missing.is_empty() {
                let whole = String::from_utf8_lossy(body);
                return Err(ApiError::bad_request(format!(
                    "the object provided is unrecognized (must be of type {}): Object '{missing}' is missing in '{whole}' ({})",
                    kind.kind,
                    summary(body)
                )));
            }
            if version != expected {
                return Err(version_mismatch(version, &expected));
            }
            if given != kind.kind {
                let name = value["metadata"]["name"].as_str().unwrap_or_default();
                let cause = Cause::invalid("kind", &given.into(), &format!("must be {}", kind.kind));
                return Err(ApiError::invalid_named(&kind.group, given, name, &[cause]));
            }
        }
        Schema::BuiltIn(_) => {
            if !given.is_empty() && given != kind.kind {
                let text = format!("converting (v1.{given}) to (core.{}): unknown conversion", kind.kind);
                return Err(cannot_be_handled(kind, given, &text));
            }
            if !version.is_empty() && version != expected {
                return Err(version_mismatch(version, &expected));
            }
        }
    }
    Ok(())
}

fn version_mismatch(given: &str, expected: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    ))
}

/// Checks the types of all fields, drops unknown fields and fills in defaults.
pub(crate) fn shape(kind: &Kind, value: Value) -> Result<Shaped, ApiError> {
    if depth(&value) > MAX_DEPTH {
        return Err(ApiError::bad_request(format!("the object is nested more than {MAX_DEPTH} levels deep")));
    }
    if value.get("metadata").is_some_and(|metadata| !metadata.is_object() && !metadata.is_null()) {
        let text = format!(
            "json: cannot unmarshal {} into Go struct field {}.metadata of type v1.ObjectMeta",
            json_type(&value["metadata"]),
            kind.kind
        );
        return Err(cannot_be_handled(kind, &kind.kind, &text));
    }
    match &kind.schema {
        Schema::BuiltIn(decode) => {
            let mut given = events::to_core(kind, value);
            // A CustomResourceDefinition has no quantities. Its schema describes fields like `limits`, and the
            // description of such a field must not be read as a quantity.
            if !kind.is(definition::RESOURCE) {
                canonical_quantities(&mut given).map_err(|problem| cannot_be_handled(kind, &kind.kind, &problem))?;
            }
            let decoded =
                decode(given.clone()).map_err(|error| cannot_be_handled(kind, &kind.kind, &go_text(&error)))?;
            let mut unknown = Vec::new();
            find_dropped(&given, &decoded, "", &mut unknown);
            let mut object = kind.with_type(decoded);
            metadata::drop_empty_fields(&mut object);
            defaults::fill_in(kind, &mut object);
            Ok(Shaped { object, unknown })
        }
        Schema::Custom(definition) => {
            let mut object = value;
            let mut unknown = Vec::new();
            metadata_shape(kind, &mut object, &mut unknown)?;
            custom::shape(definition, &kind.version, &mut object, &mut unknown);
            metadata::drop_empty_fields(&mut object);
            Ok(Shaped { object: kind.with_type(object), unknown })
        }
    }
}

fn metadata_shape(kind: &Kind, object: &mut Value, unknown: &mut Vec<String>) -> Result<(), ApiError> {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    let given = object.get("metadata").cloned().filter(Value::is_object).unwrap_or_else(|| Value::Object(Map::new()));
    let typed: Result<ObjectMeta, _> = serde_json::from_value(given.clone());
    let typed = typed.and_then(serde_json::to_value);
    let shaped = typed.map_err(|error| cannot_be_handled(kind, &kind.kind, &error.to_string()))?;
    find_dropped(&given, &shaped, "metadata", unknown);
    set(object, "metadata", shaped);
    Ok(())
}

/// Adds the paths of the fields of `given` that `kept` does not have to `unknown`.
fn find_dropped(given: &Value, kept: &Value, path: &str, unknown: &mut Vec<String>) {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => {
            for (name, value) in given {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match kept.get(name) {
                    Some(kept) => find_dropped(value, kept, &path, unknown),
                    None if value.is_null() || value.as_array().is_some_and(Vec::is_empty) => {}
                    None if path == "kind" || path == "apiVersion" => {}
                    None => unknown.push(path),
                }
            }
        }
        (Value::Array(given), Value::Array(kept)) => {
            for (index, (given, kept)) in given.iter().zip(kept).enumerate() {
                find_dropped(given, kept, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
