//! The whole executor: everything wired together, from start to a clean end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aileron_action::settings::{configured_platform, metadata_settings, registry_rules};
use aileron_admission::backoff::BackoffSettings;
use aileron_admission::gate::{Gate, GateSettings};
use aileron_admission::pools::broker::TokenBroker;
use aileron_admission::pools::limits::Limits;
use aileron_admission::pools::{Pool, Pools};
use aileron_config::Config;
use aileron_config::sections::pools::PoolConfig;
use aileron_machinery::clock::SystemClock;
use aileron_machinery::config::StorageConfig;
use aileron_machinery::{Platform, PluginSet};
use aileron_plugins::spark::crd::{CRD_NAME as SPARK_DEFINITION, PodTemplateSupport};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::caches::actions::ActionStore;
use crate::caches::events::EventCache;
use crate::caches::objects::ObjectCache;
use crate::caches::pods::PodCache;
use crate::caches::readiness::Readiness;
use crate::caches::templates::TemplateCache;
use crate::cleanup;
use crate::cleanup::object_counts::Monitor;
use crate::cleanup::objects::{Policy, Reaper};
use crate::cluster::Objects;
use crate::cluster::kube::Writer;
use crate::cluster::kube::actions::KubeActions;
use crate::cluster::kube::finalizer::Persistence;
use crate::cluster::kube::objects::KubeObjects;
use crate::controller::{Controller, admission_wakeups};
use crate::lease::{Elector, LeaseConfig, LeaseError};
use crate::queue::Queue;
use crate::queue::QueueWaker;
use crate::reconcile::{Reconciler, Settings};
use crate::registry::{Registry, RegistryError};
use crate::services::cache::{CacheServiceClient, CatalogClient};
use crate::services::connect::{ConnectClient, ConnectOptions, ConnectSetupError};
use crate::services::events::{BatcherOptions, EventBatcher, EventsClient};
use crate::storage::{Backend, BlobStore, ObjectStores, SchemeSettings, StorageError, StorageSettings};
use crate::tokens;
use crate::tokens::KubeTokens;
use crate::watch::kinds::Observer;
use crate::watch::{self, Synced};

/// How often gauges that are counted, not kept, are brought up to date.
const GAUGES: Duration = Duration::from_secs(10);

/// How long the last events may take at the end of the process; Kubernetes grants 30 s in all.
const EVENTS_GRACE: Duration = Duration::from_secs(10);

/// What an executor is started with.
pub struct RunOptions {
    /// The configuration.
    pub config: Config,
    /// The plugins.
    pub plugins: PluginSet,
    /// The cluster.
    pub client: kube::Client,
    /// Namespace of the executor itself: its lease and the default pod templates are there.
    pub namespace: String,
    /// Name of this process among its replicas.
    pub identity: String,
    /// Told when caches are complete.
    pub readiness: Readiness,
    /// Told what the cluster's Spark definition knows; the plugin has a clone.
    pub spark_pod_templates: PodTemplateSupport,
}

/// The executor could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The storage section cannot be used.
    #[error("storage: {0}")]
    Storage(#[from] StorageError),
    /// The plugin rules cannot be followed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A service address is not one.
    #[error("{key}: {source}")]
    Service {
        /// The configuration key.
        key: &'static str,
        /// What is wrong with it.
        source: ConnectSetupError,
    },
    /// A watch ended by itself; without it the executor would be blind.
    #[error("a watch ended unexpectedly; the executor must be started again")]
    Watch,
    /// Another replica leads now; going on would mean two at work.
    #[error("leadership was lost: {0}")]
    Lease(#[from] LeaseError),
}

/// Runs until cancelled; then lets rounds under way end and what is held be written.
pub async fn run(options: RunOptions, cancel: CancellationToken) -> Result<(), RunError> {
    let RunOptions { config, plugins, client, namespace, identity, readiness, spark_pod_templates } = options;
    let store: Arc<dyn BlobStore> = Arc::new(ObjectStores::new(storage_settings(&config.storage)?)?);
    let events = connect("executor.EventsServiceURL", &config.executor.events_service_url)?;
    let events = Arc::new(EventBatcher::start(Arc::new(EventsClient::new(events)), BatcherOptions::default()));
    let cache = connect("executor.cacheServiceURL", &config.executor.cache_service_url)?;
    let max_age = config.plugins.catalog_cache.max_cache_age.to_std();
    let catalog: Arc<dyn CatalogClient> =
        Arc::new(CacheServiceClient::new(cache, Arc::clone(&store), max_age.filter(|age| !age.is_zero())));

    let memory = Arc::new(ActionStore::default());
    let queue = Arc::new(Queue::default());
    let writer = Writer::new(client.clone());
    let pods = Arc::new(PodCache::default());
    let object_events = Arc::new(EventCache::default());
    let templates = Arc::new(TemplateCache::new(&namespace));
    let others = Arc::new(ObjectCache::default());
    let kube_objects =
        KubeObjects::new(writer.clone(), Arc::clone(&pods), Arc::clone(&others), Arc::clone(&object_events));
    let kube_objects = Arc::new(kube_objects.with_persistence(Persistence::of(&config.plugins.k8s)));
    let objects: Arc<dyn Objects> = Arc::clone(&kube_objects) as _;
    let waker = QueueWaker { memory: Arc::clone(&memory), queue: Arc::clone(&queue) };
    let gate = Arc::new(Gate::new(gate_settings(&config), Box::new(waker), Arc::new(SystemClock)));
    let pools = Arc::new(Pools::new(token_pools(&config)));
    let tokens = (!pools.is_empty()).then(|| TokenBroker {
        pools: Arc::clone(&pools),
        store: Arc::new(KubeTokens::new(client.clone())),
        waker: Arc::new(QueueWaker { memory: Arc::clone(&memory), queue: Arc::clone(&queue) }),
        clock: Arc::new(SystemClock),
    });
    let registry =
        Arc::new(Registry::new(&plugins, &registry_rules(&config), &objects, &store, &gate, tokens.as_ref())?);
    for slip in registry.slips() {
        tracing::warn!("{slip}");
    }
    for warning in registry.warnings() {
        tracing::info!("{warning}");
    }

    // Watches outlive the controller, so that the last rounds still see what happens.
    let watches = TaskTracker::new();
    let stop_watches = CancellationToken::new();
    let mut names =
        vec![watch::actions::NAME, watch::ended::NAME, watch::pods::NAME, watch::templates::NAME, watch::events::NAME];
    let local_admission = config.tasks.launch_gate.local_admission;
    names.extend((!pools.is_empty()).then_some(tokens::NAME));
    names.extend(local_admission.then_some(watch::quotas::NAME));
    let synced = Synced::new(readiness, &names);
    let event_feed = watch::events::EventFeed {
        events: Arc::clone(&object_events),
        pods: Arc::clone(&pods),
        others: Arc::clone(&others),
        memory: Arc::clone(&memory),
        queue: Arc::clone(&queue),
    };
    let others_seen = Arc::clone(&others);
    let monitored = Arc::clone(&others);
    let kind_feed = watch::kinds::KindFeed {
        cache: others,
        objects: Arc::clone(&kube_objects),
        queue: Arc::clone(&queue),
        memory: Arc::clone(&memory),
        events: event_feed.clone(),
        observers: [(
            SPARK_DEFINITION,
            Arc::new(move |definition: Option<&CustomResourceDefinition>| spark_pod_templates.observe(definition))
                as Observer,
        )]
        .into(),
    };
    let pod_feed = watch::pods::PodFeed {
        pods: Arc::clone(&pods),
        events: object_events,
        objects: kube_objects,
        queue: Arc::clone(&queue),
        memory: Arc::clone(&memory),
    };
    let (memory_1, memory_2) = (Arc::clone(&memory), Arc::clone(&memory));
    let (queue_1, queue_2) = (Arc::clone(&queue), Arc::clone(&queue));
    let stop = || stop_watches.clone();
    let watch_ended = CancellationToken::new();
    let follow = |watch: BoxFuture<'static, ()>| {
        // Dropped when the watch ends, in whatever way.
        let ended = watch_ended.clone().drop_guard();
        watches.spawn(async move {
            watch.await;
            drop(ended);
        });
    };
    follow(watch::actions::run(client.clone(), memory_1, queue_1, synced.clone(), stop()).boxed());
    follow(watch::ended::run(client.clone(), memory_2, queue_2, synced.clone(), stop()).boxed());
    follow(watch::pods::run(client.clone(), pod_feed, synced.clone(), stop()).boxed());
    follow(watch::events::run(client.clone(), event_feed, synced.clone(), stop()).boxed());
    let enabled = registry.kinds();
    let reaper = Reaper {
        client: client.clone(),
        objects: Arc::clone(&objects),
        pods: Arc::clone(&pods),
        others: Arc::clone(&others_seen),
        memory: Arc::clone(&memory),
        plugins: plugins.k8s().iter().filter(|plugin| enabled.contains(&plugin.kind())).cloned().collect(),
        policy: Policy::of(&config.plugins.k8s),
    };
    let watched = plugins.k8s().iter().filter(|plugin| enabled.contains(&plugin.kind())).cloned().collect();
    follow(watch::kinds::run(client.clone(), watched, kind_feed, synced.clone(), stop()).boxed());
    if local_admission {
        follow(watch::quotas::run(client.clone(), Arc::clone(&gate), synced.clone(), stop()).boxed());
    }
    watches.spawn(admission_wakeups::run(gate, Arc::new(SystemClock), stop()));
    if !pools.is_empty() {
        let (pools, queue) = (Arc::clone(&pools), Arc::clone(&queue));
        follow(tokens::run(client.clone(), pools, queue, synced.clone(), stop()).boxed());
    }
    let (cached, home) = (Arc::clone(&templates), namespace.clone());
    follow(watch::templates::run(client.clone(), cached, home, synced.clone(), stop()).boxed());
    let monitor = Monitor::new(Arc::clone(&memory), pods, monitored, Arc::clone(&registry));
    watches.spawn(gauges(Arc::clone(&memory), monitor, Arc::clone(&queue), stop()));

    let kube_actions = Arc::new(KubeActions::new(writer, Arc::clone(&memory)));
    let reconciler = Arc::new(Reconciler {
        registry,
        actions: Arc::clone(&kube_actions) as _,
        objects,
        store,
        events: Arc::clone(&events) as _,
        catalog: Some(catalog),
        clock: Arc::new(SystemClock),
        settings: settings(&config),
        platform: platform(&config, templates),
    });
    let controller = Arc::new(Controller {
        reconciler,
        memory,
        queue,
        actions: kube_actions,
        max_rounds: usize::try_from(config.executor.max_concurrent_reconciles).unwrap_or(1),
    });

    let work = Work { synced, controller, reaper: Arc::new(reaper), pools };
    tokio::select! {
        result = lead(&config, client, &namespace, identity, work, &cancel) => result?,
        () = watch_ended.cancelled() => return Err(RunError::Watch),
    }
    if !events.shutdown(EVENTS_GRACE).await {
        tracing::warn!("some events were not recorded before the end; their actions will record them again");
    }
    stop_watches.cancel();
    watches.close();
    watches.wait().await;
    Ok(())
}

/// What only the one that leads does.
#[derive(Clone)]
struct Work {
    synced: Synced,
    controller: Arc<Controller>,
    reaper: Arc<Reaper>,
    pools: Arc<Pools>,
}

/// Works, as the only one if leader election is on.
async fn lead(
    config: &Config,
    client: kube::Client,
    namespace: &str,
    identity: String,
    work: Work,
    cancel: &CancellationToken,
) -> Result<(), RunError> {
    let work = |stop: CancellationToken| {
        let gc = &config.executor.gc;
        let interval = gc.interval.to_std().filter(|interval| !interval.is_zero());
        let max_ttl = SignedDuration::from_nanos(gc.max_ttl.as_nanos());
        let client = client.clone();
        let Work { synced, controller, reaper, pools } = work.clone();
        let memory = Arc::clone(&controller.memory);
        async move {
            tokio::select! {
                () = stop.cancelled() => return,
                () = synced.all() => {}
            }
            tracing::info!("caches are complete; working");
            let queue = Arc::clone(&controller.queue);
            let give_back = tokens::give_back(client.clone(), pools, memory, queue, stop.clone());
            let collect = async {
                if let Some(interval) = interval {
                    cleanup::actions::run(client, interval, max_ttl, stop.clone()).await;
                }
            };
            tokio::join!(controller.run(stop.clone()), collect, reaper.run(stop.clone()), give_back);
        }
    };
    if !config.executor.leader_elect {
        work(cancel.child_token()).await;
        return Ok(());
    }
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let mut elector = Elector::new(leases, LeaseConfig::new(identity));
    if !elector.acquire(cancel).await {
        return Ok(());
    }
    // The lease is given back only after the work has ended, or two would be at work for a moment. If it is lost,
    // nothing more is written: what is under way ends with the process, and the other replica decides anew.
    let release = CancellationToken::new();
    let mut holding = std::pin::pin!(elector.hold(&release));
    tokio::select! {
        held = &mut holding => return Ok(held?),
        () = work(cancel.child_token()) => {}
    }
    release.cancel();
    Ok(holding.await?)
}

fn connect(key: &'static str, url: &str) -> Result<ConnectClient, RunError> {
    ConnectClient::new(url, ConnectOptions::default()).map_err(|source| RunError::Service { key, source })
}

pub(crate) fn settings(config: &Config) -> Settings {
    let executor = &config.executor;
    Settings {
        cluster: executor.cluster.clone(),
        max_system_failures: u32::try_from(executor.max_system_failures).unwrap_or_default(),
        requeue: SignedDuration::from_nanos(executor.requeue_duration.as_nanos()),
        missing_kind_timeout: SignedDuration::from_nanos(executor.missing_kind_timeout.as_nanos()),
        metadata: metadata_settings(config),
    }
}

fn gate_settings(config: &Config) -> GateSettings {
    let backoff = &config.tasks.backoff;
    let gate = &config.tasks.launch_gate;
    GateSettings {
        backoff: BackoffSettings {
            base_seconds: u32::try_from(backoff.base_second).unwrap_or_default(),
            max_duration: backoff.max_duration.to_std().unwrap_or_default(),
        },
        hold_after: gate.hold_after.to_std().unwrap_or_default(),
        hold_for: gate.hold_for.to_std().unwrap_or_default(),
        settle: gate.settle.to_std().unwrap_or_default(),
    }
}

/// The pools of the configuration. A cap of 0 means that there is none.
fn token_pools(config: &Config) -> BTreeMap<String, Pool> {
    let cap = |cap: u32| (cap > 0).then_some(cap);
    let pool = |pool: &PoolConfig| Pool {
        limits: Limits { total: pool.quota, per_project: cap(pool.project_cap), per_domain: cap(pool.domain_cap) },
        task_types: pool.task_types.iter().cloned().collect(),
    };
    config.tasks.pools.iter().map(|(name, config)| (name.clone(), pool(config))).collect()
}

/// The platform as it is at each moment: configuration does not change, pod templates do.
fn platform(config: &Config, templates: Arc<TemplateCache>) -> Arc<dyn Fn() -> Platform + Send + Sync> {
    let fixed = configured_platform(config, environment());
    Arc::new(move || Platform { pod_templates: templates.snapshot(), ..fixed.clone() })
}

/// The environment of the process; a variable that is not text could not be put into a pod anyway.
fn environment() -> std::collections::BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

async fn gauges(memory: Arc<ActionStore>, mut monitor: Monitor, queue: Arc<Queue>, cancel: CancellationToken) {
    let mut shown = std::collections::BTreeSet::new();
    loop {
        let counts = memory.count_by_phase();
        shown.extend(counts.keys().cloned());
        for phase in &shown {
            let count = counts.get(phase).copied().unwrap_or_default();
            metrics::gauge!("aileron_actions", "phase" => phase.clone()).set(count as f64);
        }
        for (reason, count) in memory.count_by_pending() {
            metrics::gauge!("aileron_pending_actions", "reason" => reason.as_str()).set(count as f64);
        }
        monitor.measure();
        metrics::gauge!("aileron_queue_depth").set(queue.depth() as f64);
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(GAUGES) => {}
        }
    }
}

/// The storage section in the terms of the storage layer.
pub fn storage_settings(config: &StorageConfig) -> Result<StorageSettings, StorageError> {
    let unknown = |subject: &str, kind: &str| StorageError::Settings {
        subject: subject.to_owned(),
        detail: format!("{kind:?} is not a kind of storage this executor has; use s3, google, azure, local or mem"),
    };
    let backend = Backend::from_config(&config.kind, &config.stow.kind)
        .ok_or_else(|| unknown("storage.type", if config.kind == "stow" { &config.stow.kind } else { &config.kind }))?;
    let mut schemes = std::collections::BTreeMap::new();
    for (scheme, settings) in &config.schemes {
        let backend = match settings.kind.as_str() {
            "" => None,
            kind => Some(Backend::from_config("stow", kind).ok_or_else(|| unknown(scheme, kind))?),
        };
        schemes.insert(scheme.clone(), SchemeSettings { backend, config: settings.config.clone() });
    }
    Ok(StorageSettings {
        backend,
        container: config.container.clone(),
        config: config.stow.config.clone(),
        multi_container: config.enable_multicontainer,
        schemes,
        max_download_mb: u64::try_from(config.limits.max_download_mbs).unwrap_or_default(),
        timeout: config.default_http_client.timeout.to_std().unwrap_or_default(),
    })
}
