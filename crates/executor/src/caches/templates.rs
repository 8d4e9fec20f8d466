//! The pod templates of the cluster. Pods are built from a snapshot of them.

use std::sync::{Arc, PoisonError, RwLock};

use aileron_machinery::PodTemplates;

/// The pod templates of the cluster.
pub struct TemplateCache {
    default_namespace: String,
    current: RwLock<Arc<PodTemplates>>,
}

impl TemplateCache {
    /// No templates yet. Templates that a namespace does not have are taken from the default namespace.
    pub fn new(default_namespace: &str) -> Self {
        let current = RwLock::new(Arc::new(PodTemplates::new(default_namespace)));
        Self { default_namespace: default_namespace.to_owned(), current }
    }

    /// A set without templates, with the same default namespace.
    pub(crate) fn emptied(&self) -> PodTemplates {
        PodTemplates::new(&self.default_namespace)
    }

    /// The current templates.
    pub fn snapshot(&self) -> Arc<PodTemplates> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn replace(&self, templates: PodTemplates) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(templates);
    }
}
