//! The watch over the pod templates of the cluster.

use std::sync::Arc;

use aileron_machinery::PodTemplates;
use k8s_openapi::api::core::v1::PodTemplate;
use kube::api::Api;
use kube::runtime::watcher;

use super::{PAGE, Sink, WatchContext};
use crate::caches::templates::TemplateCache;

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "podtemplates";

/// Follows all pod templates.
pub async fn run(cx: WatchContext) {
    let api: Api<PodTemplate> = Api::all(cx.client.clone());
    let config = watcher::Config::default().page_size(PAGE);
    let sink = Templates { cache: Arc::clone(&cx.caches.pod_templates), listing: None };
    cx.follow(NAME, watcher(api, config), sink).await;
}

struct Templates {
    cache: Arc<TemplateCache>,
    /// The templates of a list that is not complete yet.
    listing: Option<PodTemplates>,
}

impl Sink<PodTemplate> for Templates {
    fn seen(&mut self, mut template: PodTemplate, listed: bool) {
        template.metadata.managed_fields = None;
        match &mut self.listing {
            Some(listing) if listed => listing.insert(template),
            _ => {
                let mut templates = PodTemplates::clone(&self.cache.snapshot());
                templates.insert(template);
                self.cache.replace(templates);
            }
        }
    }

    fn restarted(&mut self) {
        self.listing = Some(self.cache.emptied());
    }

    fn listed(&mut self) {
        if let Some(listing) = self.listing.take() {
            self.cache.replace(listing);
        }
    }

    fn gone(&mut self, template: PodTemplate) {
        let namespace = template.metadata.namespace.as_deref().unwrap_or_default();
        let name = template.metadata.name.as_deref().unwrap_or_default();
        let mut templates = PodTemplates::clone(&self.cache.snapshot());
        templates.remove(namespace, name);
        self.cache.replace(templates);
    }
}
