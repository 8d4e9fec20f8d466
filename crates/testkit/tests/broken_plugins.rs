//! The kit notices what is wrong with a plugin, and says it in words.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::atomic::{AtomicU32, Ordering};

use aileron_machinery::k8s_openapi::api::core::v1::PodTemplateSpec;
use aileron_machinery::pod::build_pod;
use aileron_machinery::serde::{Deserialize, Serialize};
use aileron_machinery::serde_json::{Value, json};
use aileron_machinery::{
    AbortBehavior, Ended, ExecutionError, K8sPlugin, Needs, ObjectRef, Phase, PhaseContext, PhaseInfo, PluginEntry,
    PluginError, PluginProperties, TaskContext, TaskInfo, custom_resource,
};
use aileron_testkit::{Conformance, Life, PhaseTable, Report, task};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spec {
    label: String,
    number: u32,
    template: Option<PodTemplateSpec>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    phase: String,
    reason: String,
}

custom_resource! {
    /// Boils water.
    Kettle(Spec, Status), "kitchen.example.com", "v1", "kettles"
}

/// Every n-th fault, to keep `make test` short.
const EVERY: usize = 9;

/// What a kettle plugin does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    BuildsAtRandom,
    SuccessBeforeTheEnd,
    PhaseGoesBack,
    AbortFails,
    LabelTooLong,
    NameTooLong,
    NeverEnds,
    EndsAtOnce,
    PodsWithoutLabels,
}

struct Kettles {
    fault: Fault,
    builds: AtomicU32,
}

impl K8sPlugin for Kettles {
    type Resource = Kettle;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new("kettle", &["kettle"])
    }

    fn properties(&self) -> PluginProperties {
        match self.fault {
            // A digest has eight characters, so a name cannot be made this short.
            Fault::NameTooLong => PluginProperties::default().with_name_max_length(5),
            _ => PluginProperties::default(),
        }
    }

    fn needs(&self, task: &TaskContext) -> Needs {
        match self.fault {
            Fault::PodsWithoutLabels => Needs::of_pod(task).with_pods(),
            _ => Needs::of_pod(task),
        }
    }

    fn build(&self, task: &TaskContext) -> Result<Kettle, PluginError> {
        let mut kettle = Kettle::default();
        if self.fault == Fault::BuildsAtRandom {
            kettle.spec.number = self.builds.fetch_add(1, Ordering::Relaxed);
        }
        if self.fault == Fault::LabelTooLong {
            let name = task.metadata.id.generated_name.clone();
            kettle.metadata.labels = Some([("job".to_owned(), name)].into());
        }
        if self.fault == Fault::PodsWithoutLabels {
            let pod = build_pod(task, Default::default())?.into_pod();
            kettle.spec.template = Some(PodTemplateSpec { metadata: Some(pod.metadata), spec: pod.spec });
        }
        Ok(kettle)
    }

    fn phase(&self, cx: &PhaseContext<'_>, kettle: &Kettle) -> Result<PhaseInfo, PluginError> {
        let info = TaskInfo::at(cx.task.now);
        let status = kettle.status.clone().unwrap_or_default();
        Ok(match (status.phase.as_str(), self.fault) {
            ("", Fault::EndsAtOnce) => PhaseInfo::success(info),
            ("", _) => PhaseInfo::queued("waits for water", info),
            ("Heating", Fault::SuccessBeforeTheEnd) => PhaseInfo::success(info),
            ("Boiling", Fault::PhaseGoesBack) => PhaseInfo::queued("again", info),
            ("Heating" | "Boiling", _) => PhaseInfo::running(info),
            ("Succeeded", _) => PhaseInfo::success(info),
            _ => PhaseInfo::retryable_failure(ExecutionError::user("Dry", status.reason), info),
        })
    }

    fn ended(&self, kettle: &Kettle) -> Option<Ended> {
        match kettle.status.as_ref()?.phase.as_str() {
            _ if self.fault == Fault::NeverEnds => None,
            "Succeeded" => Some(Ended::well(None)),
            "Failed" => Some(Ended::badly(None)),
            _ => None,
        }
    }

    fn on_abort(&self, _: &TaskContext, _: &ObjectRef) -> Result<AbortBehavior, PluginError> {
        match self.fault {
            Fault::AbortFails => Err(PluginError::uncoded("the kettle is hot")),
            _ => Ok(AbortBehavior::default()),
        }
    }
}

fn lives(fault: Fault) -> [Life; 2] {
    let state = |phase: &str| json!({"phase": phase, "reason": "no water"});
    // A test that describes what the plugin wrongly does lets the first comparison pass, so that the next one must notice it.
    let heating = if fault == Fault::SuccessBeforeTheEnd { Phase::Success } else { Phase::Running };
    let boiling = if fault == Fault::PhaseGoesBack { Phase::Queued } else { Phase::Running };
    [
        Life::new("boils")
            .status(state("Heating"), heating)
            .status(state("Boiling"), boiling)
            .status(state("Succeeded"), Phase::Success),
        Life::new("runs dry").status(state("Heating"), heating).status(state("Failed"), Phase::RetryableFailure),
    ]
}

fn report(fault: Fault) -> Report {
    let plugin = Kettles { fault, builds: AtomicU32::default() };
    let conformance = Conformance::of(plugin).task(task("kettle", &Value::Null)).every(EVERY);
    lives(fault).into_iter().fold(conformance, Conformance::life).check()
}

#[track_caller]
fn fails(fault: Fault, promise: &str, words: &str) {
    let report = report(fault);
    let noticed = report.checks().iter().any(|check| {
        check.promise().contains(promise) && check.problems().iter().any(|problem| problem.contains(words))
    });
    assert!(noticed, "{fault:?}: {report}");
}

#[test]
fn a_good_plugin_passes() {
    let report = report(Fault::None);
    println!("{report}");
    report.assert_passed();
    let runs: usize = report
        .checks()
        .iter()
        .filter(|check| check.promise().contains("nothing is lost"))
        .map(aileron_testkit::Check::times)
        .sum();
    assert!(runs > 250 / EVERY, "{report}");
}

#[test]
fn an_object_that_differs_from_call_to_call() {
    fails(Fault::BuildsAtRandom, "the same object each time", "spec.number differs");
}

#[test]
fn a_success_before_the_end_of_the_object() {
    fails(Fault::SuccessBeforeTheEnd, "success never precedes the end", "life \"boils\", state 1");
}

#[test]
fn a_phase_that_goes_back() {
    fails(Fault::PhaseGoesBack, "only move forward", "PhaseQueued follows PhaseRunning");
}

#[test]
fn an_abort_that_fails() {
    fails(Fault::AbortFails, "an abort can be repeated", "the kettle is hot");
}

#[test]
fn a_label_that_is_too_long() {
    fails(Fault::LabelTooLong, "names are valid at every length", "a name of 64 characters: metadata.labels[job]");
}

#[test]
fn a_name_that_cannot_be_made_short_enough() {
    fails(Fault::NameTooLong, "names are valid at every length", "longer than the 5 characters");
}

#[test]
fn a_plugin_that_needs_pods_and_does_not_label_them() {
    fails(Fault::PodsWithoutLabels, "labels of the attempt", "spec.template.metadata has no labels of the attempt");
}

#[test]
fn an_object_that_never_ends() {
    fails(Fault::NeverEnds, "success never precedes the end", "it would never be cleaned up");
}

#[test]
fn a_new_object_that_is_read_as_a_success() {
    fails(Fault::EndsAtOnce, "only move forward", "an object without a status is read as PhaseSuccess");
}

#[test]
fn a_test_that_lacks_something_says_what() {
    let plugin = Kettles { fault: Fault::None, builds: AtomicU32::default() };
    let report = Conformance::of(plugin).task(task("pot", &Value::Null)).life(Life::new("boils")).check();
    let text = report.to_string();
    assert!(text.contains("does not serve the task type \"pot\""), "{text}");
    assert!(text.contains("no life ends with Phase::Success"), "{text}");
    assert!(text.contains("life \"boils\" does not end"), "{text}");
}

#[test]
fn a_phase_table_names_every_row_that_is_wrong() {
    let (plugin, task) = (Kettles { fault: Fault::None, builds: AtomicU32::default() }, task("kettle", &Value::Null));
    PhaseTable::of(&plugin, &task)
        .row(json!(null), Phase::Queued, "waits for water")
        .row(json!({"phase": "Failed", "reason": "no water"}), Phase::RetryableFailure, "[Dry] no water")
        .assert();
    let wrong = std::panic::catch_unwind(|| {
        let plugin = Kettles { fault: Fault::None, builds: AtomicU32::default() };
        let task = aileron_testkit::task("kettle", &Value::Null);
        let table = PhaseTable::of(&plugin, &task).row(json!({"phase": "Heating"}), Phase::Success, "");
        table
            .row(json!({"phase": "Failed"}), Phase::RetryableFailure, "hot")
            .row(json!({"phase": 1}), Phase::Running, "")
            .assert();
    });
    let text = wrong.unwrap_err().downcast_ref::<String>().unwrap().clone();
    for part in ["row 1, ", "reads PhaseRunning", "row 2, ", "row 3, ", "the status does not fit the type"] {
        assert!(text.contains(part), "{text}");
    }
}
