// `build` returns the JSON of an object instead of an object.
use aileron_machinery::serde_json::json;
use aileron_machinery::{
    AnyResource, ObjectPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, ResourceKind, TaskContext,
    async_trait,
};

pub struct FromFile;

#[async_trait]
impl ObjectPlugin for FromFile {
    fn entry(&self) -> PluginEntry {
        PluginEntry::new("from-file", &["kettle"])
    }

    fn kind(&self) -> ResourceKind {
        ResourceKind::new("kitchen.example.com", "v1", "Kettle", "kettles")
    }

    async fn build(&self, _: &TaskContext) -> Result<Box<dyn AnyResource>, PluginError> {
        Ok(Box::new(json!({"spec": {"litres": 2}})))
    }

    async fn phase(&self, _: &PhaseContext<'_>, _: &dyn AnyResource) -> Result<PhaseInfo, PluginError> {
        Ok(PhaseInfo::undefined())
    }
}
