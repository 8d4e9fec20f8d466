//! The plugins of a running executor, by task type.

mod core_services;
pub(crate) mod panics;
pub mod served;

use std::sync::Arc;

use aileron_action::TaskActionSpec;
use aileron_action::plugin_choice::PluginList;
use aileron_admission::waker::ActionWaker;
use aileron_machinery::{CorePlugin, CoreSetup, PluginError, PluginSet, ResourceKind, Secrets};

use self::core_services::ServicedPlugin;
use crate::manager::{ManagerBackends, PluginManager};

pub use aileron_action::plugin_choice::{NoPlugin, PluginDescription, RegistryError, RegistryRules, Why};
pub use core_services::LocalSecrets;

/// The services that the plugins of an executor use.
#[derive(Clone)]
pub struct Backends {
    /// For Kubernetes plugins. Core plugins use its storage, tokens and clock.
    pub manager: ManagerBackends,
    /// The secrets of the executor itself.
    pub secrets: Arc<dyn Secrets>,
    /// Wakes actions, and returns when they were created.
    pub waker: Arc<dyn ActionWaker>,
}

/// Plugins by task type.
pub struct Registry {
    list: PluginList,
    /// In the order of the list.
    plugins: Vec<Arc<dyn CorePlugin>>,
    secrets: Arc<dyn Secrets>,
}

impl Registry {
    /// Puts every Kubernetes plugin behind a manager and every other plugin behind its services, and applies the rules as
    /// [`PluginList::new`] says.
    pub fn new(plugins: &PluginSet, rules: &RegistryRules, backends: &Backends) -> Result<Self, RegistryError> {
        let list = PluginList::new(plugins, rules)?;
        let managed = plugins.k8s().iter().map(|plugin| {
            Arc::new(PluginManager::new(Arc::clone(plugin), backends.manager.clone())) as Arc<dyn CorePlugin>
        });
        let direct = plugins
            .core()
            .iter()
            .map(|plugin| Arc::new(ServicedPlugin::new(Arc::clone(plugin), backends.clone())) as Arc<dyn CorePlugin>);
        Ok(Self { list, plugins: managed.chain(direct).collect(), secrets: Arc::clone(&backends.secrets) })
    }

    /// Sets up every enabled plugin. Called once, before the first task.
    ///
    /// # Errors
    /// When a plugin cannot be set up. The error comes with the id of the plugin.
    pub async fn set_up(&self) -> Result<(), (Arc<str>, PluginError)> {
        for (description, plugin) in self.list.plugins().iter().zip(&self.plugins) {
            if description.enabled {
                let setup = CoreSetup::new(Arc::clone(&self.secrets));
                plugin.setup(setup).await.map_err(|error| (Arc::clone(&description.entry.id), error))?;
            }
        }
        Ok(())
    }

    /// The same plugins, none of which is the default.
    #[must_use]
    pub fn without_default(self) -> Self {
        Self { list: self.list.without_default(), ..self }
    }

    /// The plugin for an action, and why it was chosen. See [`PluginList::choose`].
    pub fn resolve(&self, spec: &TaskActionSpec) -> Result<(&Arc<dyn CorePlugin>, Why), NoPlugin> {
        let choice = self.list.choose(&spec.task_type, &spec.project, &spec.domain)?;
        let plugin = self.plugins.get(choice.index).ok_or_else(|| NoPlugin::NoDefault(spec.task_type.clone()))?;
        Ok((plugin, choice.why))
    }

    /// All plugins, in the order they were added.
    pub fn plugins(&self) -> &[PluginDescription] {
        self.list.plugins()
    }

    /// The kinds of the objects that enabled plugins create.
    pub fn kinds(&self) -> Vec<ResourceKind> {
        self.list.kinds()
    }

    /// Warnings for the operator: plugins that hide one another.
    pub fn warnings(&self) -> &[String] {
        self.list.warnings()
    }
}
