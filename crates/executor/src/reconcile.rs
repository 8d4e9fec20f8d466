//! One round for one action, as stages: `fetch → validate → resolve → drive → record`.
//!
//! The controller fetches; here an action comes in and what it needs next is done. Each stage is a file with its own
//! errors. What is decided depends on the action, the clock and the answers of the cluster, storage and services, all
//! of which are values or traits, so a whole life of an action can be played in a test.

mod abort;
mod cache;
mod chosen;
mod conditions;
mod drive;
mod limits;
mod patience;
mod record;
mod retry;
pub(crate) mod validate;

use std::sync::Arc;

use aileron_machinery::{CorePlugin, Platform, TaskContext};
use jiff::{SignedDuration, Timestamp};

use crate::action::metadata::{MetadataError, MetadataSettings, task_metadata, task_paths};
use crate::action::{ACTION_TYPE_CONDITION, Action, FINALIZER, TaskActionStatus, Template};
use crate::catalog::CatalogClient;
use crate::clock::Clock;
use crate::cluster::{Actions, ApiError, Objects};
use crate::error_text::innermost;
use crate::events::EventSink;
use crate::registry::{Registry, Why};
use crate::storage::BlobStore;

pub use chosen::PLUGIN_CHOSEN;
pub use record::status_changed;

/// What an operator may set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `executor.cluster`: named in events.
    pub cluster: String,
    /// `executor.maxSystemFailures`: platform failures that an action survives.
    pub max_system_failures: u32,
    /// `executor.requeueDuration`: how long to wait before trying again what failed.
    pub requeue: SignedDuration,
    /// `executor.missingKindTimeout`: how long a task waits for a kind that the cluster does not serve; zero: for ever.
    pub missing_kind_timeout: SignedDuration,
    /// Settings of metadata.
    pub metadata: MetadataSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cluster: String::new(),
            max_system_failures: 3,
            requeue: SignedDuration::from_secs(10),
            missing_kind_timeout: SignedDuration::from_mins(10),
            metadata: MetadataSettings::default(),
        }
    }
}

/// When an action wants to be looked at again, apart from any change that is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Never: it has ended, or only somebody else can move it.
    Never,
    /// At once: this round did one step of several.
    Now,
    /// Only a change matters. A slow look from time to time guards against a change that was missed.
    OnChange,
    /// After a pause: something failed that may work later.
    Retry(SignedDuration),
    /// At this moment something is due.
    At(Timestamp),
}

/// The round could not be finished; everything done so far may be done again.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// A write to the action was refused.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The event could not be recorded, so the status was not written.
    #[error("{}", innermost(.0))]
    Event(#[from] crate::events::EventError),
}

/// Everything a round depends on.
pub struct Reconciler {
    /// Plugins by task type.
    pub registry: Arc<Registry>,
    /// The actions.
    pub actions: Arc<dyn Actions>,
    /// The objects of plugins.
    pub objects: Arc<dyn Objects>,
    /// Inputs, outputs and error documents.
    pub store: Arc<dyn BlobStore>,
    /// The events service.
    pub events: Arc<dyn EventSink>,
    /// The cache service, if there is one.
    pub catalog: Option<Arc<dyn CatalogClient>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What an operator may set.
    pub settings: Settings,
    /// What the platform brings to every task, as it is now.
    pub platform: Arc<dyn Fn() -> Platform + Send + Sync>,
}

impl Reconciler {
    /// One round. `Ok` tells when the action wants to be looked at again.
    pub async fn reconcile(&self, action: &Action) -> Result<Wake, ReconcileError> {
        let object = &action.object;
        if object.metadata.deletion_timestamp.is_some() {
            return self.abort(action).await;
        }
        if object.status.as_ref().is_some_and(TaskActionStatus::is_terminal) {
            self.label_terminal(action, &action.status()).await?;
            return Ok(Wake::Never);
        }
        if object.spec.action_type == ACTION_TYPE_CONDITION {
            return self.condition(action).await;
        }
        let (plugin, why) = match validate::validate(action, &self.registry) {
            Ok((plugin, why)) => (Arc::clone(plugin), why),
            Err(invalid) => return self.reject(action, &invalid).await,
        };
        if !has_finalizer(action) {
            self.actions.add_finalizer(action).await?;
            let id = plugin_id(plugin.as_ref());
            metrics::counter!("aileron_actions_taken_total", "plugin" => id.clone(), "why" => why.as_str())
                .increment(1);
            if why == Why::Declared {
                tracing::debug!(plugin = id, %why, "taken");
            } else {
                tracing::info!(plugin = id, %why, "taken");
            }
            return Ok(Wake::Now);
        }
        self.drive(action, plugin.as_ref()).await
    }

    /// The attempt as its plugin sees it.
    fn task_context(&self, action: &Action) -> Result<TaskContext, MetadataError> {
        let template = match &action.template {
            Template::Decoded(template) => Arc::clone(template),
            Template::Absent | Template::Unreadable(_) => Arc::default(),
        };
        let metadata = task_metadata(action, &self.settings.metadata)?;
        Ok(TaskContext::new(template, metadata, task_paths(action)?, (self.platform)(), self.clock.now()))
    }

    /// The pause before something that failed is tried again.
    fn requeue(&self) -> SignedDuration {
        if self.settings.requeue.is_positive() { self.settings.requeue } else { Settings::default().requeue }
    }
}

fn has_finalizer(action: &Action) -> bool {
    action.object.metadata.finalizers.as_deref().unwrap_or_default().iter().any(|name| name == FINALIZER)
}

/// The name under which a plugin is known.
fn plugin_id(plugin: &dyn CorePlugin) -> String {
    plugin.entry().id.to_string()
}
