//! The environment variables of a container.

pub(crate) mod expand;
pub(crate) mod fields;
pub(crate) mod sources;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, EnvVarSource, Pod};

use self::expand::expand;
use self::sources::{ConfigError, ConfigSources, SourceKind};
use crate::node::resources::Amounts;

/// What environment variables and volumes of a pod can refer to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodValues<'a> {
    pub pod: &'a Pod,
    pub allocatable: &'a Amounts,
    pub sources: &'a ConfigSources,
}

/// The config maps and secrets that the environment variables of a container refer to.
pub(crate) fn referenced_sources(container: &Container) -> BTreeSet<(SourceKind, String)> {
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

/// Adds the variables of a container to `variables`, which every container has. A variable replaces an earlier one of
/// the same name and may refer to it. Mirrors `Kubelet.makeEnvironmentVariables`.
pub(crate) fn resolve(
    container: &Container,
    mut variables: BTreeMap<String, String>,
    values: PodValues<'_>,
) -> Result<BTreeMap<String, String>, ConfigError> {
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let map = from.config_map_ref.iter().map(|map| (SourceKind::ConfigMap, &map.name, map.optional));
        let secret = from.secret_ref.iter().map(|secret| (SourceKind::Secret, &secret.name, secret.optional));
        for (kind, name, optional) in map.chain(secret) {
            let data = values.sources.data(kind, name, optional.unwrap_or(false))?;
            for (key, value) in data.into_iter().flatten() {
                variables.insert(format!("{prefix}{key}"), String::from_utf8_lossy(value).into_owned());
            }
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(text), _) if !text.is_empty() => Some(expand(text, |name| variables.get(name).map(String::as_str))),
            (_, Some(source)) => from_source(container, source, values)?,
            _ => Some(String::new()),
        };
        if let Some(value) = value {
            variables.insert(variable.name.clone(), value);
        }
    }
    // The operating system does not accept such names.
    variables.retain(|name, _| !name.is_empty() && !name.contains(['=', '\0']));
    Ok(variables)
}

/// The value from another source. `None` if the source is optional and does not exist: the variable is not set then.
fn from_source(
    container: &Container,
    source: &EnvVarSource,
    values: PodValues<'_>,
) -> Result<Option<String>, ConfigError> {
    if let Some(field) = &source.field_ref {
        return Ok(Some(fields::field(values.pod, &field.field_path)?));
    }
    if let Some(resource) = &source.resource_field_ref {
        return Ok(Some(fields::resource(values.pod, Some(container), resource, values.allocatable)?));
    }
    let map = source.config_map_key_ref.as_ref().map(|key| (SourceKind::ConfigMap, &key.name, &key.key, key.optional));
    let secret = source.secret_key_ref.as_ref().map(|key| (SourceKind::Secret, &key.name, &key.key, key.optional));
    let Some((kind, name, key, optional)) = map.or(secret) else { return Ok(Some(String::new())) };
    let value = values.sources.key(kind, name, key, optional.unwrap_or(false))?;
    Ok(value.map(|value| String::from_utf8_lossy(value).into_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::sources::ConfigData;
    use super::*;

    fn resolved(container: Value) -> Result<Vec<String>, String> {
        let mut container = container;
        container["name"] = "c".into();
        let container: Container = serde_json::from_value(container).unwrap();
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": []}})).unwrap();
        let data = |pairs: &[(&str, &str)]| -> ConfigData {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
        };
        let found = BTreeMap::from([
            ((SourceKind::ConfigMap, "settings".to_owned()), data(&[("A", "1"), ("B", "$(A)")])),
            ((SourceKind::Secret, "keys".to_owned()), data(&[("TOKEN", "t")])),
        ]);
        let sources = ConfigSources { namespace: "ns".to_owned(), found };
        let values = PodValues { pod: &pod, allocatable: &Amounts::new(), sources: &sources };
        let variables = resolve(&container, BTreeMap::new(), values).map_err(|error| error.to_string())?;
        Ok(variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
    }

    fn key(kind: &str, name: &str, key: &str, optional: bool) -> Value {
        json!({"env": [{"name": "X", "valueFrom": {kind: {"name": name, "key": key, "optional": optional}}}]})
    }

    #[test]
    fn variables_refer_to_earlier_ones_and_replace_variables_of_sources() {
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
    fn a_missing_source_or_key_is_an_error_unless_it_is_optional() {
        let error = |container| resolved(container).unwrap_err();
        assert_eq!(error(key("configMapKeyRef", "no", "A", false)), "configmap \"no\" not found");
        assert_eq!(error(key("secretKeyRef", "no", "A", false)), "secret \"no\" not found");
        assert_eq!(
            error(key("configMapKeyRef", "settings", "Z", false)),
            "couldn't find key Z in ConfigMap ns/settings"
        );
        assert_eq!(error(key("secretKeyRef", "keys", "Z", false)), "couldn't find key Z in Secret ns/keys");
        assert_eq!(error(json!({"envFrom": [{"secretRef": {"name": "no"}}]})), "secret \"no\" not found");
        assert_eq!(resolved(key("configMapKeyRef", "no", "A", true)).unwrap(), Vec::<String>::new());
        assert_eq!(resolved(key("secretKeyRef", "keys", "Z", true)).unwrap(), Vec::<String>::new());
    }
}
