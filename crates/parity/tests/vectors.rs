//! The recorded cases that must pass.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};

use aileron_parity::vectors::judge::judge;
use aileron_parity::vectors::run;
use aileron_parity::vectors::selection::Selection;
use aileron_parity::vectors::upstream_bugs::RULES;
use aileron_parity::vectors::walk;
use serde_json::Value;

/// The families that must pass. The others need the connector plugin, which does not exist yet.
const MUST_PASS: &str = "quantity,names,template,config,metadata,state,gc,podhelper,tasklog,build/pod,build/real-sdk-pod,\
                         phase/pod,build/ray,build/real-sdk-ray,phase/ray,build/clustered-task,\
                         build/real-sdk-clustered-task,phase/clustered-task,build/dask,build/real-sdk-dask,phase/dask,build/spark,\
                         build/real-sdk-spark,phase/spark,build/pytorch,build/real-sdk-pytorch,phase/pytorch,\
                         build/tensorflow,phase/tensorflow,build/mpi,phase/mpi,manager,reconcile";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/open")
}

#[test]
fn recorded_cases_pass() {
    let report = run(&folder(), &Selection::parse(MUST_PASS), None).unwrap();
    assert_eq!(report.failed().count(), 0, "\n{}", report.render(false));
    assert!(report.counts().passed > 1000, "too few cases were run:\n{}", report.render(false));
}

#[test]
fn every_case_is_readable() {
    let cases = aileron_parity::vectors::case::load(&folder()).unwrap();
    assert!(cases.len() >= 1685, "only {} cases", cases.len());
}

#[test]
fn every_defect_that_a_case_names_has_a_rule() {
    let cases = aileron_parity::vectors::case::load(&folder()).unwrap();
    let known = |id: &String| RULES.iter().any(|rule| rule.id == id);
    let unknown: Vec<_> = cases.iter().flat_map(|case| &case.upstream_bugs).filter(|id| !known(id)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// The comparison must find every change of a recorded pod or phase; otherwise it proves nothing.
#[test]
fn every_change_of_a_recorded_result_is_noticed() {
    let cases = aileron_parity::vectors::case::load(&folder()).unwrap();
    let selection = Selection::parse("build/pod,build/real-sdk-pod,phase/pod");
    let mut unnoticed = std::collections::BTreeMap::<String, usize>::new();
    for case in cases.iter().filter(|case| selection.includes(case) && case.upstream_bugs.is_empty()) {
        let mut recorded = case.expected.clone();
        let mut open_message = false;
        walk::objects(&mut recorded, &mut |members| {
            open_message |= members.remove("messageExact") == Some(Value::Bool(false));
        });
        // Upstream has a completion time also for an object that still runs; ours must have none.
        if recorded.pointer("/gc/terminal") == Some(&Value::Bool(false)) {
            recorded["gc"]["completionTime"] = Value::Null;
        }
        assert_eq!(judge(case, &recorded), [], "{} differs from itself", case.id());
        let mut places = Vec::new();
        leaves(&recorded, String::new(), &mut places);
        for place in places.into_iter().filter(|place| !(open_message && place.ends_with("/message"))) {
            let mut changed = recorded.clone();
            let leaf = changed.pointer_mut(&place).unwrap();
            *leaf = match leaf {
                Value::Bool(flag) => (!*flag).into(),
                Value::Number(number) => (number.as_i64().unwrap_or_default() + 1).into(),
                _ => "2001-02-03T04:05:06Z".into(),
            };
            if judge(case, &changed).is_empty() {
                *unnoticed.entry(place.rsplit('/').next().unwrap_or_default().to_owned()).or_default() += 1;
            }
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}

fn leaves(value: &Value, path: String, found: &mut Vec<String>) {
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, member)| leaves(member, format!("{path}/{}", escaped(key)), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| leaves(item, format!("{path}/{index}"), found));
        }
        Value::Null => {}
        _ => found.push(path),
    }
}
