//! What the platform brings to every task: configuration and cluster-wide defaults, as values.

mod copilot_storage;
mod pod_templates;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::{K8sConfig, LogConfig};

pub use copilot_storage::CopilotStorage;
pub use pod_templates::PodTemplates;

/// Everything a plugin may know about the installation it runs in. Cheap to clone; never changed in place.
///
/// ```
/// use std::sync::Arc;
/// use aileron_machinery::Platform;
/// use aileron_machinery::config::LogConfig;
/// use aileron_machinery::testing::task;
/// # use aileron_machinery::serde_json::Value;
///
/// let mut task = task("batch", &Value::Null);
/// task.platform = Platform { logs: Arc::new(LogConfig::kubernetes()), ..Platform::default() };
/// assert!(task.platform.logs.kubernetes_enabled);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Platform {
    /// Section `plugins.k8s`.
    pub k8s: Arc<K8sConfig>,
    /// Section `plugins.logs`.
    pub logs: Arc<LogConfig>,
    /// The pod templates seen in the cluster.
    pub pod_templates: Arc<PodTemplates>,
    /// How a co-pilot container reaches the same storage as the executor.
    pub copilot_storage: Arc<CopilotStorage>,
    /// The executor's own environment, for `default-env-vars-from-env`.
    pub environment: Arc<BTreeMap<String, String>>,
}
