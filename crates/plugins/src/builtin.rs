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
    use super::*;

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
