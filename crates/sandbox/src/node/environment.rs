//! The environment of a container: where its variables come from.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, EnvVarSource, Pod};

use super::expand::expand;
use super::fields::{self, FieldError};
use super::requests::Amounts;

/// The content of a config map or secret.
pub(crate) type Content = BTreeMap<String, Vec<u8>>;

/// Whether it is a config map or a secret; they are told apart only in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SourceKind {
    ConfigMap,
    Secret,
}

/// The config maps and secrets of a namespace that matter, as far as they exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    pub namespace: String,
    pub found: BTreeMap<(SourceKind, String), Content>,
}

/// Why a container cannot be made, in the kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("{} {name:?} not found", kind.lower())]
    NoSource { kind: SourceKind, name: String },
    #[error("couldn't find key {key} in {} {namespace}/{name}", kind.upper())]
    NoKey { kind: SourceKind, namespace: String, name: String, key: String },
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error("failed to read {} {name:?}: {text}", kind.lower())]
    Unread { kind: SourceKind, name: String, text: String },
}

/// What variables can speak of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub pod: &'a Pod,
    pub allocatable: &'a Amounts,
    pub sources: &'a Sources,
}

impl SourceKind {
    fn lower(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }

    fn upper(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

impl Sources {
    /// The whole content; `None` if it does not exist and need not.
    pub(crate) fn content(
        &self,
        kind: SourceKind,
        name: &str,
        optional: bool,
    ) -> Result<Option<&Content>, ConfigError> {
        match self.found.get(&(kind, name.to_owned())) {
            None if !optional => Err(ConfigError::NoSource { kind, name: name.to_owned() }),
            content => Ok(content),
        }
    }

    /// One key of it; `None` if it is not there and need not be.
    pub(crate) fn key(
        &self,
        kind: SourceKind,
        name: &str,
        key: &str,
        optional: bool,
    ) -> Result<Option<&[u8]>, ConfigError> {
        let Some(content) = self.content(kind, name, optional)? else { return Ok(None) };
        match content.get(key) {
            None if !optional => {
                let (name, key) = (name.to_owned(), key.to_owned());
                Err(ConfigError::NoKey { kind, namespace: self.namespace.clone(), name, key })
            }
            value => Ok(value.map(Vec::as_slice)),
        }
    }
}

/// The config maps and secrets that a container's variables refer to.
pub(crate) fn referred(container: &Container) -> BTreeSet<(SourceKind, String)> {
    let mut names = BTreeSet::new();
    for from in container.env_from.iter().flatten() {
        names.extend(from.config_map_ref.iter().map(|map| (SourceKind::ConfigMap, map.name.clone())));
        names.extend(from.secret_ref.iter().map(|secret| (SourceKind::Secret, secret.name.clone())));
    }
    for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
        names.extend(source.config_map_key_ref.iter().map(|key| (SourceKind::ConfigMap, key.name.clone())));
        names.extend(source.secret_key_ref.iter().map(|key| (SourceKind::Secret, key.name.clone())));
    }
    names
}

/// All variables of a container on top of those that every container has. A later one replaces an earlier one of its
/// name and may refer to it. Mirrors `Kubelet.makeEnvironmentVariables`.
pub(crate) fn resolve(
    container: &Container,
    mut variables: BTreeMap<String, String>,
    facts: Facts<'_>,
) -> Result<BTreeMap<String, String>, ConfigError> {
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let map = from.config_map_ref.iter().map(|map| (SourceKind::ConfigMap, &map.name, map.optional));
        let secret = from.secret_ref.iter().map(|secret| (SourceKind::Secret, &secret.name, secret.optional));
        for (kind, name, optional) in map.chain(secret) {
            let content = facts.sources.content(kind, name, optional.unwrap_or(false))?;
            for (key, value) in content.into_iter().flatten() {
                variables.insert(format!("{prefix}{key}"), String::from_utf8_lossy(value).into_owned());
            }
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(text), _) if !text.is_empty() => Some(expand(text, |name| variables.get(name).map(String::as_str))),
            (_, Some(source)) => from_source(container, source, facts)?,
            _ => Some(String::new()),
        };
        if let Some(value) = value {
            variables.insert(variable.name.clone(), value);
        }
    }
    // No program can be started with such names.
    variables.retain(|name, _| !name.is_empty() && !name.contains(['=', '\0']));
    Ok(variables)
}

/// `None` where an optional source is not there: the variable is then not set at all.
fn from_source(container: &Container, source: &EnvVarSource, facts: Facts<'_>) -> Result<Option<String>, ConfigError> {
    if let Some(field) = &source.field_ref {
        return Ok(Some(fields::field(facts.pod, &field.field_path)?));
    }
    if let Some(resource) = &source.resource_field_ref {
        return Ok(Some(fields::resource(facts.pod, Some(container), resource, facts.allocatable)?));
    }
    let map = source.config_map_key_ref.as_ref().map(|key| (SourceKind::ConfigMap, &key.name, &key.key, key.optional));
    let secret = source.secret_key_ref.as_ref().map(|key| (SourceKind::Secret, &key.name, &key.key, key.optional));
    let Some((kind, name, key, optional)) = map.or(secret) else { return Ok(Some(String::new())) };
    let value = facts.sources.key(kind, name, key, optional.unwrap_or(false))?;
    Ok(value.map(|value| String::from_utf8_lossy(value).into_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn resolved(container: Value) -> Result<Vec<String>, String> {
        let mut container = container;
        container["name"] = "c".into();
        let container: Container = serde_json::from_value(container).unwrap();
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": []}})).unwrap();
        let content = |pairs: &[(&str, &str)]| -> Content {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
        };
        let found = BTreeMap::from([
            ((SourceKind::ConfigMap, "settings".to_owned()), content(&[("A", "1"), ("B", "$(A)")])),
            ((SourceKind::Secret, "keys".to_owned()), content(&[("TOKEN", "t")])),
        ]);
        let sources = Sources { namespace: "ns".to_owned(), found };
        let facts = Facts { pod: &pod, allocatable: &Amounts::new(), sources: &sources };
        let variables = resolve(&container, BTreeMap::new(), facts).map_err(|error| error.to_string())?;
        Ok(variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
    }

    fn key(kind: &str, name: &str, key: &str, optional: bool) -> Value {
        json!({"env": [{"name": "X", "valueFrom": {kind: {"name": name, "key": key, "optional": optional}}}]})
    }

    #[test]
    fn variables_refer_to_earlier_ones_and_replace_those_of_sources() {
        let container = json!({
            "envFrom": [{"configMapRef": {"name": "settings"}}, {"prefix": "S_", "secretRef": {"name": "keys"}}],
            "env": [
                {"name": "C", "value": "$(A)-$(LATER)-$$(A)"},
                {"name": "A", "value": "2"},
                {"name": "LATER", "value": "$(A)"},
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "EMPTY"},
            ],
        });
        let expected = ["A=2", "B=$(A)", "C=1-$(LATER)-$(A)", "EMPTY=", "LATER=2", "NAME=p", "S_TOKEN=t"];
        assert_eq!(resolved(container).unwrap(), expected);
    }

    #[test]
    fn what_is_missing_is_named_unless_it_may_be() {
        let said = |container| resolved(container).unwrap_err();
        assert_eq!(said(key("configMapKeyRef", "no", "A", false)), "configmap \"no\" not found");
        assert_eq!(said(key("secretKeyRef", "no", "A", false)), "secret \"no\" not found");
        assert_eq!(
            said(key("configMapKeyRef", "settings", "Z", false)),
            "couldn't find key Z in ConfigMap ns/settings"
        );
        assert_eq!(said(key("secretKeyRef", "keys", "Z", false)), "couldn't find key Z in Secret ns/keys");
        assert_eq!(said(json!({"envFrom": [{"secretRef": {"name": "no"}}]})), "secret \"no\" not found");
        assert_eq!(resolved(key("configMapKeyRef", "no", "A", true)).unwrap(), Vec::<String>::new());
        assert_eq!(resolved(key("secretKeyRef", "keys", "Z", true)).unwrap(), Vec::<String>::new());
    }
}
