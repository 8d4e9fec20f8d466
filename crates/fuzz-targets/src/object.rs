//! Any bytes as an object of a plugin, as a watch delivers it: its phase is read.

use std::sync::Arc;

use aileron_machinery::{ObjectPlugin, ObservedPhase, PhaseContext, PhaseInfo, TaskContext, testing};
use futures::executor::block_on;
use serde_json::Value;

use crate::answer::{Answer, explained};
use crate::error::TargetError;
use crate::installation::configurations;

/// Reads objects from bytes.
pub struct Reader {
    /// Each plugin with a task of one of its types.
    plugins: Vec<(Arc<dyn ObjectPlugin>, TaskContext)>,
}

impl Reader {
    /// Reads with all built-in plugins that have objects.
    ///
    /// # Errors
    /// When the plugins cannot be made.
    pub fn new() -> Result<Self, TargetError> {
        let mut plugins = Vec::new();
        for config in configurations()?.iter().take(1) {
            let set = aileron_plugins::builtin().build(&config.plugins.section_values())?;
            for plugin in set.k8s() {
                let entry = plugin.entry();
                let task_type = entry.task_types.first().map_or("python", String::as_str);
                plugins.push((Arc::clone(plugin), testing::task(task_type, &Value::Null)));
            }
        }
        Ok(Self::with(plugins))
    }

    /// Reads with these plugins, each for a task.
    #[must_use]
    pub fn with(plugins: Vec<(Arc<dyn ObjectPlugin>, TaskContext)>) -> Self {
        Self { plugins }
    }

    /// Reads the phase of an object in JSON; the first byte chooses the plugin.
    pub fn read(&self, data: &[u8]) -> Answer<PhaseInfo> {
        let Some((choice, bytes)) = data.split_first() else { return Answer::Unreadable };
        let Some((plugin, task)) = self.plugins.get(usize::from(*choice) % self.plugins.len().max(1)) else {
            return Answer::Unreadable;
        };
        let Ok(object) = serde_json::from_slice::<Value>(bytes) else { return Answer::Unreadable };
        let Ok(object) = plugin.decode(object) else { return Answer::Unreadable };
        let prior = ObservedPhase::default();
        let cx = PhaseContext::new(task, &prior);
        let phase = block_on(plugin.phase(&cx, object.as_ref()));
        // The clean-up of objects looks at the same object.
        let _ = block_on(plugin.ended(object.as_ref()));
        match phase {
            Ok(phase) => Answer::Made(phase),
            Err(error) => Answer::Refused(explained(&error)),
        }
    }
}
