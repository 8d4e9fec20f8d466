//! Decodes values inside strings: compressed queries and YAML documents.
//!
//! Two programs may encode the same value differently. These strings are therefore compared by their decoded values. A
//! string that cannot be decoded is compared as it is.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde_json::{Map, Value};

use super::canonical::{Style, canonical};
use super::walk;

/// The first characters of gzip data in base64: the magic number and the method `deflate`.
const GZIP_IN_BASE64: &str = "H4sI";

/// The field of a `RayJob` that is a YAML document.
const RUNTIME_ENV: &str = "runtimeEnvYAML";

/// Replaces encoded values of a result by their decoded values.
///
/// Links to Azure Log Analytics contain a query that is compressed with gzip. Go's compressor and ours encode the same
/// query differently.
///
/// The runtime environment of a Ray job is YAML. Two writers may differ in quotes, indentation, the order of keys and the
/// form of numbers.
pub fn decode(result: &mut Value) {
    walk::objects(result, &mut |members| {
        replace(members, "uri", decoded_link);
        replace(members, RUNTIME_ENV, decoded_yaml);
    });
}

fn replace(members: &mut Map<String, Value>, name: &str, decoded: fn(&str) -> Option<String>) {
    if let Some(Value::String(text)) = members.get_mut(name)
        && let Some(value) = decoded(text)
    {
        *text = value;
    }
}

/// A link with its compressed query in plain text.
fn decoded_link(uri: &str) -> Option<String> {
    let (address, query) = uri.split_at(uri.find(GZIP_IN_BASE64)?);
    let (encoded, _) = url::form_urlencoded::parse(query.as_bytes()).next()?;
    let mut plain = String::new();
    GzDecoder::new(STANDARD.decode(encoded.as_bytes()).ok()?.as_slice()).read_to_string(&mut plain).ok()?;
    Some(format!("{address}(gzip of) {plain}"))
}

/// A YAML document as JSON, keys in order.
fn decoded_yaml(text: &str) -> Option<String> {
    let value: Value = serde_saphyr::from_str(text).ok()?;
    Some(format!("(YAML of) {}", in_key_order(&canonical(Style::Opaque, &value))))
}

fn in_key_order(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().map(|(name, value)| (name.clone(), in_key_order(value))).collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(items) => items.iter().map(in_key_order).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn equal(name: &str, one: &str, other: &str) -> bool {
        let (mut one, mut other) = (json!({"a": [{name: one}]}), json!({"a": [{name: other}]}));
        decode(&mut one);
        decode(&mut other);
        one == other
    }

    /// The first link is from Go's `compress/gzip`; the second has the same data without compression.
    #[test]
    fn links_are_equal_when_their_queries_decompress_to_the_same_text() {
        let go = "https://q/H4sIAAAAAAAA%2F8pIzcnJV8AgAQEAAP%2F%2F41E9jRcAAAA%3D";
        let stored = "https://q/H4sIAAAAAAAEAwEXAOj%2FaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG%2FjUT2NFwAAAA%3D%3D";
        assert!(equal("uri", go, stored));
        assert!(!equal("uri", go, &stored.replace("//q/", "//r/")), "the address counts");
        assert!(!equal("uri", go, "https://q/H4sIAAAAAAAA%2F0oEBAAA%2F%2F9DvrfoAQAAAA%3D%3D"), "another query");
        assert!(!equal("other", go, stored), "only links are decoded");
        assert!(!equal("uri", go, "https://q/H4sIbroken"));
    }

    #[test]
    fn runtime_environments_are_equal_when_a_yaml_reader_sees_the_same_values() {
        let go = "env_vars:\n  a: b\n\"n\": 1e+06\npip:\n- numpy\n";
        assert!(equal(RUNTIME_ENV, go, "pip: ['numpy']\nenv_vars: {a: \"b\"}\n'n': 1000000\n"));
        assert!(!equal(RUNTIME_ENV, go, "pip: ['numpy']\nenv_vars: {a: \"\"}\n'n': 1000000\n"));
        assert!(!equal(RUNTIME_ENV, "v: \"1\"\n", "v: 1\n"), "a string is not a number");
        assert!(!equal(RUNTIME_ENV, "pip: [a, b]\n", "pip: [b, a]\n"), "the order of a list counts");
    }
}
