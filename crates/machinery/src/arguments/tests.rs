#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use aileron_idl::flyteidl2::core::{
    Binary, Literal, LiteralCollection, Primitive, Scalar, Void, literal, primitive, scalar,
};
use proptest::prelude::*;

use super::*;

const CX: ArgumentContext<'static> = ArgumentContext {
    input_path: Cow::Borrowed("s3://b/in/inputs.pb"),
    input_prefix: "s3://b/in",
    output_prefix: "s3://b/out",
    raw_output_prefix: "s3://b/raw",
    checkpoint_prefix: Cow::Borrowed("s3://b/raw/_flytecheckpoints"),
    prev_checkpoint_prefix: "",
    generated_name: "run-a0-0",
    task_template_path: "inline://taskTemplate",
    namespace: "ns",
    inputs: None,
};

fn render_one(template: &str, cx: &ArgumentContext<'_>) -> Result<String, String> {
    render(&[template.to_owned()], cx).map(|mut texts| texts.remove(0)).map_err(|error| error.to_string())
}

fn rendered(template: &str) -> String {
    render_one(template, &CX).unwrap()
}

fn scalar(value: scalar::Value) -> Literal {
    Literal { value: Some(literal::Value::Scalar(Box::new(Scalar { value: Some(value) }))), ..Literal::default() }
}

fn primitive(value: primitive::Value) -> Literal {
    scalar(scalar::Value::Primitive(Primitive { value: Some(value) }))
}

fn msgpack(bytes: &[u8]) -> Literal {
    scalar(scalar::Value::Binary(Binary { value: bytes.to_vec(), tag: "msgpack".to_owned() }))
}

fn with_input(literal: Literal) -> Result<String, String> {
    let inputs = LiteralMap { literals: BTreeMap::from([("x".to_owned(), literal)]) };
    render_one("v={{.inputs.x}}", &ArgumentContext { inputs: Some(&inputs), ..CX })
}

#[test]
fn known_placeholders_are_filled() {
    for (template, want) in [
        ("{{.input}}", &*CX.input_path),
        ("{{ .InputPrefix }}", CX.input_prefix),
        ("{{\t$OUTPUTPREFIX\n}}", CX.output_prefix),
        ("{{.rawOutputDataPrefix}}", CX.raw_output_prefix),
        ("{{.checkpointOutputPrefix}}", &CX.checkpoint_prefix),
        ("{{.prevCheckpointPrefix}}", "\"\""),
        ("{{.perRetryUniqueKey}}", "run_a0_0"),
        ("{{.taskTemplatePath}}", CX.task_template_path),
        ("{{.namespace}}", "ns"),
        ("x{{.namespace}}y{{.namespace}}", "xnsyns"),
        ("{{{.namespace}}}", "{ns}"),
    ] {
        assert_eq!(rendered(template), want);
    }
    assert_eq!(render(&[], &CX).unwrap(), Vec::<String>::new());
}

#[test]
fn everything_else_stays() {
    for text in ["", "{{.runName}}", "{{input}}", "{ {.input} }", "{{.input}", "{{.}}", "{{. input}}", "{{.input }x}}"]
    {
        assert_eq!(rendered(text), text);
    }
}

#[test]
fn values_are_inserted_as_they_are() {
    let cx = ArgumentContext { output_prefix: "s3://b/$1/${x}\\1", ..CX };
    assert_eq!(render_one("{{.outputPrefix}}", &cx).unwrap(), "s3://b/$1/${x}\\1");
}

#[test]
fn values_may_hold_placeholders_of_later_lines_only() {
    let nested = ArgumentContext { raw_output_prefix: "{{.input}}/{{.namespace}}", ..CX };
    assert_eq!(render_one("{{.rawOutputDataPrefix}}", &nested).unwrap(), "{{.input}}/ns");
}

#[test]
fn unique_keys_are_identifiers() {
    for (name, want) in
        [("run-a0-0", "run_a0_0"), ("1x", "ax"), ("-.9", "a"), ("a--b.c", "a_b_c"), ("", ""), ("_a", "_a")]
    {
        assert_eq!(unique_key(name), want);
    }
}

#[test]
fn inputs_are_printed() {
    use primitive::Value;
    for (literal, want) in [
        (primitive(Value::Integer(-5)), "-5"),
        (primitive(Value::Boolean(true)), "true"),
        (primitive(Value::FloatValue(3.0)), "3"),
        (primitive(Value::FloatValue(1e23)), "1e+23"),
        (primitive(Value::FloatValue(123_456_789.0)), "1.23456789e+08"),
        (primitive(Value::FloatValue(-0.000_25)), "-0.00025"),
        (primitive(Value::FloatValue(0.000_01)), "1e-05"),
        (primitive(Value::FloatValue(f64::NEG_INFINITY)), "-Inf"),
        (primitive(Value::StringValue("$1 {{.input}}".to_owned())), "$1 {{.input}}"),
        (
            primitive(Value::Datetime(prost_types::Timestamp { seconds: 1_704_164_645, nanos: 678_000_000 })),
            "2024-01-02T03:04:05.678Z",
        ),
        (primitive(Value::Duration(prost_types::Duration { seconds: 90, nanos: 5 })), "seconds:90 nanos:5"),
        (msgpack(b"\x2a"), "42"),
        (msgpack(b"\xff"), "-1"),
        (msgpack(b"\xca\x3d\xcc\xcc\xcd"), "0.1"),
        (msgpack(b"\x93\x01\xa1a\xc0"), "[1 a <nil>]"),
        (msgpack(b"\x82\xa1b\x01\xa1a\xc4\x02\x07\x08"), "map[a:[7 8] b:1]"),
        (msgpack(b"\xdc\x00\x01\xd9\x01z"), "[z]"),
    ] {
        assert_eq!(with_input(literal).unwrap(), format!("v={want}"));
    }
    let list = LiteralCollection { literals: vec![primitive(Value::Integer(1)), msgpack(b"\xc3")] };
    let list = Literal { value: Some(literal::Value::Collection(list)), ..Literal::default() };
    assert_eq!(with_input(list).unwrap(), "v=[1,true]");
}

#[test]
fn unprintable_inputs_are_errors() {
    let message = |problem: &str| format!("0: input template [{{{{.inputs.x}}}}]: {problem}\r\n");
    let bind = |problem: &str| Err(message(&format!("failed to bind a value to inputName [x]: {problem}")));
    assert_eq!(
        with_input(scalar(scalar::Value::NoneType(Void::default()))),
        bind("received an unexpected scalar type [*core.Scalar_NoneType]")
    );
    let json = Binary { value: b"1".to_vec(), tag: "json".to_owned() };
    assert_eq!(with_input(scalar(scalar::Value::Binary(json))), bind("unsupported binary tag [json]"));
}

/// The words are those of upstream, whose library is `shamaton/msgpack`.
#[test]
fn bad_messagepack_is_an_error_that_shows_the_bytes_and_the_problem() {
    let problem = |bytes: &[u8]| {
        let error = with_input(msgpack(bytes)).unwrap_err();
        let text = error.split_once("[x]: failed to unmarshal messagepack bytes with literal:").unwrap().1;
        text.trim_end().to_owned()
    };
    for (bytes, want) in [
        (b"\xc1".as_slice(), r#"[binary:{value:"\xc1" tag:"msgpack"}], err:[invalid code c1 decoding as interface]"#),
        (b"\x91\xc1", r#"[binary:{value:"\x91\xc1" tag:"msgpack"}], err:[invalid code c1 decoding as interface]"#),
        (
            b"\xd4\x05\x00",
            r#"[binary:{value:"\xd4\x05\x00" tag:"msgpack"}], err:[invalid code d4 decoding as interface]"#,
        ),
        (b"", r#"[binary:{tag:"msgpack"}], err:[no data]"#),
        (b"\x01\x02", r#"[binary:{value:"\x01\x02" tag:"msgpack"}], err:[data has left over size=2, last=1]"#),
        (b"\xa3\"\n", r#"[binary:{value:"\xa3\"\n" tag:"msgpack"}], err:[too short bytes]"#),
        (b"\xcd\x01", r#"[binary:{value:"\xcd\x01" tag:"msgpack"}], err:[too short bytes]"#),
        (b"\xdd\xff\xff\xff\xff", r#"[binary:{value:"\xdd\xff\xff\xff\xff" tag:"msgpack"}], err:[too short bytes]"#),
        (
            "\u{85}é\x7f".as_bytes(),
            r#"[binary:{value:"\u0085é\x7f" tag:"msgpack"}], err:[data has left over size=5, last=1]"#,
        ),
    ] {
        assert_eq!(problem(bytes), want);
    }
    assert!(problem(&[0x91; 100]).ends_with("err:[values are nested too deeply]"));
    let long = problem(&[0xc1; 100_000]);
    assert!(long.len() < 5_000 && long.contains("\"... tag:"), "a long value is cut");
}

#[test]
fn each_missing_input_is_named() {
    let inputs = LiteralMap { literals: BTreeMap::from([("x".to_owned(), msgpack(b"\x01"))]) };
    let cx = ArgumentContext { inputs: Some(&inputs), ..CX };
    assert_eq!(
        render_one("{{.inputs.y}}{{ .Inputs.x }}{{.inputs.X}}", &cx).unwrap_err(),
        "0: input template [{{.inputs.y}}]: requested input is not found [y]\r\n\
         1: input template [{{.inputs.X}}]: requested input is not found [X]\r\n"
    );
}

#[test]
fn inputs_are_asked_for_only_when_referred_to() {
    let templates = |text: &str| vec!["cmd".to_owned(), text.to_owned()];
    assert!(needs_inputs(&templates("--x={{ $Inputs.x }}")));
    assert!(!needs_inputs(&templates("{{.input}} {{.inputs}} {{.inputs.}} {inputs.x}")));
    assert!(matches!(render(&templates("{{.inputs.x}}"), &CX), Err(ArgumentError::InputsNeeded { .. })));
    let empty = LiteralMap::default();
    let cx = ArgumentContext { inputs: Some(&empty), ..CX };
    assert_eq!(render_one("{{.inputs.x}}", &cx).unwrap(), "{{.inputs.x}}");
}

proptest! {
    #[test]
    fn arbitrary_text_renders(text in "(\\{\\{|\\}\\}|[.$ a]|inputs\\.|input|ü){0,12}") {
        let empty = LiteralMap::default();
        let cx = ArgumentContext { inputs: Some(&empty), ..CX };
        let once = render_one(&text, &cx).unwrap();
        prop_assert_eq!(render_one(&once, &cx).unwrap(), once);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = msgpack::print(&bytes);
    }
}

#[test]
fn a_text_full_of_beginnings_takes_no_longer_than_another_text_of_its_length() {
    for piece in ["{{.inputs.", "{{ .a", "{{.a }", "{{$a}", "{{"] {
        let text = piece.repeat(200_000);
        let text = [text.as_str(), &" ".repeat(200_000)].concat();
        // Quadratic time would mean minutes here.
        assert_eq!(placeholders(&text).count(), 0, "{piece}");
        let ended = format!("{text}}}}}");
        assert!(placeholders(&ended).count() <= 200_000, "{piece}");
    }
}
