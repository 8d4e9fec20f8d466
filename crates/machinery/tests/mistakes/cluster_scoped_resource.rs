// Nodes are not in a namespace.
use aileron_machinery::k8s_openapi::api::core::v1::Node;
use aileron_machinery::{K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};

struct Kettles;

impl K8sPlugin for Kettles {
    type Resource = Node;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new("kettles", &["kettle"])
    }

    fn build(&self, _: &TaskContext) -> Result<Node, PluginError> {
        Err(PluginError::uncoded("not written yet"))
    }

    fn phase(&self, _: &PhaseContext<'_>, _: &Node) -> Result<PhaseInfo, PluginError> {
        Ok(PhaseInfo::undefined())
    }
}
