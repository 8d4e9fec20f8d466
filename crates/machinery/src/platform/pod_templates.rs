//! The `PodTemplate` objects of the cluster, by name and namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodTemplate;

/// A snapshot of the templates. Taken as a whole by each build, so that a template changing meanwhile is seen either
/// before or after, never in the middle; and shared, so that building from it cannot change it.
#[derive(Clone, Debug, Default)]
pub struct PodTemplates {
    by_name: BTreeMap<String, BTreeMap<String, Arc<PodTemplate>>>,
    default_namespace: String,
}

impl PodTemplates {
    /// No templates yet; names that a namespace does not have are looked up in `default_namespace`.
    pub fn new(default_namespace: impl Into<String>) -> Self {
        Self { by_name: BTreeMap::new(), default_namespace: default_namespace.into() }
    }

    /// Adds or replaces a template.
    pub fn insert(&mut self, template: PodTemplate) {
        let name = template.metadata.name.clone().unwrap_or_default();
        let namespace = template.metadata.namespace.clone().unwrap_or_default();
        self.by_name.entry(name).or_default().insert(namespace, Arc::new(template));
    }

    /// Forgets a template.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        if let Some(namespaces) = self.by_name.get_mut(name) {
            namespaces.remove(namespace);
            if namespaces.is_empty() {
                self.by_name.remove(name);
            }
        }
    }

    /// The template of this name in the namespace, else the one in the default namespace.
    ///
    /// Mirrors `PodTemplateStore.LoadOrDefault`.
    pub fn find(&self, namespace: &str, name: &str) -> Option<&Arc<PodTemplate>> {
        let namespaces = self.by_name.get(name)?;
        namespaces.get(namespace).or_else(|| namespaces.get(&self.default_namespace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    fn template(namespace: &str, name: &str) -> PodTemplate {
        PodTemplate {
            metadata: ObjectMeta { name: Some(name.into()), namespace: Some(namespace.into()), ..Default::default() },
            template: None,
        }
    }

    #[test]
    fn the_own_namespace_wins_over_the_default_one() {
        let mut templates = PodTemplates::new("flyte");
        templates.insert(template("flyte", "base"));
        templates.insert(template("team", "base"));
        let namespace = |found: Option<&Arc<PodTemplate>>| found.and_then(|t| t.metadata.namespace.clone());
        assert_eq!(namespace(templates.find("team", "base")).as_deref(), Some("team"));
        assert_eq!(namespace(templates.find("other", "base")).as_deref(), Some("flyte"));
        templates.remove("flyte", "base");
        assert!(templates.find("other", "base").is_none());
    }
}
