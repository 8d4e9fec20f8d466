//! What a plugin is, and the explicit list of them that an executor is started with.

pub mod core;
pub mod erased;
pub mod k8s;

use std::sync::Arc;

use self::core::CorePlugin;
use self::erased::{AnyK8sPlugin, erase};
use self::k8s::K8sPlugin;

/// How a plugin is known and which task types it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginEntry {
    /// Its name in configuration, logs and errors.
    pub id: &'static str,
    /// The task types it serves.
    pub task_types: Vec<String>,
    /// Serves every task type that nobody else serves.
    pub is_default: bool,
}

impl PluginEntry {
    /// A plugin for these task types and no others.
    pub fn new(id: &'static str, task_types: &[&str]) -> Self {
        Self { id, task_types: task_types.iter().map(ToString::to_string).collect(), is_default: false }
    }

    /// The same plugin, also for every task type that nobody else serves.
    #[must_use]
    pub fn as_default(mut self) -> Self {
        self.is_default = true;
        self
    }
}

/// The plugins of an executor, in the order they were added. A later one wins where two serve the same task type.
#[derive(Clone, Default)]
pub struct PluginSet {
    k8s: Vec<Arc<dyn AnyK8sPlugin>>,
    core: Vec<Arc<dyn CorePlugin>>,
}

impl PluginSet {
    /// No plugins.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a plugin that makes one Kubernetes object per attempt.
    #[must_use]
    pub fn with(mut self, plugin: impl K8sPlugin) -> Self {
        self.k8s.push(erase(plugin));
        self
    }

    /// Adds a plugin that does its own driving.
    #[must_use]
    pub fn with_core(mut self, plugin: impl CorePlugin + 'static) -> Self {
        self.core.push(Arc::new(plugin));
        self
    }

    /// Adds all plugins of another set, in their order.
    #[must_use]
    pub fn with_all(mut self, others: &Self) -> Self {
        self.k8s.extend(others.k8s.iter().cloned());
        self.core.extend(others.core.iter().cloned());
        self
    }

    /// The Kubernetes plugins.
    pub fn k8s(&self) -> &[Arc<dyn AnyK8sPlugin>] {
        &self.k8s
    }

    /// The others.
    pub fn core(&self) -> &[Arc<dyn CorePlugin>] {
        &self.core
    }
}
