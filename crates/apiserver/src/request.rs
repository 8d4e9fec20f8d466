//! The URL and the body of a request.

pub(crate) mod body;

use std::sync::Arc;

use crate::errors::{ApiError, Cause};
use crate::kinds::Kind;
use crate::kinds::registry::Registry;
use crate::object::Key;

/// The query parameters of a URL. If a name occurs several times, the first value counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// What the path of a URL addresses.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// All objects of a kind in one namespace, or in all namespaces if it is empty.
    Collection { kind: Arc<Kind>, namespace: String },
    /// One object, or one of its subresources if `subresource` is not empty.
    Object { kind: Arc<Kind>, key: Key, subresource: String },
}

/// Why a path addresses nothing.
#[derive(Clone, Debug)]
pub(crate) enum Unroutable {
    /// There is no such group. kube-apiserver answers with plain text.
    Page,
    /// The group exists but has no such resource.
    Resource,
}

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// The value of a parameter; `None` if it is absent or empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// A boolean parameter. As in kube-apiserver, every value that does not mean false means true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .is_some_and(|(_, value)| !["0", "f", "F", "false", "False", "FALSE"].contains(&value.as_str()))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let problem = |_| ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
        text.parse().map(Some).map_err(problem)
    }

    pub(crate) fn is_dry_run(&self) -> Result<bool, ApiError> {
        match self.get("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => {
                let value = serde_json::json!([other]);
                let cause = Cause::unsupported("dryRun", &value[0], &["All".into()]);
                Err(ApiError::invalid_named("meta.k8s.io", "CreateOptions", "", &[cause]))
            }
        }
    }
}

/// Finds the kind and the object that a path addresses.
pub(crate) fn resolve(registry: &Registry, path: &str) -> Result<Target, Unroutable> {
    let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Err(Unroutable::Page),
    };
    if !registry.has_version(group, version) || rest.is_empty() {
        return Err(if group.is_empty() { Unroutable::Resource } else { Unroutable::Page });
    }
    let kind = |plural: &str| registry.get(group, version, plural).ok_or(Unroutable::Resource);
    match rest {
        ["namespaces", name, subresource @ ("status" | "finalize")] => {
            let (kind, key) = (kind("namespaces")?, Key::new("", *name));
            Ok(Target::Object { kind, key, subresource: (*subresource).to_owned() })
        }
        ["namespaces", namespace, plural, more @ ..] => {
            let kind = kind(plural)?;
            if !kind.namespaced || namespace.is_empty() {
                return Err(Unroutable::Resource);
            }
            target(kind, namespace, more)
        }
        [plural, more @ ..] => {
            let kind = kind(plural)?;
            if kind.namespaced && !more.is_empty() {
                return Err(Unroutable::Resource);
            }
            target(kind, "", more)
        }
        [] => Err(Unroutable::Page),
    }
}

fn target(kind: Arc<Kind>, namespace: &str, more: &[&str]) -> Result<Target, Unroutable> {
    match more {
        [] => Ok(Target::Collection { kind, namespace: namespace.to_owned() }),
        [name] => Ok(Target::Object { kind, key: Key::new(namespace, *name), subresource: String::new() }),
        [name, subresource] => {
            Ok(Target::Object { kind, key: Key::new(namespace, *name), subresource: (*subresource).to_owned() })
        }
        _ => Err(Unroutable::Resource),
    }
}

fn decoded(part: &str) -> String {
    // In a path only percent signs are escapes. The form decoder would turn a plus sign into a space.
    let plain = part.replace('+', "%2B");
    url::form_urlencoded::parse(format!("x={plain}").as_bytes())
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}
