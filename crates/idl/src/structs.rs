//! `google.protobuf.Struct` and JSON.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as ProtoValue};
use serde_json::{Map, Value};

use crate::error::JsonError;
use crate::number;
use crate::path::Path;

/// How a struct is called in the path of an error.
const ROOT: Path<'static> = Path::Root("Struct");

/// Writes a struct as a JSON object; whole doubles become integers, as Go writes them.
///
/// # Errors
/// [`JsonError::NotFinite`] names the field that holds an infinity or a NaN: JSON has no way to write them.
pub fn struct_to_json(fields: &Struct) -> Result<Value, JsonError> {
    struct_to_json_at(fields, &ROOT)
}

/// Reads a JSON object as a struct. Integers above 2^53 lose their last digits, as in every protobuf library.
///
/// # Errors
/// [`JsonError::Mismatch`] when the value is not an object.
pub fn json_to_struct(value: &Value) -> Result<Struct, JsonError> {
    json_to_struct_at(value, &ROOT)
}

pub(crate) fn struct_to_json_at(fields: &Struct, path: &Path<'_>) -> Result<Value, JsonError> {
    let members = fields.fields.iter().map(|(key, value)| Ok((key.clone(), value_to_json(value, &path.key(key))?)));
    Ok(Value::Object(members.collect::<Result<Map<_, _>, JsonError>>()?))
}

pub(crate) fn json_to_struct_at(value: &Value, path: &Path<'_>) -> Result<Struct, JsonError> {
    match value {
        Value::Object(members) => Ok(object_to_struct(members)),
        other => Err(JsonError::mismatch(path, "an object", other)),
    }
}

fn value_to_json(value: &ProtoValue, path: &Path<'_>) -> Result<Value, JsonError> {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Ok(Value::Null),
        Some(Kind::BoolValue(flag)) => Ok(Value::Bool(*flag)),
        Some(Kind::StringValue(text)) => Ok(Value::String(text.clone())),
        Some(Kind::NumberValue(number)) => number::from_double(*number)
            .map(Value::Number)
            .ok_or_else(|| JsonError::NotFinite { path: path.to_string(), value: *number }),
        Some(Kind::StructValue(fields)) => struct_to_json_at(fields, path),
        Some(Kind::ListValue(list)) => {
            let items = list.values.iter().enumerate().map(|(index, item)| value_to_json(item, &path.index(index)));
            Ok(Value::Array(items.collect::<Result<_, _>>()?))
        }
    }
}

fn object_to_struct(members: &Map<String, Value>) -> Struct {
    Struct { fields: members.iter().map(|(key, value)| (key.clone(), json_to_value(value))).collect() }
}

fn json_to_value(value: &Value) -> ProtoValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(*flag),
        // serde_json's numbers are i64, u64 or f64, all of which have a nearest double.
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(items) => Kind::ListValue(ListValue { values: items.iter().map(json_to_value).collect() }),
        Value::Object(members) => Kind::StructValue(object_to_struct(members)),
    };
    ProtoValue { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            (-1e9..1e9_f64).prop_filter("a fraction", |it| it.fract() != 0.0).prop_map(Value::from),
            "[a-zA-Z0-9_.é -]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z_]{1,6}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn any_object() -> impl Strategy<Value = Value> {
        prop::collection::btree_map("[a-zA-Z_.]{1,6}", any_json(), 0..5)
            .prop_map(|members| Value::Object(members.into_iter().collect()))
    }

    fn number(value: f64) -> ProtoValue {
        ProtoValue { kind: Some(Kind::NumberValue(value)) }
    }

    #[test]
    fn whole_numbers_are_integers() {
        let fields = Struct { fields: [("replicas".to_owned(), number(3.0)), ("cpu".to_owned(), number(0.5))].into() };
        assert_eq!(struct_to_json(&fields).unwrap().to_string(), r#"{"cpu":0.5,"replicas":3}"#);
    }

    #[test]
    fn a_value_without_a_kind_is_null() {
        let fields = Struct { fields: [("a".to_owned(), ProtoValue { kind: None })].into() };
        assert_eq!(struct_to_json(&fields).unwrap(), json!({"a": null}));
    }

    #[test]
    fn numbers_that_json_lacks_are_named() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let list = ProtoValue { kind: Some(Kind::ListValue(ListValue { values: vec![number(1.0), number(bad)] })) };
            let error = struct_to_json(&Struct { fields: [("a".to_owned(), list)].into() }).unwrap_err();
            assert!(error.to_string().starts_with("Struct.a[1]: "), "{error}");
        }
    }

    #[test]
    fn only_objects_are_structs() {
        let error = json_to_struct(&json!([1])).unwrap_err();
        assert_eq!(error.to_string(), "Struct: expected an object, found [1]");
    }

    proptest! {
        #[test]
        fn json_survives_the_trip_through_a_struct(value in any_object()) {
            let fields = json_to_struct(&value).unwrap();
            prop_assert_eq!(struct_to_json(&fields).unwrap(), value);
        }
    }
}
