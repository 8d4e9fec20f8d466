// A type of its own without any derive.
use aileron_machinery::{K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};

pub struct Kettle {
    pub litres: u32,
}

struct Kettles;

impl K8sPlugin for Kettles {
    type Resource = Kettle;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new("kettles", &["kettle"])
    }

    fn build(&self, _: &TaskContext) -> Result<Kettle, PluginError> {
        Err(PluginError::uncoded("not written yet"))
    }

    fn phase(&self, _: &PhaseContext<'_>, _: &Kettle) -> Result<PhaseInfo, PluginError> {
        Ok(PhaseInfo::undefined())
    }
}
