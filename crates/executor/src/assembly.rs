//! The executor process: creates all parts, connects them, runs them, and shuts them down in order.
//!
//! To add a watch, add one line to `start_watches`.

mod gauges;
mod leadership;
mod settings;
mod start_checks;

use std::sync::Arc;

use aileron_action::settings::{configured_platform, registry_rules};
use aileron_admission::gate::Gate;
use aileron_admission::pools::Pools;
use aileron_admission::pools::broker::TokenBroker;
use aileron_config::{Config, environment_variables};
use aileron_lease::{Fence, LeaseError};
use aileron_machinery::time::clock::{Clock, SystemClock};
use aileron_machinery::{ObjectPlugin, Platform, PluginError, PluginSet};
use tokio_util::sync::CancellationToken;

pub use aileron_lease::replica_identity;

pub use self::settings::storage_settings;
pub use self::start_checks::{UnusableSetting, unusable_settings};

use self::leadership::{Election, Work, lead};
use crate::caches::Caches;
use crate::caches::memory::MemoryCounts;
use crate::caches::readiness::Readiness;
use crate::caches::templates::TemplateCache;
use crate::cleanup::object_counts::ObjectCounts;
use crate::cleanup::objects::{ObjectCleanup, Policy};
use crate::cluster::kube::Writer;
use crate::cluster::kube::actions::KubeActions;
use crate::cluster::kube::connection::guarded;
use crate::cluster::kube::finalizer::ConflictRetries;
use crate::cluster::kube::objects::KubeObjects;
use crate::cluster::{Actions, Objects};
use crate::controller::{Controller, admission_wakeups};
use crate::manager::ManagerBackends;
use crate::queue::{Queue, QueueWaker};
use crate::reconcile::Reconciler;
use crate::registry::{Backends, LocalSecrets, Registry, RegistryError};
use crate::services::cache::{CacheServiceClient, CatalogClient};
use crate::services::connect::{ConnectClient, ConnectOptions, ConnectSetupError};
use crate::services::events::{BatcherOptions, EventBatcher, EventTransport, EventsClient};
use crate::services::fenced::Fenced;
use crate::status_writer::StatusWriter;
use crate::storage::{BlobStore, ObjectStores, StorageError};
use crate::watch::tokens::{self, KubeTokens};
use crate::watch::{self, Interruptions, Relists, Synced, WatchContext, Watches};

/// The arguments of [`run`].
pub struct RunOptions {
    /// The configuration.
    pub config: Config,
    /// The plugins.
    pub plugins: PluginSet,
    /// The client of the cluster.
    pub client: kube::Client,
    /// The namespace of the executor itself, with its lease and the default pod templates.
    pub namespace: String,
    /// The name of this process. No other replica may have it.
    pub identity: String,
    /// Gets a condition for each watch cache that must be complete.
    pub readiness: Readiness,
    /// Gets the number of entries that the process keeps in memory.
    pub memory: MemoryCounts,
}

/// What the executor works with besides the cluster. A simulation gives its own.
pub struct Services {
    /// Inputs, outputs and error documents of tasks.
    pub store: Arc<dyn BlobStore>,
    /// The events service.
    pub events: Arc<dyn EventTransport>,
    /// The cache service.
    pub task_cache: Arc<dyn CatalogClient>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl Services {
    /// The services that the configuration names.
    ///
    /// # Errors
    /// The storage section or a service address cannot be used.
    pub fn configured(config: &Config) -> Result<Self, RunError> {
        let store: Arc<dyn BlobStore> = Arc::new(ObjectStores::new(storage_settings(&config.storage)?)?);
        let events = connect("executor.EventsServiceURL", &config.executor.events_service_url)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let task_cache = task_cache(config, &store, &clock)?;
        Ok(Self { store, events: Arc::new(EventsClient::new(events)), task_cache, clock })
    }

    /// The same services, written to only while the fence is open.
    fn behind(self, fence: &Fence) -> Self {
        Self {
            store: Arc::new(Fenced::new(self.store, fence.clone())),
            events: Arc::new(Fenced::new(self.events, fence.clone())),
            task_cache: Arc::new(Fenced::new(self.task_cache, fence.clone())),
            clock: self.clock,
        }
    }
}

/// Why the executor could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The storage section cannot be used.
    #[error("storage: {0}")]
    Storage(#[from] StorageError),
    /// The plugin rules of the configuration are not usable.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A plugin cannot be set up.
    #[error("plugin {plugin:?} cannot be set up: {source}")]
    Plugin {
        /// Id of the plugin.
        plugin: Arc<str>,
        /// Why.
        source: PluginError,
    },
    /// The address of a service is not valid.
    #[error("{key}: {source}")]
    Service {
        /// The configuration key.
        key: &'static str,
        /// What is wrong with it.
        source: ConnectSetupError,
    },
    /// A watch ended by itself. Without it the executor would not notice changes.
    #[error("a watch ended unexpectedly; the executor must be started again")]
    Watch,
    /// Another replica leads now. Two leaders would run rounds of the same actions.
    #[error("leadership was lost: {0}")]
    Lease(#[from] LeaseError),
}

/// Runs with the configured services until cancelled. See [`run_with`].
///
/// # Errors
/// The executor could not start, or had to stop.
pub async fn run(options: RunOptions, cancel: CancellationToken) -> Result<(), RunError> {
    let services = Services::configured(&options.config)?;
    run_with(options, services, cancel).await
}

/// Runs until cancelled. Before it returns, rounds in flight end and held statuses are written.
///
/// # Errors
/// The executor could not start, or had to stop.
pub async fn run_with(options: RunOptions, services: Services, cancel: CancellationToken) -> Result<(), RunError> {
    let RunOptions { config, plugins, client, namespace, identity, readiness, memory } = options;
    let fence = if config.executor.leader_elect { Fence::closed() } else { Fence::always_open() };
    let Services { store, events, task_cache, clock } = services.behind(&fence);
    let events = Arc::new(EventBatcher::start(events, BatcherOptions::default()));
    let election = config.executor.leader_elect.then(|| Election {
        client: guarded(client.clone(), Fence::always_open()),
        namespace: namespace.clone(),
        identity,
        take_over: config.executor.leader_elect_take_over,
        fence: fence.clone(),
    });
    let client = guarded(client, fence);

    // Caches and writes.
    let caches = Caches::new(&namespace);
    let queue = Arc::new(Queue::default());
    let writer = Writer::new(client.clone());
    let kube_objects = KubeObjects::new(writer.clone(), caches.clone(), Arc::clone(&clock));
    let kube_objects = Arc::new(kube_objects.with_conflict_retries(ConflictRetries::of(&config.plugins.k8s)));
    let objects: Arc<dyn Objects> = Arc::clone(&kube_objects) as _;

    // Admission and plugins.
    let waker = || QueueWaker { action_store: Arc::clone(&caches.actions), queue: Arc::clone(&queue) };
    let gate = Arc::new(Gate::new(settings::gate_settings(&config), Box::new(waker()), Arc::clone(&clock)));
    let pools = Arc::new(Pools::new(settings::token_pools(&config)));
    let tokens = (!pools.is_empty()).then(|| TokenBroker {
        pools: Arc::clone(&pools),
        store: Arc::new(KubeTokens::new(client.clone())),
        waker: Arc::new(waker()),
        clock: Arc::clone(&clock),
    });
    let backends = Backends {
        manager: ManagerBackends {
            objects: Arc::clone(&objects),
            store: Arc::clone(&store),
            gate: Arc::clone(&gate),
            tokens,
            clock: Arc::clone(&clock),
        },
        secrets: Arc::new(LocalSecrets::new(&config.secrets, environment_variables())),
        waker: Arc::new(waker()),
    };
    let registry = Arc::new(Registry::new(&plugins, &registry_rules(&config), &backends)?);
    registry.set_up().await.map_err(|(plugin, source)| RunError::Plugin { plugin, source })?;
    for warning in registry.warnings() {
        tracing::info!("{warning}");
    }
    let enabled = enabled_plugins(&plugins, &registry);

    // The watches stop after the controller, so that the last rounds still see changes.
    let watch = WatchContext {
        client,
        caches: caches.clone(),
        queue: Arc::clone(&queue),
        objects: kube_objects,
        clock: Arc::clone(&clock),
        synced: Synced::new(readiness),
        relists: Relists::default(),
        interruptions: Interruptions::default(),
        cancel: CancellationToken::new(),
    };
    // Also if this future is dropped, or ends early.
    let _stop_watches = watch.cancel.clone().drop_guard();
    let watches = start_watches(&config, &watch, &enabled, &gate, &pools);
    let counted = gauges::Counted {
        objects: ObjectCounts::new(caches.clone(), Arc::clone(&registry)),
        gate: Arc::clone(&gate),
        pools: Arc::clone(&pools),
        memory,
    };
    watches.add_background(|cx| gauges::run(cx, counted));

    // Reconciling.
    let actions: Arc<dyn Actions> = Arc::new(KubeActions::new(writer, Arc::clone(&caches.actions)));
    let cluster = config.executor.cluster.clone();
    let statuses = StatusWriter::new(Arc::clone(&actions), Arc::clone(&events) as _, Arc::clone(&clock), cluster);
    let statuses = Arc::new(statuses.holding_in(Arc::clone(&caches.actions) as _));
    let reconciler = Arc::new(Reconciler {
        registry,
        actions,
        statuses: Arc::clone(&statuses),
        store,
        catalog: Some(task_cache),
        clock: Arc::clone(&clock),
        settings: settings::settings(&config),
        platform: platform(&config, Arc::clone(&caches.pod_templates)),
    });
    let controller = Arc::new(Controller {
        reconciler,
        action_store: Arc::clone(&caches.actions),
        queue,
        statuses,
        max_rounds: usize::try_from(config.executor.max_concurrent_reconciles).unwrap_or(1),
    });
    let gc = &config.executor.gc;
    let gc_interval = gc.interval.to_std().filter(|interval| !interval.is_zero());
    let work = Work {
        object_cleanup: ObjectCleanup {
            client: watch.client.clone(),
            objects,
            pods: Arc::clone(&caches.pods),
            others: Arc::clone(&caches.objects),
            action_store: caches.actions,
            plugins: enabled,
            policy: Policy::of(&config.plugins.k8s),
            clock: Arc::clone(&clock),
        },
        watch,
        controller,
        events,
        pools,
        action_cleanup: gc_interval.map(|interval| (interval, jiff::SignedDuration::from_nanos(gc.max_ttl.as_nanos()))),
    };
    tokio::select! {
        biased;
        result = lead(work, election, &cancel) => result?,
        () = watches.ended() => return Err(RunError::Watch),
    }
    watches.stop().await;
    Ok(())
}

/// Starts all watches.
fn start_watches(
    config: &Config,
    cx: &WatchContext,
    plugins: &[Arc<dyn ObjectPlugin>],
    gate: &Arc<Gate>,
    pools: &Arc<Pools>,
) -> Watches {
    let watches = Watches::new(cx.clone());
    watches.add(watch::actions::NAME, watch::actions::run);
    watches.add(watch::ended::NAME, watch::ended::run);
    watches.add(watch::pods::NAME, watch::pods::run);
    watches.add(watch::templates::NAME, watch::templates::run);
    watches.add(watch::events::NAME, watch::events::run);
    watches.add_background(|cx| watch::kinds::run(cx, plugins.to_vec()));
    if config.tasks.launch_gate.local_admission {
        watches.add(watch::quotas::NAME, |cx| watch::quotas::run(cx, Arc::clone(gate)));
    }
    if !pools.is_empty() {
        watches.add(tokens::NAME, |cx| tokens::watch(cx, Arc::clone(pools)));
    }
    watches.add_background(|cx| admission_wakeups::run(Arc::clone(gate), cx.clock, cx.cancel));
    watches
}

/// The Kubernetes plugins that the configuration enables.
fn enabled_plugins(plugins: &PluginSet, registry: &Registry) -> Vec<Arc<dyn ObjectPlugin>> {
    let kinds = registry.kinds();
    plugins.k8s().iter().filter(|plugin| kinds.contains(&plugin.kind())).cloned().collect()
}

fn task_cache(
    config: &Config,
    store: &Arc<dyn BlobStore>,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn CatalogClient>, RunError> {
    let service = connect("executor.cacheServiceURL", &config.executor.cache_service_url)?;
    let max_age = config.plugins.catalog_cache.max_cache_age.to_std().filter(|age| !age.is_zero());
    Ok(Arc::new(CacheServiceClient::new(service, Arc::clone(store), max_age, Arc::clone(clock))))
}

fn connect(key: &'static str, url: &str) -> Result<ConnectClient, RunError> {
    ConnectClient::new(url, ConnectOptions::default()).map_err(|source| RunError::Service { key, source })
}

/// Returns a function that returns the current platform. The configuration does not change; the pod templates do.
fn platform(config: &Config, templates: Arc<TemplateCache>) -> Arc<dyn Fn() -> Platform + Send + Sync> {
    let fixed = configured_platform(config, environment_variables());
    Arc::new(move || Platform { pod_templates: templates.snapshot(), ..fixed.clone() })
}
