//! Damaged recordings: every template and every object gives a result or an error, never a panic.
//!
//! `AILERON_FUZZ_CASES=100000 cargo test -p aileron-parity --test fuzz` runs more cases.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;
use std::sync::LazyLock;

use aileron_idl::flyteidl2::core::TaskTemplate;
use aileron_idl::{message_from_json, message_to_json};
use aileron_kubekit::names::is_subdomain;
use aileron_parity::fuzz::{Answer, Builder, Reader};
use aileron_parity::vectors::case::{Case, load};
use aileron_parity::vectors::context::template;
use aileron_preview::explain::path::{FieldPath, leaves};
use proptest::prelude::*;
use proptest::sample::Index;
use prost::Message;
use serde_json::{Value, json};

/// Default number of cases per property; they take a few seconds.
const CASES: u32 = 400;

fn cases_of(family: &str) -> Vec<Case> {
    load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/open").join(family)).unwrap()
}

/// The recorded templates of all plugins: those of SDKs and corner cases.
static TEMPLATES: LazyLock<Vec<TaskTemplate>> = LazyLock::new(|| {
    let all = cases_of("build");
    all.iter().filter_map(|case| template(case.input("taskTemplate"), case.input("taskTemplateJson")).ok()).collect()
});

static PODS: LazyLock<Vec<Case>> = LazyLock::new(|| cases_of("phase/pod"));

/// Two configurations: the defaults, and one that sets every option.
static BUILDER: LazyLock<Builder> = LazyLock::new(|| {
    let names = ["python-plain-default", "python-plain-allknobs"];
    let cases: Vec<_> =
        cases_of("build/real-sdk-pod").into_iter().filter(|case| names.contains(&case.name.as_str())).collect();
    Builder::new(&cases).unwrap()
});

/// One change that damages a document.
#[derive(Clone, Debug)]
enum Damage {
    Remove(Index),
    Replace(Index, Value),
    /// Replaces one part by a copy of another.
    Copy(Index, Index),
    /// Removes a parent of a part, this many levels up.
    RemoveAbove(Index, usize),
}

fn any_value() -> impl Strategy<Value = Value> {
    let texts = [
        "",
        "x",
        "-1",
        "0",
        "1Gi",
        "1e99",
        "99999999999999999999",
        "main",
        "primary",
        "default",
        "{{.inputs.x}}",
        "{{.input",
        "A".repeat(300).leak(),
        "ü/\n",
        "Exists",
        "2009-11-10T23:00:00Z",
        "OOMKilled",
        "Failed",
    ];
    prop_oneof![
        3 => prop::sample::select(texts.to_vec()).prop_map(Value::from),
        1 => prop::sample::select(vec![json!(null), json!(true), json!([]), json!({}), json!([{}]), json!({"name": "main"})]),
        1 => prop::sample::select(vec![json!(0), json!(-1), json!(137), json!(2_147_483_648_u64), json!(1.5), json!(i64::MAX)]),
    ]
}

fn any_damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<Index>().prop_map(Damage::Remove),
        (any::<Index>(), any_value()).prop_map(|(place, value)| Damage::Replace(place, value)),
        (any::<Index>(), any::<Index>()).prop_map(|(place, other)| Damage::Copy(place, other)),
        (any::<Index>(), 1..4_usize).prop_map(|(place, levels)| Damage::RemoveAbove(place, levels)),
    ]
}

fn damage(document: &mut Value, damages: &[Damage]) {
    for damage in damages {
        let places: Vec<FieldPath> = leaves(document).into_iter().map(|(path, _)| path).collect();
        match damage {
            Damage::Remove(place) => place.get(&places).remove(document),
            Damage::Replace(place, value) => place.get(&places).set(document, value.clone()),
            Damage::Copy(place, other) => {
                let other = other.get(&places);
                let part = other.prefix(other.segments().len().saturating_sub(1)).get(document).cloned();
                place.get(&places).set(document, part.unwrap_or_default());
            }
            Damage::RemoveAbove(place, levels) => {
                let path = place.get(&places);
                path.prefix(path.segments().len().saturating_sub(*levels).max(1)).remove(document);
            }
        }
    }
}

/// Checks that the build gives a valid object or a useful error, and the same result a second time.
fn check_build(bytes: &[u8]) -> Result<(), TestCaseError> {
    let answer = BUILDER.build(bytes);
    match &answer {
        Answer::Unreadable => {}
        Answer::Refused(text) => prop_assert!(text.len() > 10, "{:?} is not a useful error message", text),
        Answer::Made(object) => {
            let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            prop_assert!(is_subdomain(name), "{:?}", name);
            prop_assert!(object["kind"].is_string() && object["apiVersion"].is_string());
            if object["kind"] == "Pod" {
                prop_assert!(object["spec"]["containers"].as_array().is_some_and(|list| !list.is_empty()));
            }
        }
    }
    prop_assert_eq!(BUILDER.build(bytes), answer);
    Ok(())
}

fn config() -> ProptestConfig {
    let cases = std::env::var("AILERON_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn damaged_templates_give_a_result_or_an_error(
        place in any::<Index>(), damages in prop::collection::vec(any_damage(), 1..5), installation in any::<u8>(),
    ) {
        let mut document = message_to_json(place.get(&TEMPLATES)).unwrap();
        damage(&mut document, &damages);
        if let Ok(template) = message_from_json::<TaskTemplate>(&document) {
            let mut bytes = vec![installation];
            template.encode(&mut bytes).unwrap();
            check_build(&bytes)?;
        }
    }

    #[test]
    fn damaged_bytes_give_a_result_or_an_error(
        place in any::<Index>(), flips in prop::collection::vec((any::<Index>(), any::<u8>()), 1..6),
        cut in prop::option::weighted(0.1, any::<Index>()), installation in any::<u8>(),
    ) {
        let mut bytes = vec![installation];
        place.get(&TEMPLATES).encode(&mut bytes).unwrap();
        for (place, byte) in flips {
            *place.get_mut(&mut bytes) = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        check_build(&bytes)?;
    }

    #[test]
    fn damaged_pods_give_a_result_or_an_error(place in any::<Index>(), damages in prop::collection::vec(any_damage(), 1..6)) {
        let case = place.get(&PODS);
        let mut object = case.input("resource").clone();
        damage(&mut object, &damages);
        let reader = Reader::new(case).unwrap();
        let bytes = object.to_string();
        let answer = reader.read(bytes.as_bytes());
        if let Answer::Refused(text) = &answer {
            prop_assert!(text.len() > 10, "{:?} is not a useful error message", text);
        }
        prop_assert_eq!(reader.read(bytes.as_bytes()), answer);
    }
}

/// Writes the recordings as initial corpus for libFuzzer to the folder in `AILERON_FUZZ_SEEDS`.
#[test]
fn seeds_are_written_to_the_configured_folder() {
    let Some(folder) = std::env::var_os("AILERON_FUZZ_SEEDS").map(std::path::PathBuf::from) else { return };
    let write = |target: &str, number: usize, bytes: &[u8]| {
        let folder = folder.join(target);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(number.to_string()), bytes).unwrap();
    };
    for (number, template) in TEMPLATES.iter().enumerate() {
        let choice = u8::from(number % 2 == 0);
        write("build_object", number, &[&[choice][..], &template.encode_to_vec()].concat());
    }
    for (number, case) in PODS.iter().enumerate() {
        write("read_object", number, case.input("resource").to_string().as_bytes());
    }
}

#[test]
fn most_undamaged_recordings_are_built_and_read() {
    let built = TEMPLATES.iter().filter(|template| {
        let bytes = [&[0][..], &template.encode_to_vec()].concat();
        matches!(BUILDER.build(&bytes), Answer::Made(_))
    });
    assert!(built.count() * 2 > TEMPLATES.len(), "most recordings must build; otherwise the properties test nothing");
    let read = PODS.iter().filter(|case| {
        let bytes = case.input("resource").to_string();
        matches!(Reader::new(case).unwrap().read(bytes.as_bytes()), Answer::Made(_))
    });
    assert!(read.count() * 2 > PODS.len());
}
