//! Watches the CustomResourceDefinitions to know which kinds the cluster serves, and runs a watch of the objects of each
//! served kind.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::registry::served::served_kinds;
use aileron_action::metadata::MANAGED_LABEL;
use aileron_action::plugin_choice::Served;
use aileron_lease::request_error_text;
use aileron_machinery::time::backoff::ExponentialBackoff;
use aileron_machinery::{ObjectPlugin, ResourceKind};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::KindObjects;
use crate::caches::objects::ObjectCache;
use crate::cluster::listed::{Listed, Malformed};
use crate::registry::panics::guarded_now;
use crate::watch::events::follow_kind;
use crate::watch::missed::until_missed;
use crate::watch::{PAGE, Sink, WatchContext};

/// The name of the watch of definitions in readiness and metrics.
pub const NAME: &str = "customresourcedefinitions";

/// The watches of the kinds themselves share one name: readiness does not wait for them, and metrics count them as one.
const KIND_WATCH: &str = "plugin-objects";
/// Likewise the watches of events about such objects.
const EVENT_WATCH: &str = "plugin-object-events";

/// The first pause after a failed request. It doubles up to [`DISCOVERY_INTERVAL`].
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// How often the executor asks whether missing kinds are served, and which are if it may not watch definitions. Operators
/// are installed rarely, and their installation takes about a minute anyway.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(60);
/// How often the executor asks whether the kind of a new definition is served. Tasks wait for it.
const ESTABLISHED_INTERVAL: Duration = Duration::from_millis(250);
/// A kind that is not served by then has another version than the one that the plugin needs. The executor asks again when
/// the definition changes.
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(15);

/// Watches the definitions in the cluster, and the objects of the kinds of these plugins.
pub async fn run(cx: WatchContext, plugins: Vec<Arc<dyn ObjectPlugin>>) {
    let client = cx.client.clone();
    let wanted = wanted_kinds(plugins);
    if wanted.is_empty() {
        // Nothing is asked for, so no permission is needed.
        return cx.cancel.cancelled().await;
    }
    let definitions: Api<Listed<PartialObjectMeta<CustomResourceDefinition>>> = Api::all(client.clone());
    let watches = TaskTracker::new();
    let mut sink = Definitions {
        cx: cx.clone(),
        wanted,
        watches: watches.clone(),
        running: HashMap::new(),
        defined: HashSet::new(),
        listed: HashSet::new(),
        asked: false,
    };
    // Every client may ask which kinds are served. Watching definitions needs a permission that an existing installation
    // may not have granted.
    sink.compare(&client).await;
    let (kinds, stop) = (sink.wanted.values().map(|wanted| wanted.kind.clone()).collect(), cx.cancel.clone());
    let asking = ask_for_missing(cx.clone(), kinds);
    watches.spawn(async move { stop.run_until_cancelled_owned(asking).await });
    let backoff = ExponentialBackoff::doubling(FIRST_PAUSE, DISCOVERY_INTERVAL);
    let mut failures = 0_u32;
    loop {
        match definitions.list(&ListParams::default().limit(1)).await {
            Ok(_) => {
                if !sink.asked {
                    sink.compare(&client).await;
                }
                let config = watcher::Config::default().page_size(PAGE);
                cx.follow(NAME, definitions, config, sink).await;
                break;
            }
            // A permission does not come back within seconds: the longest pause.
            Err(kube::Error::Api(status)) if status.is_forbidden() => failures = u32::MAX,
            Err(error) => {
                failures = failures.saturating_add(1);
                tracing::debug!(error = request_error_text(&error), "failed to list definitions; retrying");
            }
        }
        tokio::select! {
            () = cx.cancel.cancelled() => break,
            () = tokio::time::sleep(backoff.pause(failures)) => sink.compare(&client).await,
        }
    }
    watches.close();
    watches.wait().await;
}

/// A kind of objects that plugins create.
struct Wanted {
    kind: ResourceKind,
    /// The plugins that create its objects. The last one decodes them.
    plugins: Vec<Arc<dyn ObjectPlugin>>,
}

/// The kinds to watch, by the name of their definition. Pods have a watch of their own.
fn wanted_kinds(plugins: Vec<Arc<dyn ObjectPlugin>>) -> BTreeMap<String, Wanted> {
    let mut wanted: BTreeMap<String, Wanted> = BTreeMap::new();
    for plugin in plugins {
        let kind = plugin.kind();
        if kind != ResourceKind::of::<Pod>() {
            let entry = wanted.entry(kind.definition_name()).or_insert(Wanted { kind, plugins: Vec::new() });
            entry.plugins.push(plugin);
        }
    }
    wanted
}

struct Definitions {
    cx: WatchContext,
    wanted: BTreeMap<String, Wanted>,
    watches: TaskTracker,
    running: HashMap<String, CancellationToken>,
    /// Kinds that have a definition. Other kinds are served by the API server itself or by an aggregated one; for them a
    /// missing definition does not mean that they are not served.
    defined: HashSet<String>,
    listed: HashSet<String>,
    /// The cluster answered for every kind whether it serves it.
    asked: bool,
}

impl Definitions {
    /// Asks which kinds the cluster serves, and starts and stops their watches.
    async fn compare(&mut self, client: &kube::Client) {
        let kinds: Vec<_> = self.wanted.values().map(|wanted| wanted.kind.clone()).collect();
        let served = served_kinds(client, &kinds).await;
        self.asked = served.values().all(|served| matches!(served, Served::Yes | Served::No));
        let names: Vec<_> = self.wanted.iter().map(|(name, wanted)| (name.clone(), wanted.kind.clone())).collect();
        for (name, kind) in names {
            match served.get(&kind) {
                Some(Served::Yes) => self.appeared(&name),
                Some(Served::No) => {
                    self.cx.caches.objects.learn(&kind, Served::No);
                    self.stop(&name);
                }
                // It is not known whether the kind is served, so nothing changes.
                Some(Served::Unknown(_)) | None => {}
            }
        }
    }

    fn appeared(&mut self, name: &str) {
        self.start(name);
        let Some(wanted) = self.wanted.get(name) else { return };
        if let Some(stop) = self.running.get(name).filter(|_| self.cx.caches.objects.kind_missing(&wanted.kind)) {
            let asked = until_served(self.cx.clone(), wanted.kind.clone());
            let stop = stop.clone();
            self.watches.spawn(async move { stop.run_until_cancelled_owned(asked).await });
        }
        let readers: Vec<_> = readers(&wanted.plugins).cloned().collect();
        if !readers.is_empty() {
            let read =
                read_definition(self.cx.client.clone(), name.to_owned(), readers, Arc::clone(&self.cx.caches.objects));
            let stop = self.cx.cancel.clone();
            self.watches.spawn(async move { stop.run_until_cancelled_owned(read).await });
        }
    }

    fn start(&mut self, name: &str) {
        let Some(Wanted { kind, plugins }) = self.wanted.get(name).filter(|_| !self.running.contains_key(name)) else {
            return;
        };
        let Some(plugin) = plugins.last() else { return };
        let stop = self.cx.cancel.child_token();
        self.running.insert(name.to_owned(), stop.clone());
        let resource = ApiResource {
            group: kind.group.to_string(),
            version: kind.version.to_string(),
            api_version: kind.api_version(),
            kind: kind.kind.to_string(),
            plural: kind.plural.to_string(),
        };
        let api: Api<Listed<DynamicObject>> = Api::all_with(self.cx.client.clone(), &resource);
        tracing::info!(kind = %kind.kind, group = %kind.group, "the cluster serves this kind; it is watched");
        // Both watches end when the kind is no longer served.
        let cx = WatchContext { cancel: stop, ..self.cx.clone() };
        self.watches.spawn(follow_kind(EVENT_WATCH, cx.clone(), kind.clone()));
        self.watches.spawn(follow_objects(cx, api, kind.clone(), Arc::clone(plugin)));
    }

    fn stop(&mut self, name: &str) {
        let (Some(stop), Some(Wanted { kind, plugins })) = (self.running.remove(name), self.wanted.get(name)) else {
            return;
        };
        stop.cancel();
        for plugin in readers(plugins) {
            self.cx.caches.objects.set_definition(plugin.entry().id, None);
        }
        self.cx.drop_kind(kind);
        tracing::warn!(kind = %kind.kind, group = %kind.group, "the cluster no longer serves this kind");
    }
}

impl Sink<PartialObjectMeta<CustomResourceDefinition>> for Definitions {
    fn seen(&mut self, definition: PartialObjectMeta<CustomResourceDefinition>, listed: bool) {
        self.defines(definition.metadata, listed);
    }

    /// Only the name and the deletion of a definition are read here.
    fn malformed(&mut self, definition: Malformed, listed: bool) {
        self.defines(definition.metadata, listed);
    }

    fn restarted(&mut self) {
        self.listed.clear();
    }

    fn listed(&mut self) {
        let gone: Vec<_> = self.defined.difference(&self.listed).cloned().collect();
        for name in gone {
            self.defined.remove(&name);
            self.stop(&name);
        }
        // If the cluster did not answer, it is not known which kinds are missing; a create request will show it.
        let idle = self.wanted.iter().filter(|(name, _)| self.asked && !self.running.contains_key(*name));
        for (_, wanted) in idle {
            self.cx.caches.objects.learn(&wanted.kind, Served::No);
        }
    }

    fn gone(&mut self, metadata: &ObjectMeta, _definition: Option<PartialObjectMeta<CustomResourceDefinition>>) {
        let name = metadata.name.clone().unwrap_or_default();
        self.defined.remove(&name);
        self.stop(&name);
    }
}

impl Definitions {
    fn defines(&mut self, metadata: ObjectMeta, listed: bool) {
        let name = metadata.name.unwrap_or_default();
        // The API server deletes the objects before the definition. Without this stop, their actions would treat the
        // objects as deleted by a user.
        if metadata.deletion_timestamp.is_some() {
            self.stop(&name);
            return;
        }
        // A definition exists a moment before its kind is served. It changes again when it is established. That is
        // earlier than the next try of the refused watch, so the watch is started again.
        if !listed
            && self.wanted.get(&name).is_some_and(|wanted| !self.cx.caches.objects.is_complete(&wanted.kind))
            && let Some(stop) = self.running.remove(&name)
        {
            stop.cancel();
        }
        self.appeared(&name);
        if listed {
            self.listed.insert(name.clone());
        }
        if self.wanted.contains_key(&name) {
            self.defined.insert(name);
        }
    }
}

/// Follows the objects of one kind.
async fn follow_objects(
    cx: WatchContext,
    api: Api<Listed<DynamicObject>>,
    kind: ResourceKind,
    plugin: Arc<dyn ObjectPlugin>,
) {
    let (label, value) = MANAGED_LABEL;
    let selector = format!("{label}={value}");
    let config = watcher::Config::default().labels(&selector).page_size(PAGE);
    loop {
        let (kind, plugin) = (kind.clone(), Arc::clone(&plugin));
        let missed = until_missed(KIND_WATCH, &api, &selector, || cx.caches.objects.versions(&kind));
        let objects = KindObjects::new(kind.clone(), plugin, cx.clone(), KIND_WATCH);
        let watch = cx.follow(KIND_WATCH, api.clone(), config.clone(), objects);
        tokio::select! {
            () = watch => return,
            () = missed => {}
        }
    }
}

/// Asks again and again whether kinds that are missing are served. Usually the watch of definitions has told so before. But
/// a create request that was refused late may report a kind as missing after the watch showed its new definition.
async fn ask_for_missing(cx: WatchContext, kinds: Vec<ResourceKind>) {
    loop {
        tokio::time::sleep(DISCOVERY_INTERVAL).await;
        let missing: Vec<_> = kinds.iter().filter(|kind| cx.caches.objects.kind_missing(kind)).cloned().collect();
        let served = served_kinds(&cx.client, &missing).await;
        for kind in missing.iter().filter(|kind| served.get(*kind) == Some(&Served::Yes)) {
            cx.kind_is_served(kind);
        }
    }
}

/// Waits until a kind with a definition is served, which takes a moment. The watch of its objects would show this too, but
/// only if the executor has the permission to watch them.
async fn until_served(cx: WatchContext, kind: ResourceKind) {
    for _ in 0..ESTABLISHED_TIMEOUT.as_millis() / ESTABLISHED_INTERVAL.as_millis() {
        if !cx.caches.objects.kind_missing(&kind) {
            return;
        }
        let served = served_kinds(&cx.client, std::slice::from_ref(&kind)).await;
        if served.get(&kind) == Some(&Served::Yes) {
            cx.kind_is_served(&kind);
            return;
        }
        tokio::time::sleep(ESTABLISHED_INTERVAL).await;
    }
}

/// The plugins that read the definition of their kind.
fn readers(plugins: &[Arc<dyn ObjectPlugin>]) -> impl Iterator<Item = &Arc<dyn ObjectPlugin>> {
    plugins.iter().filter(|plugin| plugin.properties().reads_definition)
}

/// Fetches a whole definition for the plugins that read it. The watch keeps only names: some definitions are large, and
/// few plugins read one.
async fn read_definition(
    client: kube::Client,
    name: String,
    readers: Vec<Arc<dyn ObjectPlugin>>,
    cache: Arc<ObjectCache>,
) {
    let api: Api<Listed<CustomResourceDefinition>> = Api::all(client);
    loop {
        match api.get_opt(&name).await {
            Ok(Some(Listed::Malformed(malformed))) => {
                return tracing::warn!(
                    name,
                    error = malformed.error,
                    "the executor cannot decode this definition; the optional features that depend on it stay off"
                );
            }
            Ok(definition) => {
                let definition = definition.and_then(Listed::decoded);
                for plugin in &readers {
                    let read = |definition| guarded_now(|| Ok(plugin.read_definition(definition)));
                    match definition.as_ref().map(read).transpose() {
                        Ok(facts) => cache.set_definition(plugin.entry().id, facts),
                        Err(error) => {
                            tracing::error!(name, plugin = %plugin.entry().id, %error, "failed to read a definition");
                        }
                    }
                }
                return;
            }
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                return tracing::warn!(
                    name,
                    error = status.message,
                    "the executor may not read this definition; the optional features that depend on it stay off"
                );
            }
            // The watch does not show an unchanged definition again, so the request is retried here.
            Err(error) => {
                tracing::debug!(name, error = request_error_text(&error), "failed to read a definition; retrying");
            }
        }
        tokio::time::sleep(FIRST_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use aileron_machinery::AnyResource;
    use aileron_machinery::{JsonObject, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};
    use async_trait::async_trait;

    use super::*;

    struct Of(ResourceKind);

    #[async_trait]
    impl ObjectPlugin for Of {
        fn entry(&self) -> PluginEntry {
            PluginEntry::new(self.0.kind.to_string(), &[])
        }

        fn kind(&self) -> ResourceKind {
            self.0.clone()
        }

        async fn build(&self, _: &TaskContext) -> Result<Box<dyn AnyResource>, PluginError> {
            Ok(Box::new(JsonObject::new(self.kind(), serde_json::json!({}))?))
        }

        async fn phase(&self, _: &PhaseContext<'_>, _: &dyn AnyResource) -> Result<PhaseInfo, PluginError> {
            Ok(PhaseInfo::undefined())
        }
    }

    #[test]
    fn every_kind_but_pods_is_watched_here() {
        let kinds = [
            ResourceKind::of::<Pod>(),
            ResourceKind::of::<k8s_openapi::api::core::v1::ConfigMap>(),
            ResourceKind::of::<k8s_openapi::api::batch::v1::Job>(),
            ResourceKind::new("ray.io", "v1", "RayJob", "rayjobs"),
            ResourceKind::new("ray.io", "v1", "RayJob", "rayjobs"),
        ];
        let wanted = wanted_kinds(kinds.into_iter().map(|kind| Arc::new(Of(kind)) as Arc<dyn ObjectPlugin>).collect());
        let names: Vec<_> = wanted.iter().map(|(name, wanted)| (name.as_str(), wanted.plugins.len())).collect();
        assert_eq!(names, [("configmaps.", 1), ("jobs.batch", 1), ("rayjobs.ray.io", 2)]);
    }
}
