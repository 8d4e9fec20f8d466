//! Damaged recordings: every template and every object gives a result or an error, never a panic.
//!
//! `AILERON_FUZZ_CASES=100000 cargo test -p aileron-parity --test fuzz` runs more cases.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use aileron_fuzz_targets::Answer;
use aileron_fuzz_targets::object::Reader;
use aileron_fuzz_targets::task_template::Builder;
use aileron_idl::flyteidl2::core::{LiteralMap, TaskTemplate};
use aileron_idl::{message_from_json, message_to_json};
use aileron_machinery::PhaseInfo;
use aileron_parity::vectors::case::{Case, load};
use aileron_parity::vectors::context::{of_case, template};
use aileron_parity::vectors::installation::Installation;
use aileron_preview::explain::path::{FieldPath, leaves};
use aileron_preview::read;
use aileron_preview::render::Offline;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodTemplate;
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
    Builder::with(cases.iter().map(installation).collect())
});

/// The installation of a recorded case: its configuration and pod templates.
fn installation(case: &Case) -> Offline {
    let given = read::task(b"{type: python}").unwrap();
    let templates = case.input("context").get("podTemplates").cloned().unwrap_or_default();
    let pod_templates: Option<Vec<PodTemplate>> = serde_json::from_value(templates).unwrap();
    Offline {
        action: given.action,
        template: given.template,
        config: Installation::of(case).unwrap().config,
        plugins: aileron_plugins::builtin(),
        pod_templates: pod_templates.unwrap_or_default(),
        inputs: Some(LiteralMap::default()),
        environment: BTreeMap::new(),
        executor_namespace: "flyte".into(),
        now: Timestamp::UNIX_EPOCH,
    }
}

/// Reads an object as the plugin of its recorded case does.
fn read_object(case: &Case, object: &Value) -> Answer<PhaseInfo> {
    let installation = Installation::of(case).unwrap();
    let task = of_case(case, &installation).unwrap().with_inputs();
    let reader = Reader::with(vec![(installation.k8s_plugin(case).unwrap(), task)]);
    reader.read(&[&[0][..], object.to_string().as_bytes()].concat())
}

/// One damage to a document.
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

/// The target checks the object or the error; the answer must be the same when asked again.
fn is_answered(bytes: &[u8]) -> Result<(), TestCaseError> {
    prop_assert_eq!(BUILDER.build(bytes), BUILDER.build(bytes));
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
            is_answered(&bytes)?;
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
        is_answered(&bytes)?;
    }

    #[test]
    fn damaged_pods_give_a_result_or_an_error(place in any::<Index>(), damages in prop::collection::vec(any_damage(), 1..6)) {
        let case = place.get(&PODS);
        let mut object = case.input("resource").clone();
        damage(&mut object, &damages);
        prop_assert_eq!(read_object(case, &object), read_object(case, &object));
    }
}

#[test]
fn most_undamaged_recordings_are_built_and_read() {
    let built = TEMPLATES.iter().filter(|template| {
        let bytes = [&[0][..], &template.encode_to_vec()].concat();
        matches!(BUILDER.build(&bytes), Answer::Made(_))
    });
    assert!(built.count() * 2 > TEMPLATES.len(), "most recordings must build, or the rest looks at nothing");
    let read = PODS.iter().filter(|case| matches!(read_object(case, case.input("resource")), Answer::Made(_)));
    assert!(read.count() * 2 > PODS.len());
}
