//! The namespace and name of a `TaskAction`.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Names an action.
///
/// ```
/// use aileron_machinery::ActionKey;
/// use aileron_machinery::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
///
/// let metadata = ObjectMeta { namespace: Some("team".into()), name: Some("run-a0".into()), ..ObjectMeta::default() };
/// assert_eq!(ActionKey::of(&metadata), ActionKey::new("team", "run-a0"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActionKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl ActionKey {
    /// The action of this name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self::new(metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
    }
}
