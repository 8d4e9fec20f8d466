#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn round(kind: &str, text: &str) -> Value {
    to_json(&from_text(&parse_type(kind).unwrap(), text).unwrap())
}

fn refusal(kind: &str, text: &str) -> String {
    from_text(&parse_type(kind).unwrap(), text).unwrap_err().to_string()
}

#[test]
fn texts_become_values_of_their_type() {
    assert_eq!(round("string", "41"), "41");
    assert_eq!(round("string", " a b "), " a b ");
    assert_eq!(round("int", "41"), 41);
    assert_eq!(round("float", "2"), 2.0);
    assert_eq!(round("bool", "true"), true);
    assert_eq!(round("datetime", "2026-03-01T12:00:00+02:00"), "2026-03-01T10:00:00Z");
    assert_eq!(round("datetime", "2026-03-01"), "2026-03-01T00:00:00Z");
    assert_eq!(round("duration", "90m"), "1h30m0s");
    assert_eq!(round("json", r#"{"a": [1, null]}"#), json!({"a": [1, null]}));
    assert_eq!(round("list<int>", "[1, 2]"), json!([1, 2]));
    assert_eq!(round("map<list<string>>", r#"{"k": ["v"]}"#), json!({"k": ["v"]}));
    assert_eq!(round("file", "s3://b/k"), "s3://b/k");
}

#[test]
fn a_wrong_value_is_told_with_its_place_and_an_example() {
    assert_eq!(refusal("int", "x"), "must be int, such as 41; found x");
    assert_eq!(refusal("int", "1.5"), "must be int, such as 41; found 1.5");
    assert_eq!(refusal("bool", "yes"), "must be bool, such as true; found yes");
    assert_eq!(refusal("list<int>", "[1, \"a\"]"), "[1]: must be int, such as 41; found \"a\"");
    assert_eq!(refusal("map<list<int>>", r#"{"k": [true]}"#), ".k[0]: must be int, such as 41; found true");
    assert_eq!(refusal("list<int>", "1,2"), "must be list<int>, such as [41]; found 1,2");
    assert_eq!(refusal("duration", "soon"), "must be duration, such as 1h30m; found soon");
}

#[test]
fn structured_values_of_the_sdk_are_shown_as_what_they_are() {
    use aileron_idl::flyteidl2::core::Binary;
    let binary = |tag: &str, value: &[u8]| {
        let binary = Binary { value: value.to_vec(), tag: tag.to_owned() };
        let scalar = Scalar { value: Some(scalar::Value::Binary(binary)) };
        to_json(&Literal { value: Some(literal::Value::Scalar(Box::new(scalar))), ..Literal::default() })
    };
    // {"a": [1, -1, 1.5, nil, true], "b": "x"}
    let bytes = b"\x82\xa1a\x95\x01\xff\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00\xc0\xc3\xa1b\xa1x";
    assert_eq!(binary("msgpack", bytes), json!({"a": [1, -1, 1.5, null, true], "b": "x"}));
    assert_eq!(binary("msgpack", b"\x82"), json!({"tag": "msgpack", "bytes": 1}), "cut off");
    assert_eq!(binary("other", b"xyz"), json!({"tag": "other", "bytes": 3}));
}

#[test]
fn unknown_types_get_a_suggestion() {
    let refused = |name: &str| parse_type(name).unwrap_err().to_string();
    assert_eq!(refused("sting"), "\"sting\" is not a type; did you mean `string`?");
    assert_eq!(refused("str"), "\"str\" is not a type; did you mean `string`?");
    assert_eq!(refused("list"), "\"list\" is not a type; did you mean `list<string>`?");
    assert_eq!(refused("list<integer>"), "\"integer\" is not a type; did you mean `int`?");
    assert!(refused("frobnicate").contains("use string, int, float"));
    assert!(refused(&"list<".repeat(20)).contains("not a type"));
    let deep = format!("{}int{}", "list<".repeat(20), ">".repeat(20));
    assert!(refused(&deep).contains("too deeply"));
}

#[test]
fn types_have_one_name() {
    for name in ["string", "int", "json", "file", "directory", "list<map<float>>", "duration"] {
        assert_eq!(type_name(&parse_type(name).unwrap()), name);
    }
    assert_eq!(type_name(&parse_type("list[int]").unwrap()), "list<int>");
}

proptest! {
    #[test]
    fn never_panics(kind in "[a-z<>\\[\\] ]{0,24}", text in ".*") {
        if let Ok(kind) = parse_type(&kind) {
            let _ = from_text(&kind, &text);
        }
    }
}
