//! What a URL asks for.

use std::sync::Arc;

use crate::kind::Kind;
use crate::registry::Registry;
use crate::status::ApiError;
use crate::store::Key;

/// The parameters of a URL; the first of a name counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// What a path names.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// All objects of a kind, in one namespace or (when empty) in all.
    Collection { kind: Arc<Kind>, namespace: String },
    /// One object, or a part of it.
    Object { kind: Arc<Kind>, key: Key, part: String },
}

/// Why a path names nothing.
#[derive(Clone, Debug)]
pub(crate) enum Unroutable {
    /// Not even a group: the real server answers with plain text.
    Page,
    /// A group that exists, without such a resource.
    Resource,
}

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// A parameter that is given and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// Anything but the ways to say no means yes, as in Go's conversion of query parameters.
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
                let cause = crate::status::Cause::unsupported("dryRun", &value[0], &["All".into()]);
                Err(ApiError::invalid_named("meta.k8s.io", "CreateOptions", "", &[cause]))
            }
        }
    }
}

/// Finds the kind and the object that a path names.
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
        ["namespaces", name, part @ ("status" | "finalize")] => {
            Ok(Target::Object { kind: kind("namespaces")?, key: Key::new("", *name), part: (*part).to_owned() })
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
        [name] => Ok(Target::Object { kind, key: Key::new(namespace, *name), part: String::new() }),
        [name, part] => Ok(Target::Object { kind, key: Key::new(namespace, *name), part: (*part).to_owned() }),
        _ => Err(Unroutable::Resource),
    }
}

fn decoded(part: &str) -> String {
    // Only percent signs matter in a path; a plus sign is a plus sign.
    let plain = part.replace('+', "%2B");
    url::form_urlencoded::parse(format!("x={plain}").as_bytes())
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}
