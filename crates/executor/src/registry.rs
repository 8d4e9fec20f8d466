//! The plugins of a running executor, by task type.

use std::sync::Arc;

use aileron_machinery::{CorePlugin, PluginSet, ResourceKind};

use crate::cluster::Objects;
use crate::manager::PluginManager;
use crate::plugin_list::PluginList;
use crate::storage::BlobStore;

pub use crate::plugin_list::{PluginDescription, RegistryError, RegistryRules};

/// No plugin serves a task type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no plugin registered for task type {0:?} and no default plugin available")]
pub struct NoPlugin(pub String);

/// Plugins by task type.
pub struct Registry {
    list: PluginList,
    /// In the order of the list.
    plugins: Vec<Arc<dyn CorePlugin>>,
}

impl Registry {
    /// Puts every Kubernetes plugin behind a manager, takes the others as they are, and applies the rules as
    /// [`PluginList::new`] says.
    pub fn new(
        plugins: &PluginSet,
        rules: &RegistryRules,
        objects: &Arc<dyn Objects>,
        store: &Arc<dyn BlobStore>,
    ) -> Result<Self, RegistryError> {
        let list = PluginList::new(plugins, rules)?;
        let managed = plugins.k8s().iter().map(|plugin| {
            let manager = PluginManager::new(Arc::clone(plugin), Arc::clone(objects), Arc::clone(store));
            Arc::new(manager) as Arc<dyn CorePlugin>
        });
        let plugins = managed.chain(plugins.core().iter().map(Arc::clone)).collect();
        Ok(Self { list, plugins })
    }

    /// The same plugins, none of which is the default.
    #[must_use]
    pub fn without_default(self) -> Self {
        Self { list: self.list.without_default(), plugins: self.plugins }
    }

    /// The plugin for a task type: the one that serves it, else the default.
    pub fn resolve(&self, task_type: &str) -> Result<&Arc<dyn CorePlugin>, NoPlugin> {
        let found = self.list.resolve(task_type).and_then(|index| self.plugins.get(index));
        found.ok_or_else(|| NoPlugin(task_type.into()))
    }

    /// All plugins, in the order they were added.
    pub fn plugins(&self) -> &[PluginDescription] {
        self.list.plugins()
    }

    /// The kinds that enabled plugins make.
    pub fn kinds(&self) -> Vec<ResourceKind> {
        self.list.kinds()
    }

    /// What the operator should know: plugins that hide one another.
    pub fn warnings(&self) -> &[String] {
        self.list.warnings()
    }
}
