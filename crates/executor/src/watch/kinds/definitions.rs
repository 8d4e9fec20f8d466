//! Which kinds the cluster serves, followed by their definitions; and for each of them a watch of its objects.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use aileron_machinery::{ObjectPlugin, ResourceKind};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PartialObjectMeta};
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{KindFeed, KindObjects, ObjectCache};
use crate::action::metadata::MANAGED_LABEL;
use crate::plugin_list::{Served, served_kinds};
use crate::watch::events::follow_kind;
use crate::watch::missed::until_missed;
use crate::watch::{PAGE, Sink, Synced, follow};

/// The name of the watch that tells which kinds there are, in readiness and metrics.
pub const NAME: &str = "customresourcedefinitions";

/// The watches of the kinds themselves share one name: readiness does not wait for them, and metrics count them as one.
const KIND_WATCH: &str = "plugin-objects";
/// Likewise the watches of events about such objects.
const EVENT_WATCH: &str = "plugin-object-events";

/// How long to wait when the cluster cannot say what it serves, doubled up to [`ASK_AGAIN`].
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// How often to ask which kinds are served, where definitions may not be followed. An operator is installed rarely, and
/// whoever installs one waits a minute anyway.
const ASK_AGAIN: Duration = Duration::from_secs(60);
/// How often to ask whether a new definition is established: tasks wait for it.
const ASK_IF_ESTABLISHED: Duration = Duration::from_millis(250);
/// One that is not by then is of another version than ours; it is asked about again when it changes.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(15);

/// Follows the definitions in the cluster, and with them the kinds of these plugins.
pub async fn run(
    client: kube::Client,
    plugins: Vec<Arc<dyn ObjectPlugin>>,
    feed: KindFeed,
    synced: Synced,
    cancel: CancellationToken,
) {
    let wanted = wanted_kinds(plugins);
    let definitions: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client.clone());
    let watches = TaskTracker::new();
    let mut sink = Definitions {
        client: client.clone(),
        wanted,
        feed,
        synced: synced.clone(),
        cancel: cancel.clone(),
        watches: watches.clone(),
        running: HashMap::new(),
        defined: HashSet::new(),
        listed: HashSet::new(),
        asked: false,
    };
    // Asking which kinds are served is allowed to everybody; following definitions needs a permission that an existing
    // installation may not have given.
    sink.compare(&client).await;
    let mut pause = FIRST_PAUSE;
    loop {
        match definitions.list(&ListParams::default().limit(1)).await {
            Ok(_) => {
                if !sink.asked {
                    sink.compare(&client).await;
                }
                let config = watcher::Config::default().page_size(PAGE);
                follow(NAME, watcher(definitions, config), sink, synced, cancel).await;
                break;
            }
            Err(kube::Error::Api(status)) if status.is_forbidden() => pause = ASK_AGAIN,
            Err(error) => tracing::debug!(%error, "definitions cannot be listed now"),
        }
        tokio::select! {
            () = cancel.cancelled() => break,
            () = tokio::time::sleep(pause) => sink.compare(&client).await,
        }
        pause = (pause * 2).min(ASK_AGAIN);
    }
    watches.close();
    watches.wait().await;
}

/// A kind that plugins make, by the name that its definition has or would have.
struct Wanted {
    kind: ResourceKind,
    /// The plugins that make it; the last one decodes its objects.
    plugins: Vec<Arc<dyn ObjectPlugin>>,
}

/// The kinds to watch. Pods have a watch of their own.
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
    client: kube::Client,
    wanted: BTreeMap<String, Wanted>,
    feed: KindFeed,
    synced: Synced,
    cancel: CancellationToken,
    watches: TaskTracker,
    running: HashMap<String, CancellationToken>,
    /// Kinds that a definition brought. Others are served by the API server itself, or by another one behind it, and do
    /// not go because there is no definition of them.
    defined: HashSet<String>,
    listed: HashSet<String>,
    /// The cluster said of every kind whether it serves it.
    asked: bool,
}

impl Definitions {
    /// Starts and stops watches by what the cluster says it serves.
    async fn compare(&mut self, client: &kube::Client) {
        let kinds: Vec<_> = self.wanted.values().map(|wanted| wanted.kind.clone()).collect();
        let served = served_kinds(client, &kinds).await;
        self.asked = served.values().all(|served| matches!(served, Served::Yes | Served::No));
        let names: Vec<_> = self.wanted.iter().map(|(name, wanted)| (name.clone(), wanted.kind.clone())).collect();
        for (name, kind) in names {
            match served.get(&kind) {
                Some(Served::Yes) => self.appeared(&name),
                Some(Served::No) => {
                    self.feed.cache.learn(&kind, Served::No);
                    self.stop(&name);
                }
                // Nothing is known, so nothing changes.
                Some(Served::Unknown(_)) | None => {}
            }
        }
    }

    fn appeared(&mut self, name: &str) {
        self.start(name);
        let Some(wanted) = self.wanted.get(name) else { return };
        if let Some(stop) = self.running.get(name).filter(|_| self.feed.cache.kind_missing(&wanted.kind)) {
            let asked = until_served(self.client.clone(), wanted.kind.clone(), self.feed.clone());
            let stop = stop.clone();
            self.watches.spawn(async move { stop.run_until_cancelled_owned(asked).await });
        }
        let readers: Vec<_> = readers(&wanted.plugins).cloned().collect();
        if !readers.is_empty() {
            let read = read_definition(self.client.clone(), name.to_owned(), readers, Arc::clone(&self.feed.cache));
            let stop = self.cancel.clone();
            self.watches.spawn(async move { stop.run_until_cancelled_owned(read).await });
        }
    }

    fn start(&mut self, name: &str) {
        let Some(Wanted { kind, plugins }) = self.wanted.get(name).filter(|_| !self.running.contains_key(name)) else {
            return;
        };
        let Some(plugin) = plugins.last() else { return };
        let stop = self.cancel.child_token();
        self.running.insert(name.to_owned(), stop.clone());
        let resource = ApiResource {
            group: kind.group.to_string(),
            version: kind.version.to_string(),
            api_version: kind.api_version(),
            kind: kind.kind.to_string(),
            plural: kind.plural.to_string(),
        };
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        tracing::info!(kind = %kind.kind, group = %kind.group, "the cluster serves this kind; it is watched");
        let (events, synced) = (self.feed.events.clone(), self.synced.clone());
        let events = follow_kind(EVENT_WATCH, self.client.clone(), kind.clone(), events, synced, stop.clone());
        self.watches.spawn(events);
        let (feed, synced) = (self.feed.clone(), self.synced.clone());
        self.watches.spawn(follow_objects(api, kind.clone(), Arc::clone(plugin), feed, synced, stop));
    }

    fn stop(&mut self, name: &str) {
        let (Some(stop), Some(Wanted { kind, plugins })) = (self.running.remove(name), self.wanted.get(name)) else {
            return;
        };
        stop.cancel();
        for plugin in readers(plugins) {
            self.feed.cache.set_definition(plugin.entry().id, None);
        }
        self.feed.drop_kind(kind);
        tracing::warn!(kind = %kind.kind, group = %kind.group, "the cluster no longer serves this kind");
    }
}

impl Sink<PartialObjectMeta<CustomResourceDefinition>> for Definitions {
    fn seen(&mut self, definition: PartialObjectMeta<CustomResourceDefinition>, listed: bool) {
        let name = definition.metadata.name.unwrap_or_default();
        // The objects go before their definition is gone; whoever lost one by then would be taken for one whose object
        // somebody deleted.
        if definition.metadata.deletion_timestamp.is_some() {
            self.stop(&name);
            return;
        }
        // A definition is there a moment before its kind is served. It is told again when it is established, which is
        // sooner than the next try of a watch that was refused.
        if !listed
            && self.wanted.get(&name).is_some_and(|wanted| !self.feed.cache.is_complete(&wanted.kind))
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

    fn restarted(&mut self) {
        self.listed.clear();
    }

    fn listed(&mut self) {
        let gone: Vec<_> = self.defined.difference(&self.listed).cloned().collect();
        for name in gone {
            self.defined.remove(&name);
            self.stop(&name);
        }
        // Where the cluster could not be asked, trying tells.
        let idle = self.wanted.iter().filter(|(name, _)| self.asked && !self.running.contains_key(*name));
        for (_, wanted) in idle {
            self.feed.cache.learn(&wanted.kind, Served::No);
        }
    }

    fn gone(&mut self, definition: PartialObjectMeta<CustomResourceDefinition>) {
        let name = definition.metadata.name.unwrap_or_default();
        self.defined.remove(&name);
        self.stop(&name);
    }
}

/// Follows the objects of one kind.
async fn follow_objects(
    api: Api<DynamicObject>,
    kind: ResourceKind,
    plugin: Arc<dyn ObjectPlugin>,
    feed: KindFeed,
    synced: Synced,
    cancel: CancellationToken,
) {
    let (label, value) = MANAGED_LABEL;
    let selector = format!("{label}={value}");
    let config = watcher::Config::default().labels(&selector).page_size(PAGE);
    loop {
        let (kind, plugin) = (kind.clone(), Arc::clone(&plugin));
        let missed = until_missed(KIND_WATCH, &api, &selector, || feed.cache.versions(&kind));
        let objects = KindObjects { kind: kind.clone(), plugin, feed: feed.clone(), listed: HashSet::new() };
        let watch = follow(KIND_WATCH, watcher(api.clone(), config.clone()), objects, synced.clone(), cancel.clone());
        tokio::select! {
            () = watch => return,
            () = missed => {}
        }
    }
}

/// Asks whether a kind whose definition is there is served yet, which takes a moment. The watch of its objects would tell
/// too, but only where it is allowed.
async fn until_served(client: kube::Client, kind: ResourceKind, feed: KindFeed) {
    for _ in 0..ESTABLISHED_WITHIN.as_millis() / ASK_IF_ESTABLISHED.as_millis() {
        if !feed.cache.kind_missing(&kind) {
            return;
        }
        let served = served_kinds(&client, std::slice::from_ref(&kind)).await;
        if served.get(&kind) == Some(&Served::Yes) {
            if feed.cache.learn(&kind, Served::Yes) {
                feed.wake_all_actions();
            }
            return;
        }
        tokio::time::sleep(ASK_IF_ESTABLISHED).await;
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
    let api: Api<CustomResourceDefinition> = Api::all(client);
    loop {
        match api.get_opt(&name).await {
            Ok(definition) => {
                for plugin in &readers {
                    let facts = definition.as_ref().map(|definition| plugin.read_definition(definition));
                    cache.set_definition(plugin.entry().id, facts);
                }
                return;
            }
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                return tracing::warn!(name, %status, "a definition cannot be read; its optional features stay off");
            }
            // The watch does not tell again.
            Err(error) => tracing::debug!(name, %error, "a definition cannot be read now"),
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
