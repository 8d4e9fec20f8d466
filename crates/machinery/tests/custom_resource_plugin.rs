//! A plugin whose object is a type made by `#[derive(CustomResource)]`, written with nothing but this crate.
#![allow(clippy::unwrap_used, missing_docs)]

use aileron_machinery::schemars::JsonSchema;
use aileron_machinery::serde::{Deserialize, Serialize};
use aileron_machinery::serde_json::{Value, json};
use aileron_machinery::testing::task;
use aileron_machinery::{
    AnyResource, CustomResource, Ended, K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, ResourceKind,
    TaskContext, TaskInfo, erase,
};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "batch.example.com", version = "v1", kind = "Batch", namespaced, status = "BatchStatus")]
#[kube(crates(
    kube_core = "aileron_machinery::kube_core",
    k8s_openapi = "aileron_machinery::k8s_openapi",
    schemars = "aileron_machinery::schemars",
    serde = "aileron_machinery::serde",
    serde_json = "aileron_machinery::serde_json"
))]
#[serde(crate = "aileron_machinery::serde")]
#[schemars(crate = "aileron_machinery::schemars")]
struct BatchSpec {
    /// A required field: an object without it is not a batch.
    size: u32,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "aileron_machinery::serde", default)]
#[schemars(crate = "aileron_machinery::schemars")]
struct BatchStatus {
    conditions: Vec<Value>,
}

struct Batches;

impl K8sPlugin for Batches {
    type Resource = Batch;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new("batches", &["batch"])
    }

    fn build(&self, _: &TaskContext) -> Result<Batch, PluginError> {
        Ok(Batch::new("", BatchSpec { size: 3 }))
    }

    fn phase(&self, cx: &PhaseContext<'_>, batch: &Batch) -> Result<PhaseInfo, PluginError> {
        let info = TaskInfo::at(cx.task.now);
        Ok(if self.ended(batch).is_some() { PhaseInfo::success(info) } else { PhaseInfo::running(info) })
    }
}

#[test]
fn the_kind_comes_from_the_derived_type() {
    assert_eq!(ResourceKind::of::<Batch>(), ResourceKind::new("batch.example.com", "v1", "Batch", "batches"));
    let built = Batches.build(&task("batch", &Value::Null)).unwrap().to_json().unwrap();
    assert_eq!((&built["apiVersion"], &built["kind"]), (&json!("batch.example.com/v1"), &json!("Batch")));
    assert_eq!(built["spec"], json!({"size": 3}));
}

#[test]
fn the_end_is_read_from_its_conditions() {
    let plugin = erase(Batches);
    let batch = |conditions: Value| -> Batch {
        let document = json!({"apiVersion": "batch.example.com/v1", "kind": "Batch", "metadata": {"name": "b"},
            "spec": {"size": 1}, "status": {"conditions": conditions}});
        let decoded = plugin.decode(document).unwrap();
        decoded.as_any().downcast_ref::<Batch>().unwrap().clone()
    };
    let at = "2009-11-10T22:30:00Z";
    let complete = batch(json!([{"type": "Complete", "status": "True", "lastTransitionTime": at}]));
    assert_eq!(Batches.ended(&complete), Some(Ended::well(at.parse::<aileron_machinery::jiff::Timestamp>().unwrap())));
    assert_eq!(Batches.ended(&batch(json!([]))), None);
}
