//! Replaces credentials by a placeholder before the configuration is shown.
//!
//! In sections that can hold credentials, only texts on an allow list are shown: a key that nobody has thought of is
//! hidden. In all other sections, texts are hidden if the name of their key says that they are secret. Credentials in
//! URLs are hidden everywhere. Numbers, durations, quantities and enumerated words are never credentials.

use serde_json::{Map, Value};

use crate::schema::shape::{Kind, Shape};

/// Whether credentials are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Secrets {
    /// A placeholder is shown instead.
    #[default]
    Hidden,
    /// They are shown as they are.
    Shown,
}

/// Printed instead of a credential.
const HIDDEN: &str = "<hidden>";

/// Stands for any key of a map, and for the items of a list.
const ANY: &str = "*";

/// A section that can hold credentials.
struct Section {
    path: &'static str,
    /// The texts below the section that may be shown.
    shown: &'static [&'static str],
}

/// Settings of the storage section that are no credentials. The settings of an object store are a free map, and which of
/// them are secret depends on the store: `secret_key`, `token`, `key`, `json` and others.
const STORAGE: &[&str] = &[
    "type",
    "container",
    "defaultHttpClient.timeout",
    "redis.addr",
    "schemes.*.config.account",
    "schemes.*.config.auth_type",
    "schemes.*.config.disable_ssl",
    "schemes.*.config.endpoint",
    "schemes.*.config.path",
    "schemes.*.config.project_id",
    "schemes.*.config.region",
    "schemes.*.config.scopes",
    "schemes.*.config.secret_key_path",
    "schemes.*.kind",
    "schemes.*.redis.addr",
    "stow.config.account",
    "stow.config.auth_type",
    "stow.config.disable_ssl",
    "stow.config.endpoint",
    "stow.config.path",
    "stow.config.project_id",
    "stow.config.region",
    "stow.config.scopes",
    "stow.config.secret_key_path",
    "stow.kind",
];

const SECTIONS: &[Section] = &[
    Section { path: "storage", shown: STORAGE },
    Section { path: "plugins.k8s.co-pilot.storage-config-override", shown: STORAGE },
    // The names of environment variables do not tell which of them are secret.
    Section { path: "plugins.k8s.default-env-vars", shown: &[] },
    Section {
        path: "plugins.connector-service",
        shown: &[
            "connectorApps.*.domain",
            "connectorApps.*.endpoint",
            "connectorApps.*.project",
            "connectorForTaskTypes.*",
            "connectors.*.domain",
            "connectors.*.endpoint",
            "connectors.*.project",
            "defaultConnector.domain",
            "defaultConnector.endpoint",
            "defaultConnector.project",
            "supportedTaskTypes.*",
        ],
    },
    Section {
        path: "cache.redis",
        shown: &["options.Addr", "options.ClientName", "options.Network", "options.PasswordSecretName"],
    },
    // The location of secrets, not the secrets themselves.
    Section { path: "secrets", shown: &["env-prefix", "secrets-prefix", "type"] },
    Section {
        path: "webhook",
        shown: &[
            "awsSecretManager.sidecarImage",
            "azureSecretManager.sidecarImage",
            "certDir",
            "embeddedSecretManagerConfig.awsConfig.region",
            "embeddedSecretManagerConfig.azureConfig.vaultURI",
            "embeddedSecretManagerConfig.fileMountInitContainer.containerName",
            "embeddedSecretManagerConfig.fileMountInitContainer.image",
            "embeddedSecretManagerConfig.gcpConfig.project",
            "embeddedSecretManagerConfig.k8sConfig.namespace",
            "gcpSecretManager.sidecarImage",
            "imageBuilderConfig.excludedContainerNames.*",
            "imageBuilderConfig.excludedImagePrefixes.*",
            "imageBuilderConfig.hostnameReplacement.existing",
            "imageBuilderConfig.hostnameReplacement.replacement",
            "imageBuilderConfig.labelSelector.matchLabels.*",
            "metrics-prefix",
            "namespaceSelector.matchLabels.*",
            "secretEnvVarPrefix",
            "secretName",
            "serviceName",
            "vaultSecretManager.role",
        ],
    },
];

/// Outside the sections above, a key that contains one of these texts is that of a credential. Letter case, dashes,
/// underscores and dots of the key are ignored.
const SECRET_NAMES: [&str; 9] =
    ["accesskey", "apikey", "clientsecret", "credential", "passwd", "password", "privatekey", "secretkey", "token"];

impl Secrets {
    /// The value at this path as it may be shown. `shape` is the type of the value.
    pub(super) fn mask(self, shape: Shape<'_>, path: &[&str], value: &Value) -> Value {
        match self {
            Self::Shown => value.clone(),
            Self::Hidden => masked(Some(shape), &mut path.to_vec(), value),
        }
    }
}

/// Descends into groups, maps and lists. Below a key that accepts anything, there is no shape.
fn masked<'p>(shape: Option<Shape<'p>>, path: &mut Vec<&'p str>, value: &'p Value) -> Value {
    let kind = shape.map_or(Kind::Any, Shape::kind);
    match value {
        Value::Object(entries) => {
            let below = |key: &str| match &kind {
                Kind::Map(values) => Some(*values),
                Kind::Struct(_) => shape.and_then(|shape| shape.field(key)).map(|field| field.shape),
                _ => None,
            };
            let mut shown = Map::new();
            for (key, value) in entries {
                path.push(key);
                shown.insert(key.clone(), masked(below(key), path, value));
                path.pop();
            }
            Value::Object(shown)
        }
        Value::Array(items) => {
            let inner = if let Kind::List(items) = &kind { Some(*items) } else { None };
            path.push(ANY);
            let items = items.iter().map(|item| masked(inner, path, item)).collect();
            path.pop();
            Value::Array(items)
        }
        Value::String(text) if matches!(kind, Kind::Text | Kind::IntOrText | Kind::Any) => {
            Value::String(masked_text(path, text))
        }
        other => other.clone(),
    }
}

fn masked_text(path: &[&str], text: &str) -> String {
    let shown = match SECTIONS.iter().find_map(|section| Some((section, below(section, path)?))) {
        Some((section, rest)) => {
            let is_allowed = section.shown.iter().any(|allowed| matches(allowed, rest));
            // The query of a URL may contain a signature.
            is_allowed && !text.contains('?')
        }
        None => !is_secret_name(path),
    };
    if shown || text.is_empty() { without_credentials(text) } else { HIDDEN.to_owned() }
}

/// The path below a section, if it is there.
fn below<'p, 's>(section: &Section, path: &'s [&'p str]) -> Option<&'s [&'p str]> {
    let length = section.path.split('.').count();
    (path.len() >= length && matches(section.path, &path[..length])).then(|| &path[length..])
}

/// Whether a path has this pattern. A map may have keys with dots, so the parts are compared one by one.
fn matches(pattern: &str, path: &[&str]) -> bool {
    let mut parts = pattern.split('.');
    let mut fits = |found: &&str| parts.next().is_some_and(|part| part == ANY || part.eq_ignore_ascii_case(found));
    path.iter().all(&mut fits) && parts.next().is_none()
}

fn is_secret_name(path: &[&str]) -> bool {
    let Some(name) = path.iter().rev().find(|part| **part != ANY) else { return false };
    let name: String = name.to_lowercase().chars().filter(|letter| !"-_.".contains(*letter)).collect();
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// The text without the user name and the password of a URL: `redis://<hidden>@host/0`.
fn without_credentials(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{HIDDEN}{}", &rest[at..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_paths() {
        assert!(matches("stow.config.region", &["stow", "config", "Region"]));
        assert!(matches("schemes.*.kind", &["schemes", "gs", "kind"]));
        assert!(!matches("stow.kind", &["stow"]) && !matches("stow", &["stow", "kind"]));
        assert!(!matches("stow.config.region", &["stow", "config", "region.secret"]));
    }

    #[test]
    fn a_key_below_a_section_with_credentials_is_hidden_unless_it_is_on_the_list() {
        for path in [
            &["storage", "brand-new"][..],
            &["storage", "stow", "config", "brand_new"],
            &["storage", "stow", "config", "brand.new"],
            &["storage", "schemes", "new", "anything"],
            &["webhook", "brandNew"],
            &["cache", "redis", "options", "brand_new"],
            &["plugins", "connector-service", "brandNew"],
        ] {
            assert_eq!(masked_text(path, "x"), HIDDEN, "{path:?}");
            assert_eq!(masked_text(path, ""), "", "an empty text is no credential");
        }
        assert_eq!(masked_text(&["storage", "stow", "config", "region"], "x"), "x");
        assert_eq!(masked_text(&["executor", "brandNew"], "x"), "x");
    }

    #[test]
    fn names_of_credentials_are_recognised() {
        for name in ["password", "AccessKey", "spark.hadoop.fs.s3a.secret.key", "api-key", "DB_PASSWORD", "authToken"] {
            assert!(is_secret_name(&["plugins", "x", name]), "{name}");
        }
        for name in ["region", "keyring", "secretName", "secrets-prefix", "key"] {
            assert!(!is_secret_name(&["plugins", "x", name]), "{name}");
        }
    }

    #[test]
    fn credentials_in_urls_are_hidden() {
        assert_eq!(without_credentials("postgres://u:p@h:5432/db?x=1"), "postgres://<hidden>@h:5432/db?x=1");
        assert_eq!(without_credentials("redis://:p@ss@h"), "redis://<hidden>@h");
        for harmless in ["http://h/a@b", "http://h?u=a@b", "user@host", "a://b"] {
            assert_eq!(without_credentials(harmless), harmless);
        }
    }
}
