//! Bodies in the protobuf encoding of Kubernetes, for the few kinds that `kubectl` sends in it.
//!
//! `kubectl create` and `kubectl auth can-i` send namespaces, config maps, secrets, service accounts, quotas, priority
//! classes and access reviews as protobuf. All other objects arrive as JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::object::timestamp;

/// The first bytes of every body in this encoding.
const MAGIC: &[u8] = b"k8s\0";

/// The type of a field.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Number,
    Flag,
    Time,
    /// A nested message. Go always writes it; an empty one means that the field is absent.
    Message(&'static [Field]),
    Texts,
    Messages(&'static [Field]),
    TextMap,
    BytesMap,
    QuantityMap,
}

/// Number, JSON name, type, and whether a zero value is kept. Zero values of pointer fields in Go are kept; a zero
/// value of another field means that the field is absent.
type Field = (u64, &'static str, Shape, bool);

const OWNER: &[Field] = &[
    (5, "apiVersion", Shape::Text, false),
    (1, "kind", Shape::Text, false),
    (3, "name", Shape::Text, false),
    (4, "uid", Shape::Text, false),
    (6, "controller", Shape::Flag, true),
    (7, "blockOwnerDeletion", Shape::Flag, true),
];
const METADATA: &[Field] = &[
    (1, "name", Shape::Text, false),
    (2, "generateName", Shape::Text, false),
    (3, "namespace", Shape::Text, false),
    (4, "selfLink", Shape::Text, false),
    (5, "uid", Shape::Text, false),
    (6, "resourceVersion", Shape::Text, false),
    (7, "generation", Shape::Number, false),
    (8, "creationTimestamp", Shape::Time, false),
    (9, "deletionTimestamp", Shape::Time, false),
    (10, "deletionGracePeriodSeconds", Shape::Number, true),
    (11, "labels", Shape::TextMap, false),
    (12, "annotations", Shape::TextMap, false),
    (13, "ownerReferences", Shape::Messages(OWNER), false),
    (14, "finalizers", Shape::Texts, false),
];
const NAMESPACE: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA), false),
    (2, "spec", Shape::Message(&[(1, "finalizers", Shape::Texts, false)]), false),
    (3, "status", Shape::Message(&[(1, "phase", Shape::Text, false)]), false),
];
const CONFIG_MAP: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA), false),
    (2, "data", Shape::TextMap, false),
    (3, "binaryData", Shape::BytesMap, false),
    (4, "immutable", Shape::Flag, true),
];
const SECRET: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA), false),
    (2, "data", Shape::BytesMap, false),
    (3, "type", Shape::Text, false),
    (4, "stringData", Shape::TextMap, false),
    (5, "immutable", Shape::Flag, true),
];
const REFERENCE: &[Field] = &[
    (1, "kind", Shape::Text, false),
    (2, "namespace", Shape::Text, false),
    (3, "name", Shape::Text, false),
    (4, "uid", Shape::Text, false),
    (5, "apiVersion", Shape::Text, false),
    (6, "resourceVersion", Shape::Text, false),
    (7, "fieldPath", Shape::Text, false),
];
const SERVICE_ACCOUNT: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA), false),
    (2, "secrets", Shape::Messages(REFERENCE), false),
    (3, "imagePullSecrets", Shape::Messages(&[(1, "name", Shape::Text, false)]), false),
    (4, "automountServiceAccountToken", Shape::Flag, true),
];
const SCOPE: &[Field] =
    &[(1, "scopeName", Shape::Text, false), (2, "operator", Shape::Text, false), (3, "values", Shape::Texts, false)];
const QUOTA_SPEC: &[Field] = &[
    (1, "hard", Shape::QuantityMap, false),
    (2, "scopes", Shape::Texts, false),
    (3, "scopeSelector", Shape::Message(&[(1, "matchExpressions", Shape::Messages(SCOPE), false)]), true),
];
const QUOTA_STATUS: &[Field] = &[(1, "hard", Shape::QuantityMap, false), (2, "used", Shape::QuantityMap, false)];
const QUOTA: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA), false),
    (2, "spec", Shape::Message(QUOTA_SPEC), false),
    (3, "status", Shape::Message(QUOTA_STATUS), false),
];
const PRIORITY: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA), false),
    (2, "value", Shape::Number, true),
    (3, "globalDefault", Shape::Flag, false),
    (4, "description", Shape::Text, false),
    (5, "preemptionPolicy", Shape::Text, false),
];
const ATTRIBUTES: &[Field] = &[
    (1, "namespace", Shape::Text, false),
    (2, "verb", Shape::Text, false),
    (3, "group", Shape::Text, false),
    (4, "version", Shape::Text, false),
    (5, "resource", Shape::Text, false),
    (6, "subresource", Shape::Text, false),
    (7, "name", Shape::Text, false),
];
const PATH_ATTRIBUTES: &[Field] = &[(1, "path", Shape::Text, false), (2, "verb", Shape::Text, false)];
const ACCESS_SPEC: &[Field] = &[
    (1, "resourceAttributes", Shape::Message(ATTRIBUTES), true),
    (2, "nonResourceAttributes", Shape::Message(PATH_ATTRIBUTES), true),
];
const ACCESS_STATUS: &[Field] = &[
    (1, "allowed", Shape::Flag, false),
    (2, "reason", Shape::Text, false),
    (3, "evaluationError", Shape::Text, false),
    (4, "denied", Shape::Flag, false),
];
const ACCESS: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA), false),
    (2, "spec", Shape::Message(ACCESS_SPEC), false),
    (3, "status", Shape::Message(ACCESS_STATUS), false),
];

/// An encoded value.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The object in a body. `None` if the body is not in this encoding, is malformed, or has a kind or a field that is not
/// listed here.
pub(crate) fn parse(body: &[u8]) -> Option<Value> {
    let (mut api_version, mut kind, mut raw) = ("", "", &[][..]);
    for (number, wire) in fields(body.strip_prefix(MAGIC)?)? {
        match (number, wire) {
            (1, Wire::Bytes(meta)) => {
                for (number, wire) in fields(meta)? {
                    let Wire::Bytes(text) = wire else { return None };
                    *(if number == 1 { &mut api_version } else { &mut kind }) = std::str::from_utf8(text).ok()?;
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            // Content encoding and content type. Only their empty defaults are supported.
            (3 | 4, Wire::Bytes([])) => {}
            _ => return None,
        }
    }
    let known = match (api_version, kind) {
        ("v1", "Namespace") => NAMESPACE,
        ("v1", "ConfigMap") => CONFIG_MAP,
        ("v1", "Secret") => SECRET,
        ("v1", "ServiceAccount") => SERVICE_ACCOUNT,
        ("v1", "ResourceQuota") => QUOTA,
        ("scheduling.k8s.io/v1", "PriorityClass") => PRIORITY,
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview") => ACCESS,
        _ => return None,
    };
    let mut object = Map::from_iter([("apiVersion".into(), api_version.into()), ("kind".into(), kind.into())]);
    object.extend(message(known, raw)?);
    Some(object.into())
}

fn message(known: &[Field], bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut object = Map::new();
    for (number, wire) in fields(bytes)? {
        let (_, name, shape, keeps_zero) = known.iter().find(|field| field.0 == number)?;
        let value = match (shape, wire) {
            (Shape::Text, Wire::Bytes(bytes)) => text(bytes)?.into(),
            // A negative number is encoded as its two's complement.
            (Shape::Number, Wire::Number(number)) => (number as i64).into(),
            (Shape::Flag, Wire::Number(number)) => (number != 0).into(),
            (Shape::Time, Wire::Bytes(bytes)) => time(bytes)?,
            (Shape::Message(known), Wire::Bytes(bytes)) => message(known, bytes)?.into(),
            (Shape::Texts, Wire::Bytes(bytes)) => {
                add(&mut object, name, text(bytes)?.into());
                continue;
            }
            (Shape::Messages(known), Wire::Bytes(bytes)) => {
                add(&mut object, name, message(known, bytes)?.into());
                continue;
            }
            (Shape::TextMap, Wire::Bytes(bytes)) => {
                insert(&mut object, name, bytes, |value| Some(text(value)?.into()))?;
                continue;
            }
            (Shape::BytesMap, Wire::Bytes(bytes)) => {
                insert(&mut object, name, bytes, |value| Some(STANDARD.encode(value).into()))?;
                continue;
            }
            (Shape::QuantityMap, Wire::Bytes(bytes)) => {
                insert(&mut object, name, bytes, quantity)?;
                continue;
            }
            _ => return None,
        };
        let is_zero = match &value {
            Value::String(text) => text.is_empty(),
            Value::Number(number) => number.as_i64() == Some(0),
            Value::Bool(flag) => !flag,
            Value::Object(fields) => fields.is_empty(),
            other => other.is_null(),
        };
        if *keeps_zero || !is_zero {
            object.insert((*name).to_owned(), value);
        }
    }
    Some(object)
}

fn add(object: &mut Map<String, Value>, name: &str, value: Value) {
    let list = object.entry(name).or_insert_with(|| json!([]));
    if let Value::Array(list) = list {
        list.push(value);
    }
}

/// Adds one entry of a map, which is encoded as a message with a key and a value.
fn insert(
    object: &mut Map<String, Value>,
    name: &str,
    pair: &[u8],
    read: impl Fn(&[u8]) -> Option<Value>,
) -> Option<()> {
    let (mut key, mut value) = ("", &[][..]);
    for (number, wire) in fields(pair)? {
        let Wire::Bytes(bytes) = wire else { return None };
        match number {
            1 => key = text(bytes)?,
            2 => value = bytes,
            _ => return None,
        }
    }
    let value = read(value)?;
    object.entry(name).or_insert_with(|| json!({}))[key] = value;
    Some(())
}

fn quantity(bytes: &[u8]) -> Option<Value> {
    match fields(bytes)?.pop() {
        Some((1, Wire::Bytes(bytes))) => Some(text(bytes)?.into()),
        _ => None,
    }
}

/// A time, without fractions of a second. An empty message is the zero time of Go and means that there is no time.
fn time(bytes: &[u8]) -> Option<Value> {
    for (number, wire) in fields(bytes)? {
        if let (1, Wire::Number(seconds)) = (number, wire) {
            return Some(timestamp(Timestamp::from_second(seconds as i64).ok()?));
        }
    }
    Some(Value::Null)
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// The fields of a message in the order of the bytes.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Wire<'_>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let wire = match tag & 7 {
            0 => Wire::Number(varint(&mut bytes)?),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (value, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Wire::Bytes(value)
            }
            _ => return None,
        };
        found.push((tag >> 3, wire));
    }
    Some(found)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn field(number: u8, value: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(value.len()).unwrap()], value].concat()
    }

    fn envelope(kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &meta), field(2, raw), field(3, b""), field(4, b"")].concat()
    }

    #[test]
    fn what_go_writes_for_nothing_is_nothing() {
        let metadata = [field(1, b"team"), field(2, b""), vec![7 << 3, 0], field(8, b"")].concat();
        let raw = [field(1, &metadata), field(2, b""), field(3, &field(1, b""))].concat();
        let expected = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
        assert_eq!(parse(&envelope("Namespace", &raw)), Some(expected));
    }

    #[test]
    fn maps_and_meant_zeros_are_kept() {
        let pair = [field(1, b"k"), field(2, b"v")].concat();
        let raw = [field(2, &pair), vec![5 << 3, 0]].concat();
        let expected = json!({"apiVersion": "v1", "kind": "Secret", "data": {"k": "dg=="}, "immutable": false});
        assert_eq!(parse(&envelope("Secret", &raw)), Some(expected));
        let hard = [field(1, b"pods"), field(2, &field(1, b"3"))].concat();
        let quota = parse(&envelope("ResourceQuota", &field(2, &field(1, &hard)))).unwrap();
        assert_eq!(quota["spec"], json!({"hard": {"pods": "3"}}));
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        assert_eq!(parse(&envelope("Pod", b"")), None);
        assert_eq!(parse(&envelope("Namespace", &field(9, b"x"))), None);
        assert_eq!(parse(b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), None);
        assert_eq!(parse(b"{}"), None);
    }
}
