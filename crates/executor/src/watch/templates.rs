//! The watch over the pod templates of the cluster.

use std::sync::Arc;

use aileron_machinery::PodTemplates;
use k8s_openapi::api::core::v1::PodTemplate;
use kube::api::{Api, ObjectMeta};
use kube::runtime::watcher;

use super::{PAGE, Sink, WatchContext};
use crate::caches::place;
use crate::caches::templates::TemplateCache;
use crate::cluster::listed::Malformed;

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "podtemplates";

/// Follows all pod templates.
pub async fn run(cx: WatchContext) {
    let api = Api::all(cx.client.clone());
    let config = watcher::Config::default().page_size(PAGE);
    let sink = Templates { cache: Arc::clone(&cx.caches.pod_templates), listing: None };
    cx.follow(NAME, api, config, sink).await;
}

struct Templates {
    cache: Arc<TemplateCache>,
    /// The templates of a list that is not complete yet.
    listing: Option<PodTemplates>,
}

impl Templates {
    fn change(&mut self, listed: bool, change: impl FnOnce(&mut PodTemplates)) {
        match &mut self.listing {
            Some(listing) if listed => change(listing),
            _ => {
                let mut templates = PodTemplates::clone(&self.cache.snapshot());
                change(&mut templates);
                self.cache.replace(templates);
            }
        }
    }
}

impl Sink<PodTemplate> for Templates {
    fn seen(&mut self, mut template: PodTemplate, listed: bool) {
        template.metadata.managed_fields = None;
        self.change(listed, |templates| templates.insert(template));
    }

    /// A task that needs this template fails with the error.
    fn malformed(&mut self, template: Malformed, listed: bool) {
        let (namespace, name) = place(&template.metadata);
        self.change(listed, |templates| templates.insert_unreadable(&namespace, &name, &template.error));
    }

    fn restarted(&mut self) {
        self.listing = Some(self.cache.emptied());
    }

    fn listed(&mut self) {
        if let Some(listing) = self.listing.take() {
            self.cache.replace(listing);
        }
    }

    fn gone(&mut self, metadata: &ObjectMeta, _template: Option<PodTemplate>) {
        let (namespace, name) = place(metadata);
        self.change(false, |templates| templates.remove(&namespace, &name));
    }
}
