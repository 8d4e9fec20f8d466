//! The `PodTemplate` objects of the cluster, by name and namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodTemplate;

/// A snapshot of the templates. Taken as a whole by each build, so that a template changing meanwhile is seen either
/// before or after, never in the middle; and shared, so that building from it cannot change it.
///
/// ```
/// use aileron_machinery::PodTemplates;
/// use aileron_machinery::k8s_openapi::api::core::v1::PodTemplate;
/// # use aileron_machinery::serde_json::{self, json};
///
/// let template: PodTemplate = serde_json::from_value(json!({"metadata": {"name": "base", "namespace": "flyte"}}))?;
/// let mut templates = PodTemplates::new("flyte");
/// templates.insert(template);
/// assert!(templates.find("team", "base").unwrap().is_some(), "the one in the default namespace");
///
/// templates.insert_unreadable("team", "base", "spec: unknown field");
/// assert!(templates.find("team", "base").is_err());
/// templates.remove("team", "base");
/// # assert!(templates.find("team", "base").is_ok());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PodTemplates {
    by_name: BTreeMap<String, BTreeMap<String, Entry>>,
    default_namespace: String,
}

/// A template, or why it cannot be read.
type Entry = Result<Arc<PodTemplate>, UnreadableTemplate>;

/// A template that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("PodTemplate '{name}' in namespace '{namespace}' cannot be read: {error}; correct or delete it")]
pub struct UnreadableTemplate {
    namespace: String,
    name: String,
    error: String,
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
        self.by_name.entry(name).or_default().insert(namespace, Ok(Arc::new(template)));
    }

    /// Adds or replaces a template that cannot be read. A task that needs it fails with this error.
    pub fn insert_unreadable(&mut self, namespace: &str, name: &str, error: &str) {
        let unreadable = UnreadableTemplate { namespace: namespace.into(), name: name.into(), error: error.into() };
        self.by_name.entry(name.into()).or_default().insert(namespace.into(), Err(unreadable));
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
    ///
    /// # Errors
    /// This template cannot be read. The one in the default namespace does not replace it, because it may differ.
    pub fn find(&self, namespace: &str, name: &str) -> Result<Option<&Arc<PodTemplate>>, &UnreadableTemplate> {
        let Some(namespaces) = self.by_name.get(name) else { return Ok(None) };
        let found = namespaces.get(namespace).or_else(|| namespaces.get(&self.default_namespace));
        found.map(Result::as_ref).transpose()
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
        let namespace = |templates: &PodTemplates, of: &str| {
            templates.find(of, "base").ok().flatten().and_then(|found| found.metadata.namespace.clone())
        };
        assert_eq!(namespace(&templates, "team").as_deref(), Some("team"));
        assert_eq!(namespace(&templates, "other").as_deref(), Some("flyte"));
        templates.remove("flyte", "base");
        assert_eq!(namespace(&templates, "other"), None);
    }

    #[test]
    fn a_template_that_cannot_be_read_is_not_replaced_by_the_default_one() {
        let mut templates = PodTemplates::new("flyte");
        templates.insert(template("flyte", "base"));
        templates.insert_unreadable("team", "base", "spec: odd");
        let error = templates.find("team", "base").map_err(ToString::to_string);
        let expected = "PodTemplate 'base' in namespace 'team' cannot be read: spec: odd; correct or delete it";
        assert_eq!(error.err().as_deref(), Some(expected));
        assert!(templates.find("other", "base").is_ok_and(|found| found.is_some()));
        templates.insert(template("team", "base"));
        assert!(templates.find("team", "base").is_ok_and(|found| found.is_some()), "it was corrected");
    }
}
