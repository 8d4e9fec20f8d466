// The resource of the plugin is the spec, not the type that `#[derive(CustomResource)]` makes of it.
use aileron_machinery::CustomResource;
use aileron_machinery::schemars::JsonSchema;
use aileron_machinery::serde::{Deserialize, Serialize};
use aileron_machinery::{K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "kitchen.example.com", version = "v1", kind = "Kettle", namespaced)]
#[kube(crates(
    kube_core = "aileron_machinery::kube_core",
    k8s_openapi = "aileron_machinery::k8s_openapi",
    schemars = "aileron_machinery::schemars",
    serde = "aileron_machinery::serde",
    serde_json = "aileron_machinery::serde_json"
))]
#[serde(crate = "aileron_machinery::serde")]
#[schemars(crate = "aileron_machinery::schemars")]
pub struct KettleSpec {
    litres: u32,
}

struct Kettles;

impl K8sPlugin for Kettles {
    type Resource = KettleSpec;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new("kettles", &["kettle"])
    }

    fn build(&self, _: &TaskContext) -> Result<KettleSpec, PluginError> {
        Err(PluginError::uncoded("not written yet"))
    }

    fn phase(&self, _: &PhaseContext<'_>, _: &KettleSpec) -> Result<PhaseInfo, PluginError> {
        Ok(PhaseInfo::undefined())
    }
}
