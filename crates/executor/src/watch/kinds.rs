//! Objects of kinds that plugins make, other than pods: one watch per kind, started when the cluster serves the kind and
//! stopped when it no longer does.

mod definitions;

use std::collections::HashSet;
use std::sync::Arc;

use aileron_action::plugin_choice::Served;
use aileron_action::salvage::without_content;
use aileron_machinery::{ObjectPlugin, ResourceKind};
use kube::api::{DynamicObject, ObjectMeta};

use super::malformed::MalformedReports;
use super::{Sink, WatchContext};
use crate::caches::{Place, place, placed_version};
use crate::cluster::listed::Malformed;
use crate::registry::panics::guarded_now;

pub use definitions::{NAME, run};

impl WatchContext {
    /// Wakes all actions when a kind appears, which happens rarely. A list of the actions that wait for the kind would miss
    /// an action whose round is just about to find that it waits.
    fn wake_all_actions(&self) {
        for key in self.caches.actions.keys() {
            self.queue.wake(&key);
        }
    }

    /// Stores that the cluster serves a kind, and wakes all actions, because some may wait for it.
    fn kind_is_served(&self, kind: &ResourceKind) {
        if self.caches.objects.learn(kind, Served::Yes) {
            self.wake_all_actions();
        }
    }

    /// Drops what is stored about an object that is gone, and wakes its action.
    fn object_gone(&self, kind: &ResourceKind, metadata: &ObjectMeta) {
        let (namespace, name) = place(metadata);
        self.caches.events.forget(&kind.kind, &namespace, &name);
        self.objects.gone(kind, metadata);
        self.wake_owner(metadata);
    }

    /// Drops a kind that the cluster no longer serves, with all its objects.
    fn drop_kind(&self, kind: &ResourceKind) {
        self.caches.objects.learn(kind, Served::No);
        let dropped = self.caches.objects.write().remove(kind).unwrap_or_default();
        for object in dropped.objects.values() {
            self.object_gone(kind, object.metadata());
        }
        // Events may also be about objects that were never seen. No watch will tell when those are gone.
        self.caches.events.forget_kind(&kind.kind);
    }
}

struct KindObjects {
    kind: ResourceKind,
    plugin: Arc<dyn ObjectPlugin>,
    cx: WatchContext,
    listed: HashSet<Place>,
    /// The objects that the plugin cannot decode, although they are valid Kubernetes objects.
    reports: MalformedReports,
}

impl KindObjects {
    fn new(kind: ResourceKind, plugin: Arc<dyn ObjectPlugin>, cx: WatchContext, watch: &'static str) -> Self {
        Self { kind, plugin, cx, listed: HashSet::new(), reports: MalformedReports::new(watch) }
    }

    fn drop_object(&self, metadata: &ObjectMeta) {
        let place = place(metadata);
        if let Some(kind) = self.cx.caches.objects.write().get_mut(&self.kind) {
            kind.objects.remove(&place);
            kind.unreadable.remove(&place);
        }
        self.cx.object_gone(&self.kind, metadata);
    }

    /// Stores that an object exists that cannot be decoded. Its earlier version is dropped, because it is outdated.
    fn unreadable(&self, metadata: &ObjectMeta) {
        let (place, version) = placed_version(metadata);
        let mut kinds = self.cx.caches.objects.write();
        let kind = kinds.entry(self.kind.clone()).or_default();
        kind.objects.remove(&place);
        kind.unreadable.insert(place, version);
    }
}

impl Sink<DynamicObject> for KindObjects {
    fn seen(&mut self, mut object: DynamicObject, listed: bool) {
        object.metadata.managed_fields = None;
        let metadata = object.metadata.clone();
        let place = place(&metadata);
        let decoded = serde_json::to_value(&object).map_err(|error| error.to_string());
        let decode = |value| guarded_now(|| self.plugin.decode(value)).map_err(|error| error.to_string());
        match decoded.and_then(decode) {
            Ok(decoded) => {
                let mut kinds = self.cx.caches.objects.write();
                let kind = kinds.entry(self.kind.clone()).or_default();
                kind.unreadable.remove(&place);
                kind.objects.insert(place.clone(), decoded);
            }
            // The action's round reads the object from the API server, gets the same error and shows it in the action.
            Err(error) => {
                self.reports.seen(&metadata, &without_content(&error), listed);
                self.unreadable(&metadata);
            }
        }
        if listed {
            self.listed.insert(place);
        }
        self.cx.wake_owner(&metadata);
    }

    fn malformed(&mut self, object: Malformed, listed: bool) {
        self.unreadable(&object.metadata);
        if listed {
            self.listed.insert(place(&object.metadata));
        }
        self.cx.wake_owner(&object.metadata);
    }

    fn restarted(&mut self) {
        self.reports.restarted();
        self.listed.clear();
    }

    fn listed(&mut self) {
        self.reports.listed();
        let listed = std::mem::take(&mut self.listed);
        // A complete list proves that the kind is served. A definition alone does not, while it is being established.
        self.cx.kind_is_served(&self.kind);
        let gone: Vec<_> = {
            let mut kinds = self.cx.caches.objects.write();
            let kind = kinds.entry(self.kind.clone()).or_default();
            kind.complete = true;
            kind.unreadable.retain(|place, _| listed.contains(place));
            let gone = kind.objects.iter().filter(|(place, _)| !listed.contains(*place));
            gone.map(|(_, object)| object.metadata().clone()).collect()
        };
        for metadata in &gone {
            self.drop_object(metadata);
        }
    }

    fn gone(&mut self, metadata: &ObjectMeta, _object: Option<DynamicObject>) {
        self.reports.gone(metadata);
        self.drop_object(metadata);
    }
}
