//! Discovery: groups, versions and resources; also the version and the health of the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};

use super::call;
use crate::kinds::Kind;
use crate::state::ServerState;

/// Media type of aggregated discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Kinds by group and version.
type Groups = BTreeMap<String, BTreeMap<String, Vec<Arc<Kind>>>>;

/// Answers the paths of discovery; `None` for all other paths.
pub(super) fn answer(state: &ServerState, path: &str, headers: &HeaderMap) -> Option<Response> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let aggregated = accept.replace(' ', "").contains("g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let mut groups = groups(state);
    let value = match parts.as_slice() {
        [] => root(&groups),
        ["healthz" | "livez" | "readyz", ..] => return Some((StatusCode::OK, "ok").into_response()),
        ["version"] => version(state),
        ["api"] if aggregated => return Some(aggregate(&groups, str::is_empty)),
        ["apis"] if aggregated => return Some(aggregate(&groups, |group| !group.is_empty())),
        ["api"] => json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
        }),
        ["apis"] => {
            groups.remove("");
            let list: Vec<Value> = groups.iter().map(|(name, versions)| group(name, versions)).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": list})
        }
        ["apis", name] => {
            let mut value = group(name, groups.get(*name)?);
            value["kind"] = "APIGroup".into();
            value["apiVersion"] = "v1".into();
            value
        }
        ["api", version] => resources(version, groups.get("")?.get(*version)?),
        ["apis", name, version] => resources(&format!("{name}/{version}"), groups.get(*name)?.get(*version)?),
        _ => return None,
    };
    Some(call::json(StatusCode::OK, &value))
}

fn groups(state: &ServerState) -> Groups {
    let mut groups = Groups::new();
    for kind in state.registry.all() {
        groups.entry(kind.group.clone()).or_default().entry(kind.version.clone()).or_default().push(kind);
    }
    groups
}

fn root(groups: &Groups) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in groups.iter().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.keys().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    json!({"paths": paths})
}

fn version(state: &ServerState) -> Value {
    let (major, minor, patch) = state.options.version;
    json!({
        "major": major.to_string(), "minor": minor.to_string(), "gitVersion": format!("v{major}.{minor}.{patch}+sandbox"),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "",
        "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn group(name: &str, versions: &BTreeMap<String, Vec<Arc<Kind>>>) -> Value {
    let one = |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let list: Vec<Value> = by_preference(versions).into_iter().map(one).collect();
    json!({"name": name, "versions": list, "preferredVersion": list.first()})
}

/// Versions in the order of preference: the most stable first, then the newest.
fn by_preference(versions: &BTreeMap<String, Vec<Arc<Kind>>>) -> Vec<&String> {
    let rank = |version: &&String| {
        let stability = if version.contains("alpha") { 0 } else { 1 + i32::from(!version.contains("beta")) };
        let number = version.trim_start_matches('v').chars().take_while(char::is_ascii_digit).collect::<String>();
        std::cmp::Reverse((stability, number.parse::<u32>().unwrap_or_default(), (*version).clone()))
    };
    let mut names: Vec<_> = versions.keys().collect();
    names.sort_by_key(rank);
    names
}

/// Name, verbs and kind of the subresources of a kind.
fn subresources(kind: &Kind) -> Vec<(&'static str, &'static [&'static str], String)> {
    let mut all: Vec<(&'static str, &'static [&'static str], String)> = Vec::new();
    if kind.behaviour.has_status {
        all.push(("status", &["get", "patch", "update"], kind.kind.clone()));
    }
    if kind.is("pods") {
        all.push(("binding", &["create"], "Binding".to_owned()));
        all.push(("eviction", &["create"], "Eviction".to_owned()));
        all.push(("log", &["get"], "Pod".to_owned()));
    }
    all
}

fn resources(group_version: &str, kinds: &[Arc<Kind>]) -> Value {
    let mut list = Vec::new();
    for kind in kinds {
        let mut resource = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
            "verbs": kind.verbs(),
        });
        if !kind.short_names.is_empty() {
            resource["shortNames"] = kind.short_names.clone().into();
        }
        if !kind.categories.is_empty() {
            resource["categories"] = kind.categories.clone().into();
        }
        list.push(resource);
        for (subresource, verbs, subresource_kind) in subresources(kind) {
            list.push(json!({
                "name": format!("{}/{subresource}", kind.plural), "singularName": "", "namespaced": kind.namespaced,
                "kind": subresource_kind, "verbs": verbs,
            }));
        }
    }
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list})
}

fn aggregate(groups: &Groups, wanted: impl Fn(&str) -> bool) -> Response {
    let mut items = Vec::new();
    for (name, versions) in groups.iter().filter(|(name, _)| wanted(name)) {
        let list: Vec<Value> = by_preference(versions)
            .into_iter()
            .map(|version| {
                let resources: Vec<Value> = versions[version].iter().map(|kind| aggregated_resource(kind)).collect();
                json!({"version": version, "resources": resources, "freshness": "Current"})
            })
            .collect();
        let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
        items.push(json!({"metadata": metadata, "versions": list}));
    }
    let value = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    ([(header::CONTENT_TYPE, AGGREGATED)], value.to_string()).into_response()
}

fn aggregated_resource(kind: &Kind) -> Value {
    let response_kind = |name: &str| json!({"group": kind.group, "version": kind.version, "kind": name});
    let mut resource = json!({
        "resource": kind.plural, "responseKind": response_kind(&kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular, "verbs": kind.verbs(),
    });
    if !kind.short_names.is_empty() {
        resource["shortNames"] = kind.short_names.clone().into();
    }
    if !kind.categories.is_empty() {
        resource["categories"] = kind.categories.clone().into();
    }
    let subresources: Vec<Value> = subresources(kind)
        .into_iter()
        .map(|(subresource, verbs, name)| json!({"subresource": subresource, "responseKind": response_kind(&name), "verbs": verbs}))
        .collect();
    if !subresources.is_empty() {
        resource["subresources"] = subresources.into();
    }
    resource
}
