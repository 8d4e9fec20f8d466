//! Pod templates of the cluster, as one snapshot that pods are built from.

use std::sync::{Arc, PoisonError, RwLock};

use aileron_machinery::PodTemplates;

/// The current snapshot.
pub struct TemplateCache {
    current: RwLock<Arc<PodTemplates>>,
}

impl TemplateCache {
    /// None yet; templates that a namespace does not have are taken from the default one.
    pub fn new(default_namespace: &str) -> Self {
        Self { current: RwLock::new(Arc::new(PodTemplates::new(default_namespace))) }
    }

    /// The templates as they are now.
    pub fn snapshot(&self) -> Arc<PodTemplates> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn replace(&self, templates: PodTemplates) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(templates);
    }
}
