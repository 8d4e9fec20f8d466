//! Compares everything our `.proto` files declare with the descriptors that Flyte publishes.
//!
//! The published side is the Python package, fetched by pip on the first run and kept under `.cache/`.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    ServiceDescriptorProto,
};

/// The published package by version and sum, as pip reads it.
const REQUIREMENTS: &str = include_str!("flyteidl2.txt");

/// Everything a set of files declares, by full name.
#[derive(Default)]
struct Declared {
    messages: BTreeMap<String, DescriptorProto>,
    enums: BTreeMap<String, EnumDescriptorProto>,
    services: BTreeMap<String, ServiceDescriptorProto>,
}

/// A mistake made on purpose.
type Change = fn(&mut Declared);

/// What the wire and the JSON form of a field depend on.
#[derive(Debug, PartialEq)]
struct Shape {
    number: i32,
    kind: Type,
    label: Label,
    type_name: String,
    json_name: String,
    oneof: Option<String>,
    optional: bool,
}

impl Declared {
    fn of<'a>(files: impl IntoIterator<Item = &'a FileDescriptorProto>) -> Self {
        let mut declared = Self::default();
        for file in files {
            let package = file.package();
            file.message_type.iter().for_each(|message| declared.add_message(package, message));
            file.enum_type.iter().for_each(|it| declared.add_enum(package, it));
            for service in &file.service {
                declared.services.insert(format!("{package}.{}", service.name()), service.clone());
            }
        }
        declared
    }

    fn add_message(&mut self, scope: &str, message: &DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        message.nested_type.iter().for_each(|nested| self.add_message(&name, nested));
        message.enum_type.iter().for_each(|nested| self.add_enum(&name, nested));
        self.messages.insert(name, message.clone());
    }

    fn add_enum(&mut self, scope: &str, enumeration: &EnumDescriptorProto) {
        self.enums.insert(format!("{scope}.{}", enumeration.name()), enumeration.clone());
    }
}

impl Shape {
    fn of(message: &DescriptorProto, field: &FieldDescriptorProto) -> Self {
        let oneof =
            field.oneof_index.map(|index| message.oneof_decl[usize::try_from(index).unwrap()].name().to_owned());
        Self {
            number: field.number(),
            kind: field.r#type(),
            label: field.label(),
            type_name: field.type_name().to_owned(),
            json_name: field.json_name().to_owned(),
            oneof,
            optional: field.proto3_optional(),
        }
    }
}

fn published() -> Declared {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let version = version();
    let cached = cache_folder(manifest).join(format!("flyteidl2-{version}.descriptors.bin"));
    if !cached.is_file() {
        let script = manifest.join("tests/flyteidl2_descriptors.py");
        let run = Command::new("python3").arg(&script).arg(manifest.join("tests/flyteidl2.txt")).arg(&cached).output();
        let remedy = "this test needs python3, pip and a package index for its first run";
        let output = run.unwrap_or_else(|error| panic!("cannot start python3 ({error}); {remedy}"));
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cannot fetch flyteidl2 {version}; {remedy}\n{printed}");
    }
    let bytes = std::fs::read(&cached).unwrap_or_else(|error| panic!("{}: {error}", cached.display()));
    let set = FileDescriptorSet::decode(bytes.as_slice())
        .unwrap_or_else(|error| panic!("{} is damaged ({error}); delete it and run again", cached.display()));
    Declared::of(&set.file)
}

fn version() -> &'static str {
    let pinned = REQUIREMENTS.lines().find_map(|line| line.strip_prefix("flyteidl2=="));
    pinned.and_then(|rest| rest.split_whitespace().next()).unwrap()
}

fn cache_folder(manifest: &Path) -> PathBuf {
    manifest.ancestors().nth(2).unwrap_or(manifest).join(".cache")
}

fn ours() -> Declared {
    let files = aileron_idl::descriptors().file_descriptor_protos();
    Declared::of(files.filter(|file| file.package().starts_with("flyteidl2")))
}

/// All differences, one line each, so that one run shows the whole work.
fn differences(ours: &Declared, published: &Declared) -> Vec<String> {
    let mut found = Vec::new();
    for (name, message) in &ours.messages {
        match published.messages.get(name) {
            None => found.push(format!("message {name} is not published")),
            Some(theirs) => compare_fields(name, message, theirs, &mut found),
        }
    }
    for (name, enumeration) in &ours.enums {
        match published.enums.get(name) {
            None => found.push(format!("enum {name} is not published")),
            Some(theirs) => compare_values(name, enumeration, theirs, &mut found),
        }
    }
    for (name, service) in &ours.services {
        match published.services.get(name) {
            None => found.push(format!("service {name} is not published")),
            Some(theirs) => compare_methods(name, service, theirs, &mut found),
        }
    }
    found
}

/// A message we declare is declared whole: a missing field would be lost when a message is passed on.
fn compare_fields(name: &str, ours: &DescriptorProto, theirs: &DescriptorProto, found: &mut Vec<String>) {
    let shapes = |message: &DescriptorProto| -> BTreeMap<String, Shape> {
        message.field.iter().map(|field| (field.name().to_owned(), Shape::of(message, field))).collect()
    };
    let (our_fields, their_fields) = (shapes(ours), shapes(theirs));
    compare_maps("field", name, &our_fields, &their_fields, found);
    for field in their_fields.keys().filter(|field| !our_fields.contains_key(*field)) {
        found.push(format!("field {name}.{field} is published but not ours"));
    }
}

fn compare_values(name: &str, ours: &EnumDescriptorProto, theirs: &EnumDescriptorProto, found: &mut Vec<String>) {
    let numbers = |enumeration: &EnumDescriptorProto| -> BTreeMap<String, i32> {
        enumeration.value.iter().map(|value| (value.name().to_owned(), value.number())).collect()
    };
    let (our_values, their_values) = (numbers(ours), numbers(theirs));
    compare_maps("value", name, &our_values, &their_values, found);
    for value in their_values.keys().filter(|value| !our_values.contains_key(*value)) {
        found.push(format!("value {name}.{value} is published but not ours"));
    }
}

/// We may leave out methods that we never call.
fn compare_methods(
    name: &str,
    ours: &ServiceDescriptorProto,
    theirs: &ServiceDescriptorProto,
    found: &mut Vec<String>,
) {
    let methods = |service: &ServiceDescriptorProto| -> BTreeMap<String, (String, String, bool, bool)> {
        let signature = |method: &prost_types::MethodDescriptorProto| {
            let types = (method.input_type().to_owned(), method.output_type().to_owned());
            (types.0, types.1, method.client_streaming(), method.server_streaming())
        };
        service.method.iter().map(|method| (method.name().to_owned(), signature(method))).collect()
    };
    compare_maps("method", name, &methods(ours), &methods(theirs), found);
}

fn compare_maps<T: PartialEq + std::fmt::Debug>(
    kind: &str,
    scope: &str,
    ours: &BTreeMap<String, T>,
    theirs: &BTreeMap<String, T>,
    found: &mut Vec<String>,
) {
    for (name, our_shape) in ours {
        match theirs.get(name) {
            None => found.push(format!("{kind} {scope}.{name} is not published")),
            Some(their_shape) if their_shape != our_shape => {
                found.push(format!(
                    "{kind} {scope}.{name} differs\n  ours      {our_shape:?}\n  published {their_shape:?}"
                ));
            }
            Some(_) => {}
        }
    }
}

#[test]
fn our_files_agree_with_the_published_package() {
    let (ours, published) = (ours(), published());
    // Guards against comparing nothing with nothing.
    assert!(ours.messages.len() > 150, "only {} messages of ours were found", ours.messages.len());
    assert!(ours.services.len() >= 5 && ours.enums.len() > 30);
    let found = differences(&ours, &published);
    assert!(found.is_empty(), "{} differences with flyteidl2 {}:\n{}", found.len(), version(), found.join("\n"));
}

#[test]
fn every_kind_of_difference_is_noticed() {
    let published = published();
    let altered = |change: Change| {
        let mut ours = ours();
        change(&mut ours);
        differences(&ours, &published)
    };
    fn template(ours: &mut Declared) -> &mut DescriptorProto {
        ours.messages.get_mut("flyteidl2.core.TaskTemplate").unwrap()
    }
    let changes: [(&str, Change); 9] = [
        ("number", |ours| template(ours).field[0].number = Some(77)),
        ("type", |ours| template(ours).field[0].set_type(Type::String)),
        ("label", |ours| template(ours).field[0].set_label(Label::Repeated)),
        ("oneof", |ours| template(ours).field.iter_mut().for_each(|field| field.oneof_index = None)),
        ("json name", |ours| template(ours).field[0].json_name = Some("x".to_owned())),
        ("missing field", |ours| drop(template(ours).field.pop())),
        ("type name", |ours| template(ours).field[0].type_name = Some(".flyteidl2.core.Sql".to_owned())),
        ("enum number", |ours| {
            ours.enums.get_mut("flyteidl2.common.ActionPhase").unwrap().value[1].number = Some(99);
        }),
        ("streaming", |ours| {
            ours.services.get_mut("flyteidl2.workflow.EventsProxyService").unwrap().method[0].server_streaming =
                Some(true);
        }),
    ];
    for (what, change) in changes {
        assert!(!altered(change).is_empty(), "a changed {what} went unnoticed");
    }
}
