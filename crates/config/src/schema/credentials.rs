//! Which values are credentials, and the placeholder that is shown instead of them.
//!
//! In sections that can hold credentials, only texts on an allow list are shown: a key that nobody has thought of is
//! hidden. In all other sections, texts are hidden if the name of their key, or of a key above it, says that they are
//! secret. Credentials in URLs are hidden everywhere. Durations, quantities, enumerated words and numbers of keys that only
//! accept numbers are never credentials. A number below a key that accepts anything may be a password.

use serde_json::{Map, Value};

use super::shape::{Kind, Shape};

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
const SECRET_NAMES: [&str; 15] = [
    "accesskey",
    "accountkey",
    "apikey",
    "clientsecret",
    "credential",
    "encryptionkey",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secretaccess",
    "secretkey",
    "sharedkey",
    "signature",
    "token",
];

/// A key that ends in this is that of a credential. `secret-name` and `secrets-prefix` are not.
const SECRET_ENDING: &str = "secret";

/// A key with one of these words is that of a credential: signed access to Azure, and short names of passwords.
const SECRET_WORDS: [&str; 4] = ["pass", "pwd", "sas", "sig"];

impl Secrets {
    /// The value at this path as it may be shown. `shape` is the type of the value.
    pub(crate) fn mask(self, shape: Shape<'_>, path: &[&str], value: &Value) -> Value {
        match self {
            Self::Shown => value.clone(),
            Self::Hidden => masked(Some(shape), &mut path.to_vec(), value),
        }
    }
}

/// Whether a text at this path can be part of an error message, or is a credential or contains one.
pub(crate) fn may_be_shown(path: &[&str], text: &str) -> bool {
    masked_text(path, text) == text
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
        Value::Number(number) if matches!(kind, Kind::Any) && masked_text(path, &number.to_string()) == HIDDEN => {
            Value::String(HIDDEN.to_owned())
        }
        other => other.clone(),
    }
}

fn masked_text(path: &[&str], text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let shown = match SECTIONS.iter().find_map(|section| Some((section, below(section, path)?))) {
        Some((section, rest)) => {
            let is_allowed = section.shown.iter().any(|allowed| matches(allowed, rest));
            // The query of a URL may contain a signature.
            is_allowed && !text.contains('?')
        }
        None => !is_secret_name(path),
    };
    if shown { without_credentials(text) } else { HIDDEN.to_owned() }
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

/// Whether a key of the path is that of a credential. A key above may say it: `credentials: {user: .., value: ..}`.
fn is_secret_name(path: &[&str]) -> bool {
    path.iter().filter(|part| **part != ANY).any(|part| is_secret(part))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    let letters: String = name.chars().filter(|letter| !"-_.".contains(*letter)).collect();
    letters.ends_with(SECRET_ENDING)
        || SECRET_NAMES.iter().any(|secret| letters.contains(secret))
        || name.split(['-', '_', '.']).any(|word| SECRET_WORDS.contains(&word))
}

/// The text without user names and passwords of URLs, and without the values of parameters that are credentials:
/// `redis://<hidden>@host/0`, `https://host/?token=<hidden>`.
fn without_credentials(text: &str) -> String {
    // A text may be a list of URLs, or the options of a program.
    let words = text.split_inclusive(char::is_whitespace).flat_map(urls);
    words.map(|word| without_parameters(&without_password(word))).collect()
}

/// The parts of a list with commas, each with at most one scheme. Other commas may be part of a password.
fn urls(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    for (comma, _) in list.match_indices(',') {
        let rest = &list[comma + 1..];
        if rest.split(',').next().is_some_and(|next| next.contains("://")) {
            parts.push(&list[begin..=comma]);
            begin = comma + 1;
        }
    }
    parts.push(&list[begin..]);
    parts
}

/// The URL without its user name and password.
fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (&url[..scheme.len() + 3], rest));
    let Some(last) = rest.rfind('@') else { return url.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = &rest[..end];
    // The name of an image with its digest.
    let is_digest = scheme.is_empty() && rest[last + 1..].starts_with("sha256:");
    // A password that is not escaped may contain the letters that end an authority. Then a colon is followed by it instead
    // of by a port.
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let has_password =
        |text: &str| text.rsplit_once(':').is_some_and(|(_, port)| !is_port(port) && !port.ends_with(']'));
    let at = match authority.rfind('@') {
        Some(_) if scheme.is_empty() && (!authority.contains(':') || is_digest) => None,
        Some(at) if has_password(&authority[at + 1..]) => Some(last),
        Some(at) => Some(at),
        None if has_password(authority) && !is_digest => Some(last),
        None => None,
    };
    at.map_or_else(|| url.to_owned(), |at| format!("{scheme}{HIDDEN}{}", &rest[at..]))
}

/// The text without the values of parameters whose name is that of a credential.
fn without_parameters(text: &str) -> String {
    let hidden = |part: &str| match part.split_once('=') {
        Some((name, value)) if !value.is_empty() && is_secret(name.trim_start_matches('-')) => {
            let is_end = |letter: char| letter.is_whitespace() || "?&;#".contains(letter);
            let end = value.find(is_end).map_or("", |end| &value[end..]);
            format!("{name}={HIDDEN}{end}")
        }
        _ => part.to_owned(),
    };
    text.split_inclusive(['?', '&', ';', '#']).map(hidden).collect()
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
        for name in [
            "password",
            "AccessKey",
            "spark.hadoop.fs.s3a.secret.key",
            "api-key",
            "DB_PASSWORD",
            "authToken",
            "spark.authenticate.secret",
            "webhookSecret",
            "spark.hadoop.fs.azure.account.key.store.blob.core.windows.net",
            "spark.hadoop.fs.azure.sas.data.store.blob.core.windows.net",
            "db-pwd",
        ] {
            assert!(is_secret_name(&["plugins", "x", name]), "{name}");
            assert!(is_secret_name(&["plugins", "x", name, ANY, "value"]), "below {name}");
        }
        for name in ["region", "keyring", "secretName", "secrets-prefix", "key", "bypass", "sash", "signal"] {
            assert!(!is_secret_name(&["plugins", "x", name]), "{name}");
        }
    }

    #[test]
    fn credentials_in_urls_are_hidden() {
        for (text, shown) in [
            ("postgres://u:p@h:5432/db?x=1", "postgres://<hidden>@h:5432/db?x=1"),
            ("redis://:p@ss@h", "redis://<hidden>@h"),
            ("https://token@h/x", "https://<hidden>@h/x"),
            ("u:p@h:9000", "<hidden>@h:9000"),
            ("redis://u:p/a#s?s@h:1/0", "redis://<hidden>@h:1/0"),
            ("http://a/x,http://u:p@b", "http://a/x,http://<hidden>@b"),
            ("redis://u:p,q@h1,h2", "redis://<hidden>@h1,h2"),
            ("https://h/x?a=1&access_token=t&b=2#c", "https://h/x?a=1&access_token=<hidden>&b=2#c"),
            ("https://h/x?sig=s", "https://h/x?sig=<hidden>"),
            ("jdbc:sqlserver://h:1433;user=u;password=p;x=1", "jdbc:sqlserver://h:1433;user=u;password=<hidden>;x=1"),
            ("-Dx=1 -Dkey.store.password=p -Dy=2", "-Dx=1 -Dkey.store.password=<hidden> -Dy=2"),
        ] {
            assert_eq!(without_credentials(text), shown, "{text}");
        }
        for harmless in [
            "http://h/a@b",
            "http://h:80/a@b",
            "http://[::1]:80/a@b",
            "http://h?u=a@b",
            "user@host",
            "a://b",
            "busybox:1@sha256:00",
            "registry:5000/busybox:1@sha256:00",
            "https://h/?pod={{ .podName }}&x=",
            "",
        ] {
            assert_eq!(without_credentials(harmless), harmless);
        }
    }

    #[test]
    fn a_number_below_a_key_that_accepts_anything_may_be_a_password() {
        let value = serde_json::json!({"token": 123_456, "deep": [{"x": 7}]});
        let mut path = vec!["plugins", "connector-service", "webApi", "resourceMeta"];
        let shown = masked(None, &mut path, &value);
        assert_eq!(shown, serde_json::json!({"token": HIDDEN, "deep": [{"x": HIDDEN}]}));
        let other = masked(None, &mut vec!["plugins", "mine"], &value);
        assert_eq!(other, serde_json::json!({"token": HIDDEN, "deep": [{"x": 7}]}));
    }
}
