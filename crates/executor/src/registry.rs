//! The plugins of a running executor, by task type.

pub mod served;

use std::sync::Arc;

use aileron_action::TaskActionSpec;
use aileron_action::plugin_choice::PluginList;
use aileron_admission::gate::Gate;
use aileron_admission::pools::broker::TokenBroker;
use aileron_machinery::{CorePlugin, PluginSet, ResourceKind};

use crate::cluster::Objects;
use crate::manager::PluginManager;
use crate::storage::BlobStore;

pub use aileron_action::plugin_choice::{NoPlugin, PluginDescription, RegistryError, RegistryRules, Why};

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
        gate: &Arc<Gate>,
        tokens: Option<&TokenBroker>,
    ) -> Result<Self, RegistryError> {
        let list = PluginList::new(plugins, rules)?;
        let managed = plugins.k8s().iter().map(|plugin| {
            let manager =
                PluginManager::new(Arc::clone(plugin), Arc::clone(objects), Arc::clone(store), Arc::clone(gate));
            Arc::new(manager.with_tokens(tokens.cloned())) as Arc<dyn CorePlugin>
        });
        let plugins = managed.chain(plugins.core().iter().map(Arc::clone)).collect();
        Ok(Self { list, plugins })
    }

    /// The same plugins, none of which is the default.
    #[must_use]
    pub fn without_default(self) -> Self {
        Self { list: self.list.without_default(), plugins: self.plugins }
    }

    /// The plugin for an action, and why it is that one. See [`PluginList::choose`].
    pub fn resolve(&self, spec: &TaskActionSpec) -> Result<(&Arc<dyn CorePlugin>, Why), NoPlugin> {
        let choice = self.list.choose(&spec.task_type, &spec.project, &spec.domain)?;
        let plugin = self.plugins.get(choice.index).ok_or_else(|| NoPlugin::NoDefault(spec.task_type.clone()))?;
        Ok((plugin, choice.why))
    }

    /// All plugins, in the order they were added.
    pub fn plugins(&self) -> &[PluginDescription] {
        self.list.plugins()
    }

    /// The kinds that enabled plugins make.
    pub fn kinds(&self) -> Vec<ResourceKind> {
        self.list.kinds()
    }

    /// Rules that can be followed and still look like slips.
    pub fn slips(&self) -> &[String] {
        self.list.slips()
    }

    /// What the operator should know: plugins that hide one another.
    pub fn warnings(&self) -> &[String] {
        self.list.warnings()
    }
}
