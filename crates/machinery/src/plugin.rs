//! What a plugin is, and the explicit list of them that an executor is started with.
//!
//! | form | for |
//! | --- | --- |
//! | [`k8s`] | authors: one typed Kubernetes object per attempt; pure, synchronous functions |
//! | [`object_plugin`] | the same without the type: asynchronous, over JSON and kinds known at run time |
//! | [`core`] | plugins without an object, which do their own driving |
//! | [`sources`] | the list of plugins before the configuration is known |
//! | [`section`] | the sections of the configuration that plugins own |

pub mod behavior;
pub mod core;
pub mod custom_resource;
pub mod ended;
pub mod k8s;
pub mod kind;
pub mod object;
pub mod object_plugin;
pub mod section;
pub mod services;
pub mod sources;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::core::CorePlugin;
use self::k8s::K8sPlugin;
use self::object_plugin::{ObjectPlugin, erase};

/// How a plugin is known and which task types it serves.
///
/// ```
/// use aileron_machinery::PluginEntry;
///
/// let entry = PluginEntry::new("kettles", &["kettle", "kettle-v0"]);
/// assert_eq!(entry.task_types, ["kettle", "kettle-v0"]);
/// assert!(!entry.is_default && PluginEntry::new("container", &["container"]).as_default().is_default);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginEntry {
    /// Its name in configuration, logs and errors.
    pub id: Arc<str>,
    /// The task types it serves.
    pub task_types: Vec<String>,
    /// Serves every task type that no other plugin serves.
    #[serde(default)]
    pub is_default: bool,
}

impl PluginEntry {
    /// A plugin for these task types and no others.
    pub fn new(id: impl Into<Arc<str>>, task_types: &[&str]) -> Self {
        Self { id: id.into(), task_types: task_types.iter().map(ToString::to_string).collect(), is_default: false }
    }

    /// The same plugin, also for every task type that no other plugin serves.
    #[must_use]
    pub fn as_default(mut self) -> Self {
        self.is_default = true;
        self
    }
}

/// The plugins of an executor, in the order they were added. A later one wins where two serve the same task type.
///
/// ```
/// # use aileron_machinery::{k8s_openapi::api::core::v1::Pod, *};
/// # struct Kettles;
/// # impl K8sPlugin for Kettles {
/// #     type Resource = Pod;
/// #     fn entry(&self) -> PluginEntry { PluginEntry::new("kettles", &["kettle"]) }
/// #     fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> { Ok(Pod::default()) }
/// #     fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
/// #         Ok(PhaseInfo::undefined())
/// #     }
/// # }
/// use aileron_machinery::{PluginSet, erase};
///
/// let plugins = PluginSet::new().with(Kettles).with_object_plugin(erase(Kettles));
/// assert_eq!(plugins.k8s().len(), 2);
/// assert_eq!(&*plugins.k8s()[0].entry().id, "kettles");
/// ```
#[derive(Clone, Default)]
pub struct PluginSet {
    k8s: Vec<Arc<dyn ObjectPlugin>>,
    core: Vec<Arc<dyn CorePlugin>>,
}

impl PluginSet {
    /// No plugins.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a plugin that makes one Kubernetes object per attempt.
    #[must_use]
    pub fn with(self, plugin: impl K8sPlugin) -> Self {
        self.with_object_plugin(erase(plugin))
    }

    /// Adds a plugin whose kind of object is known only at run time.
    #[must_use]
    pub fn with_object_plugin(mut self, plugin: Arc<dyn ObjectPlugin>) -> Self {
        self.k8s.push(plugin);
        self
    }

    /// Adds a plugin that does its own driving.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use aileron_machinery::{CorePlugin, PluginSet};
    /// # use aileron_machinery::{CoreRequest, CoreStep, PhaseInfo, PluginEntry, PluginError, TaskInfo};
    ///
    /// struct Noop;
    /// # #[aileron_machinery::async_trait]
    /// # impl CorePlugin for Noop {
    /// #     fn entry(&self) -> PluginEntry { PluginEntry::new("noop", &["noop"]) }
    /// #     async fn handle(&self, request: &CoreRequest<'_>) -> Result<CoreStep, PluginError> {
    /// #         Ok(CoreStep::of(PhaseInfo::success(TaskInfo::at(request.task.now))))
    /// #     }
    /// #     async fn abort(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> { Ok(()) }
    /// #     async fn finalize(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> { Ok(()) }
    /// # }
    /// // `impl CorePlugin for Noop` is left out here.
    /// let shared: Arc<dyn CorePlugin> = Arc::new(Noop);
    /// let plugins = PluginSet::new().with_core(Noop).with_core_plugin(shared);
    /// assert_eq!(plugins.core().len(), 2);
    /// ```
    #[must_use]
    pub fn with_core(self, plugin: impl CorePlugin + 'static) -> Self {
        self.with_core_plugin(Arc::new(plugin))
    }

    /// Adds a plugin that does its own driving and is shared.
    #[must_use]
    pub fn with_core_plugin(mut self, plugin: Arc<dyn CorePlugin>) -> Self {
        self.core.push(plugin);
        self
    }

    /// The Kubernetes plugins.
    pub fn k8s(&self) -> &[Arc<dyn ObjectPlugin>] {
        &self.k8s
    }

    /// The others.
    pub fn core(&self) -> &[Arc<dyn CorePlugin>] {
        &self.core
    }
}
