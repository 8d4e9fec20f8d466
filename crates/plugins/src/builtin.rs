//! The list of plugins that an executor starts with.

use aileron_machinery::PluginSources;

use crate::clustered::ClusteredPlugin;
use crate::dask::DaskPlugin;
use crate::kubeflow::mpi::MpiPlugin;
use crate::kubeflow::pytorch::PyTorchPlugin;
use crate::kubeflow::tensorflow::TensorFlowPlugin;
use crate::pod::PodPlugin;
use crate::ray::RayPlugin;
use crate::sleep::SleepPlugin;
use crate::spark::SparkPlugin;

/// The built-in plugins with their sections of configuration. An installation adds its own with
/// [`PluginSources::with`] and [`PluginSources::with_section`].
///
/// The order is upstream's, by the path of the plugin's package, and it matters: where two plugins serve a task type, or
/// two call themselves the default, the later one wins.
pub fn builtin() -> PluginSources {
    PluginSources::new()
        .with(ClusteredPlugin)
        .with_section(DaskPlugin::new)
        .with_section(MpiPlugin::new)
        .with_section(PyTorchPlugin::new)
        .with_section(TensorFlowPlugin::new)
        .with(PodPlugin::container())
        .with(PodPlugin::sidecar())
        .with(PodPlugin::pod())
        .with_section(RayPlugin::new)
        .with_section(SparkPlugin::new)
        .with_core(SleepPlugin)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use aileron_machinery::testing::{NAME, task};
    use aileron_machinery::{AbortBehavior, Ended, ObjectRef, PluginSet, SectionValues};
    use futures::FutureExt as _;
    use serde_json::{Value, json};

    use super::*;

    const END: &str = "2009-11-10T22:30:00Z";

    fn plugins() -> PluginSet {
        builtin().build(&SectionValues::default()).unwrap()
    }

    /// Every plugin with the status of an object that runs, and of one that ended at [`END`].
    fn lives() -> Vec<(&'static str, Value, Value)> {
        let condition = |said: &str| json!({"type": said, "status": "True", "lastTransitionTime": END});
        let job = |said: &str| json!({"conditions": [condition(said)], "completionTime": END});
        let pod = |phase: &str, state: Value| {
            json!({"phase": phase, "containerStatuses": [{"name": "main", "image": "", "imageID": "", "ready": false,
                "restartCount": 0, "state": state}]})
        };
        let mut lives = vec![
            (
                "spark",
                json!({"applicationState": {"state": "RUNNING"}}),
                json!({"applicationState": {"state": "COMPLETED"}, "terminationTime": END}),
            ),
            (
                "ray",
                json!({"jobDeploymentStatus": "Running"}),
                json!({"jobDeploymentStatus": "Failed", "endTime": END}),
            ),
            ("dask", json!({"jobStatus": "Running"}), json!({"jobStatus": "Successful", "endTime": END})),
            ("clustered-task", json!({}), json!({"conditions": [condition("Completed")]})),
        ];
        for kubeflow in ["pytorch", "tensorflow", "mpi"] {
            lives.push((kubeflow, json!({"conditions": [condition("Running")]}), job("Succeeded")));
        }
        for of_pod in ["container", "sidecar", "pod"] {
            let ended = json!({"terminated": {"exitCode": 0, "finishedAt": END}});
            lives.push((of_pod, pod("Running", json!({"running": {}})), pod("Succeeded", ended)));
        }
        lives
    }

    /// What the clean-up of objects and abort rely on.
    #[test]
    fn every_plugin_tells_the_end_of_its_object_and_lets_it_be_deleted() {
        let plugins = plugins();
        let mut seen = BTreeSet::new();
        for (id, running, ended) in lives() {
            seen.insert(id.to_owned());
            let plugin = plugins.k8s().iter().find(|plugin| &*plugin.entry().id == id).unwrap();
            let object = |status: Value| {
                let kind = plugin.kind();
                let spec = if kind.kind == "Pod" { json!({"containers": []}) } else { json!({}) };
                let metadata = json!({"name": "a-0", "creationTimestamp": "2009-11-10T22:00:00Z"});
                let document = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata,
                    "spec": spec, "status": status});
                plugin.decode(document).unwrap()
            };
            let end_of =
                |object: &dyn aileron_machinery::AnyResource| plugin.ended(object).now_or_never().unwrap().unwrap();
            assert_eq!(end_of(object(running).as_ref()), None, "{id}");
            let at = Some(END.parse().unwrap());
            assert_eq!(end_of(object(ended).as_ref()), Some(Ended::new(at, id == "ray")), "{id}");
            let own = ObjectRef::new(plugin.kind(), "p-d", NAME);
            let abort = plugin.on_abort(&task(id, &Value::Null), &own).now_or_never().unwrap().unwrap();
            assert_eq!(abort, AbortBehavior::Delete { target: None }, "{id}");
            assert!(!plugin.properties().disable_delete_on_finalize, "{id}");
        }
        let all: BTreeSet<_> = plugins.k8s().iter().map(|plugin| plugin.entry().id.to_string()).collect();
        assert_eq!(seen, all);
    }

    #[test]
    fn the_last_default_is_the_pod_plugin() {
        let plugins = plugins();
        let entries: Vec<_> = plugins.k8s().iter().map(|plugin| plugin.entry()).collect();
        assert_eq!(entries.iter().rev().find(|entry| entry.is_default).map(|entry| &*entry.id), Some("pod"));
        let core: Vec<_> = plugins.core().iter().map(|plugin| plugin.entry().id.to_string()).collect();
        assert_eq!(core, ["core-sleep"]);
    }

    #[test]
    fn plugins_stand_in_upstreams_order() {
        let plugins = plugins();
        let ids: Vec<_> = plugins.k8s().iter().map(|plugin| plugin.entry().id.to_string()).collect();
        let operators = ["clustered-task", "dask", "mpi", "pytorch", "tensorflow"];
        assert_eq!(ids, [&operators[..], &["container", "sidecar", "pod", "ray", "spark"]].concat());
    }
}
