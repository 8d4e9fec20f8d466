//! The list of plugins that an executor starts with.

use aileron_machinery::PluginSet;

use crate::clustered::ClusteredPlugin;
use crate::dask::DaskPlugin;
use crate::dask::config::DaskConfig;
use crate::kubeflow::config::KubeflowConfig;
use crate::mpi::MpiPlugin;
use crate::pod::PodPlugin;
use crate::pytorch::PyTorchPlugin;
use crate::ray::RayPlugin;
use crate::ray::config::RayConfig;
use crate::sleep::SleepPlugin;
use crate::spark::SparkPlugin;
use crate::spark::config::SparkConfig;
use crate::spark::crd::PodTemplateSupport;
use crate::tensorflow::TensorFlowPlugin;

/// The settings of the built-in plugins that have some of their own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginConfigs {
    /// Section `plugins.dask`.
    pub dask: DaskConfig,
    /// Section `plugins.kf-operator`.
    pub kubeflow: KubeflowConfig,
    /// Section `plugins.ray`.
    pub ray: RayConfig,
    /// Section `plugins.spark`.
    pub spark: SparkConfig,
    /// No setting, but what is seen in the cluster: whether its Spark CRD takes pod templates.
    pub spark_pod_templates: PodTemplateSupport,
}

/// The built-in plugins. An executor adds its own with [`PluginSet::with`].
///
/// The order is upstream's, by the path of the plugin's package, and it matters: where two plugins serve a task type, or
/// two call themselves the default, the later one wins.
pub fn builtin(configs: &PluginConfigs) -> PluginSet {
    PluginSet::new()
        .with(ClusteredPlugin)
        .with(DaskPlugin::new(configs.dask.clone()))
        .with(MpiPlugin::new(configs.kubeflow.clone()))
        .with(PyTorchPlugin::new(configs.kubeflow.clone()))
        .with(TensorFlowPlugin::new(configs.kubeflow.clone()))
        .with(PodPlugin::container())
        .with(PodPlugin::sidecar())
        .with(PodPlugin::pod())
        .with(RayPlugin::new(configs.ray.clone()))
        .with(SparkPlugin::new(configs.spark.clone(), configs.spark_pod_templates.clone()))
        .with_core(SleepPlugin)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use aileron_machinery::AbortBehavior;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::task;

    const END: &str = "2009-11-10T22:30:00Z";

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

    /// What garbage collection and abort rely on.
    #[test]
    fn every_plugin_tells_the_end_of_its_object_and_lets_it_be_deleted() {
        let plugins = builtin(&PluginConfigs::default());
        let mut seen = BTreeSet::new();
        for (id, running, ended) in lives() {
            seen.insert(id);
            let plugin = plugins.k8s().iter().find(|plugin| plugin.entry().id == id).unwrap();
            let object = |status: Value| {
                let mut object = plugin.identity().unwrap().to_json().unwrap();
                object["metadata"] = json!({"name": "a-0", "creationTimestamp": "2009-11-10T22:00:00Z"});
                if object["spec"].get("containers").is_none() && object["kind"] == "Pod" {
                    object["spec"] = json!({"containers": []});
                }
                object["status"] = status;
                plugin.decode(object).unwrap()
            };
            let (running, ended) = (object(running), object(ended));
            assert!(!plugin.is_terminal(running.as_ref()).unwrap(), "{id}");
            assert!(plugin.is_terminal(ended.as_ref()).unwrap(), "{id}");
            assert_eq!(plugin.completed_at(ended.as_ref()).unwrap(), Some(END.parse().unwrap()), "{id}");
            let abort = plugin.on_abort(&task(id, None), running.as_ref()).unwrap();
            assert!(matches!(abort, AbortBehavior::Delete { instead: None }), "{id}");
            assert!(!plugin.properties().disable_delete_on_finalize, "{id}");
        }
        let all: BTreeSet<_> = plugins.k8s().iter().map(|plugin| plugin.entry().id).collect();
        assert_eq!(seen, all);
    }

    #[test]
    fn the_last_default_is_the_pod_plugin() {
        let plugins = builtin(&PluginConfigs::default());
        let entries: Vec<_> = plugins.k8s().iter().map(|plugin| plugin.entry()).collect();
        assert_eq!(entries.iter().rev().find(|entry| entry.is_default).map(|entry| entry.id), Some("pod"));
        let core: Vec<_> = plugins.core().iter().map(|plugin| plugin.entry().id).collect();
        assert_eq!(core, ["core-sleep"]);
    }

    #[test]
    fn plugins_stand_in_upstreams_order() {
        let plugins = builtin(&PluginConfigs::default());
        let ids: Vec<_> = plugins.k8s().iter().map(|plugin| plugin.entry().id).collect();
        let operators = ["clustered-task", "dask", "mpi", "pytorch", "tensorflow"];
        assert_eq!(ids, [&operators[..], &["container", "sidecar", "pod", "ray", "spark"]].concat());
    }
}
