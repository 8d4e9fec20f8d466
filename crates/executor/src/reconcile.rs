//! One round for one action: gather facts, decide, apply.
//!
//! The controller passes an action. The round decides what kind of work it needs (`start`), and then for a task: asks
//! the cache and the plugin (`drive`), decides on plain values (`decide`) and carries the decision out (`apply`).
//! Decisions depend on the action, the time and the answers of the cluster, storage and services. All of these are
//! values or traits, so a test can play the whole life of an action.

mod abort;
mod apply;
mod cache;
mod condition_action;
mod decide;
mod drive;
mod limits;
mod missing_kind;
mod outage;
mod plugin_call;
mod plugin_condition;
mod start;
pub(crate) mod validate;

use std::sync::Arc;

use aileron_action::metadata::{MetadataError, MetadataSettings, task_metadata, task_paths};
use aileron_action::{ACTION_FINALIZER, Action, Template};
use aileron_kubekit::ApiError;
use aileron_machinery::time::clock::Clock;
use aileron_machinery::{CorePlugin, Platform, TaskContext};
use jiff::{SignedDuration, Timestamp};

use self::start::{Start, decide_start};
use crate::cluster::Actions;
use crate::registry::{Registry, Why};
use crate::services::cache::CatalogClient;
use crate::status_writer::{RecordError, StatusWriter};
use crate::storage::BlobStore;

pub use plugin_condition::PLUGIN_CHOSEN;

/// The part of the configuration that decisions depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `executor.maxSystemFailures`: how many failures of the platform an action survives; zero means the default.
    pub max_system_failures: u32,
    /// `executor.requeueDuration`: the pause before something that failed is tried again; zero means the default.
    pub requeue: SignedDuration,
    /// `executor.missingKindTimeout`: how long a task waits for a kind that the cluster does not serve; zero means
    /// without limit.
    pub missing_kind_timeout: SignedDuration,
    /// The settings that the metadata of an attempt depends on.
    pub metadata: MetadataSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_system_failures: 3,
            requeue: SignedDuration::from_secs(10),
            missing_kind_timeout: SignedDuration::from_mins(10),
            metadata: MetadataSettings::default(),
        }
    }
}

impl Settings {
    /// How many failures of the platform an action survives.
    fn max_system_failures(&self) -> u32 {
        match self.max_system_failures {
            0 => Self::default().max_system_failures,
            allowed => allowed,
        }
    }

    /// The pause before something that failed is tried again.
    fn requeue(&self) -> SignedDuration {
        if self.requeue.is_positive() { self.requeue } else { Self::default().requeue }
    }
}

/// When the next round of an action is due. A change of the action or of its objects always starts a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Only after a change: the action has ended, or waits for something outside the executor.
    Never,
    /// At once: this round did one step of several.
    Now,
    /// After a change. A slow periodic round guards against a change that was missed.
    OnChange,
    /// After a pause: something failed that may work later.
    Retry(SignedDuration),
    /// At this time, when a timer of the action expires.
    At(Timestamp),
}

/// The round could not be finished. It is done again; every step may be repeated.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The API server refused a write to the action.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The status could not be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Everything a round depends on.
pub struct Reconciler {
    /// Plugins by task type.
    pub registry: Arc<Registry>,
    /// Writes finalizers and warnings of actions.
    pub actions: Arc<dyn Actions>,
    /// Records events and statuses of actions.
    pub statuses: Arc<StatusWriter>,
    /// Inputs, outputs and error documents.
    pub store: Arc<dyn BlobStore>,
    /// The cache service, if there is one.
    pub catalog: Option<Arc<dyn CatalogClient>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The part of the configuration that decisions depend on.
    pub settings: Settings,
    /// What the platform adds to every task, as it is now.
    pub platform: Arc<dyn Fn() -> Platform + Send + Sync>,
}

impl Reconciler {
    /// One round. Returns when the next one is due.
    pub async fn reconcile(&self, action: &Action) -> Result<Wake, ReconcileError> {
        let plugin = self.registry.resolve(&action.object.spec).map(|(plugin, why)| (Arc::clone(plugin), why));
        match decide_start(action, plugin) {
            Start::Abort => self.abort(action).await,
            Start::Label => {
                self.statuses.label_if_ended(action, &action.status()).await?;
                Ok(Wake::Never)
            }
            Start::Condition => self.reconcile_condition(action).await,
            Start::Reject(invalid) => self.reject(action, &invalid).await,
            Start::TakeOver { plugin, why } => self.take_over(action, plugin.as_ref(), why).await,
            Start::Drive { plugin, why } => self.drive(action, plugin.as_ref(), why).await,
        }
    }

    /// Adds our finalizer, so that the action stays until its objects are stopped.
    async fn take_over(&self, action: &Action, plugin: &dyn CorePlugin, why: Why) -> Result<Wake, ReconcileError> {
        self.actions.add_finalizer(action).await?;
        let id = plugin.entry().id.to_owned();
        if why == Why::Declared {
            tracing::debug!(plugin = %id, %why, "taken");
        } else {
            tracing::info!(plugin = %id, %why, "taken");
        }
        metrics::counter!("aileron_actions_taken_total", "plugin" => id, "why" => why.as_str()).increment(1);
        Ok(Wake::Now)
    }

    /// The attempt as its plugin sees it.
    fn task_context(&self, action: &Action, now: Timestamp) -> Result<TaskContext, MetadataError> {
        let template = match &action.template {
            Template::Decoded(template) => Arc::clone(template),
            Template::Absent | Template::Unreadable(_) => Arc::default(),
        };
        let metadata = task_metadata(action, &self.settings.metadata)?;
        Ok(TaskContext::new(template, metadata, task_paths(action)?, (self.platform)(), now))
    }
}

fn has_finalizer(action: &Action) -> bool {
    action.object.metadata.finalizers.as_deref().unwrap_or_default().iter().any(|name| name == ACTION_FINALIZER)
}
