//! Which kinds the cluster serves, followed by their definitions; and for each of them a watch of its objects.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use aileron_action::metadata::MANAGED_LABEL;
use aileron_action::plugin_choice::Served;
use aileron_machinery::{AnyK8sPlugin, ResourceKind};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PartialObjectMeta};
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{KindObjects, Observer, Observers};
use crate::registry::served::served_kinds;
use crate::watch::events::follow_kind;
use crate::watch::missed::until_missed;
use crate::watch::{PAGE, Sink, WatchContext};

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
pub async fn run(cx: WatchContext, plugins: Vec<Arc<dyn AnyK8sPlugin>>, observers: Observers) {
    let client = cx.client.clone();
    let wanted = plugins.into_iter().map(|plugin| (plugin.kind(), plugin));
    let wanted = wanted.filter(|(kind, _)| !kind.group.is_empty());
    let wanted: BTreeMap<String, _> =
        wanted.map(|(kind, plugin)| (format!("{}.{}", kind.plural, kind.group), (kind, plugin))).collect();
    let definitions: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client.clone());
    let watches = TaskTracker::new();
    let mut sink = Definitions {
        cx: cx.clone(),
        wanted,
        observers,
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
                cx.follow(NAME, watcher(definitions, config), sink).await;
                break;
            }
            Err(kube::Error::Api(status)) if status.is_forbidden() => pause = ASK_AGAIN,
            Err(error) => tracing::debug!(%error, "definitions cannot be listed now"),
        }
        tokio::select! {
            () = cx.cancel.cancelled() => break,
            () = tokio::time::sleep(pause) => sink.compare(&client).await,
        }
        pause = (pause * 2).min(ASK_AGAIN);
    }
    watches.close();
    watches.wait().await;
}

struct Definitions {
    cx: WatchContext,
    wanted: BTreeMap<String, (ResourceKind, Arc<dyn AnyK8sPlugin>)>,
    observers: Observers,
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
        let kinds: Vec<_> = self.wanted.values().map(|(kind, _)| kind.clone()).collect();
        let served = served_kinds(client, &kinds).await;
        self.asked = served.values().all(|served| matches!(served, Served::Yes | Served::No));
        let names: Vec<_> = self.wanted.iter().map(|(name, (kind, _))| (name.clone(), kind.clone())).collect();
        for (name, kind) in names {
            match served.get(&kind) {
                Some(Served::Yes) => self.appeared(&name),
                Some(Served::No) => {
                    self.cx.caches.objects.learn(&kind, Served::No);
                    self.stop(&name);
                }
                // Nothing is known, so nothing changes.
                Some(Served::Unknown(_)) | None => {}
            }
        }
    }

    fn appeared(&mut self, name: &str) {
        self.start(name);
        if let (Some((kind, _)), Some(stop)) = (self.wanted.get(name), self.running.get(name))
            && self.cx.caches.objects.lacks(kind)
        {
            let asked = until_served(self.cx.clone(), kind.clone());
            let stop = stop.clone();
            self.watches.spawn(async move { stop.run_until_cancelled_owned(asked).await });
        }
        if let Some((name, observe)) = self.observers.get_key_value(name) {
            let look = look(self.cx.client.clone(), name, Arc::clone(observe));
            let stop = self.cx.cancel.clone();
            self.watches.spawn(async move { stop.run_until_cancelled_owned(look).await });
        }
    }

    fn start(&mut self, name: &str) {
        let Some((kind, plugin)) = self.wanted.get(name).filter(|_| !self.running.contains_key(name)) else { return };
        let stop = self.cx.cancel.child_token();
        self.running.insert(name.to_owned(), stop.clone());
        let resource = ApiResource {
            group: kind.group.to_string(),
            version: kind.version.to_string(),
            api_version: kind.api_version(),
            kind: kind.kind.to_string(),
            plural: kind.plural.to_string(),
        };
        let api: Api<DynamicObject> = Api::all_with(self.cx.client.clone(), &resource);
        tracing::info!(kind = %kind.kind, group = %kind.group, "the cluster serves this kind; it is watched");
        // Both watches end when the kind is no longer served.
        let cx = WatchContext { cancel: stop, ..self.cx.clone() };
        self.watches.spawn(follow_kind(EVENT_WATCH, cx.clone(), kind.clone()));
        self.watches.spawn(follow_objects(cx, api, kind.clone(), Arc::clone(plugin)));
    }

    fn stop(&mut self, name: &str) {
        let (Some(stop), Some((kind, _))) = (self.running.remove(name), self.wanted.get(name)) else { return };
        stop.cancel();
        if let Some(observe) = self.observers.get(name) {
            observe(None);
        }
        self.cx.drop_kind(kind);
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
            && self.wanted.get(&name).is_some_and(|(kind, _)| !self.cx.caches.objects.is_complete(kind))
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
        for (_, (kind, _)) in self.wanted.iter().filter(|(name, _)| self.asked && !self.running.contains_key(*name)) {
            self.cx.caches.objects.learn(kind, Served::No);
        }
    }

    fn gone(&mut self, definition: PartialObjectMeta<CustomResourceDefinition>) {
        let name = definition.metadata.name.unwrap_or_default();
        self.defined.remove(&name);
        self.stop(&name);
    }
}

/// Follows the objects of one kind.
async fn follow_objects(cx: WatchContext, api: Api<DynamicObject>, kind: ResourceKind, plugin: Arc<dyn AnyK8sPlugin>) {
    let (label, value) = MANAGED_LABEL;
    let selector = format!("{label}={value}");
    let config = watcher::Config::default().labels(&selector).page_size(PAGE);
    loop {
        let (kind, plugin) = (kind.clone(), Arc::clone(&plugin));
        let missed = until_missed(KIND_WATCH, &api, &selector, || cx.caches.objects.versions(&kind));
        let objects = KindObjects { kind: kind.clone(), plugin, cx: cx.clone(), listed: HashSet::new() };
        let watch = cx.follow(KIND_WATCH, watcher(api.clone(), config.clone()), objects);
        tokio::select! {
            () = watch => return,
            () = missed => {}
        }
    }
}

/// Asks whether a kind whose definition is there is served yet, which takes a moment. The watch of its objects would tell
/// too, but only where it is allowed.
async fn until_served(cx: WatchContext, kind: ResourceKind) {
    for _ in 0..ESTABLISHED_WITHIN.as_millis() / ASK_IF_ESTABLISHED.as_millis() {
        if !cx.caches.objects.lacks(&kind) {
            return;
        }
        let served = served_kinds(&cx.client, std::slice::from_ref(&kind)).await;
        if served.get(&kind) == Some(&Served::Yes) {
            if cx.caches.objects.learn(&kind, Served::Yes) {
                cx.wake_all_actions();
            }
            return;
        }
        tokio::time::sleep(ASK_IF_ESTABLISHED).await;
    }
}

/// Fetches a whole definition, of which the watch keeps only the name: some are large, and hardly any is looked at.
async fn look(client: kube::Client, name: &'static str, observe: Observer) {
    let api: Api<CustomResourceDefinition> = Api::all(client);
    loop {
        match api.get_opt(name).await {
            Ok(definition) => return observe(definition.as_ref()),
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                return tracing::warn!(name, %status, "a definition cannot be read; its optional features stay off");
            }
            // The watch does not tell again.
            Err(error) => tracing::debug!(name, %error, "a definition cannot be read now"),
        }
        tokio::time::sleep(FIRST_PAUSE).await;
    }
}
