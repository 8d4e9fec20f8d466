// A plugin without an object is added as one that makes objects.
use aileron_machinery::{
    CorePlugin, CoreRequest, CoreStep, PhaseInfo, PluginEntry, PluginError, PluginSet, async_trait,
};

struct Queries;

#[async_trait]
impl CorePlugin for Queries {
    fn entry(&self) -> PluginEntry {
        PluginEntry::new("queries", &["query"])
    }

    async fn handle(&self, _: &CoreRequest<'_>) -> Result<CoreStep, PluginError> {
        Ok(CoreStep::of(PhaseInfo::undefined()))
    }

    async fn abort(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> {
        Ok(())
    }

    async fn finalize(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> {
        Ok(())
    }
}

pub fn plugins() -> PluginSet {
    PluginSet::new().with(Queries)
}
