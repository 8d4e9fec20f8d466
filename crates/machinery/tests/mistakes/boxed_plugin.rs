// The plugin is passed in a box.
use aileron_machinery::k8s_openapi::api::core::v1::Pod;
use aileron_machinery::{K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, PluginSet, TaskContext};

struct Kettles;

impl K8sPlugin for Kettles {
    type Resource = Pod;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new("kettles", &["kettle"])
    }

    fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> {
        Ok(Pod::default())
    }

    fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
        Ok(PhaseInfo::undefined())
    }
}

pub fn plugins() -> PluginSet {
    PluginSet::new().with(Box::new(Kettles))
}
