//! Asks a cluster which kinds it serves.

use std::collections::BTreeMap;

use aileron_action::plugin_choice::{Served, ServedKinds};
use aileron_lease::request_error_text;
use aileron_machinery::ResourceKind;
use kube::Client;

/// Asks the cluster about each kind, with one request per group and version.
pub async fn served_kinds(client: &Client, kinds: &[ResourceKind]) -> ServedKinds {
    let mut by_version: BTreeMap<(&str, &str), Vec<&ResourceKind>> = BTreeMap::new();
    for kind in kinds {
        by_version.entry((&kind.group, &kind.version)).or_default().push(kind);
    }
    let asked = by_version.into_iter().map(|((group, version), kinds)| async move {
        let found = resources(client, group, version).await;
        kinds.into_iter().map(move |kind| (kind.clone(), served(&found, kind))).collect::<Vec<_>>()
    });
    futures::future::join_all(asked).await.into_iter().flatten().collect()
}

/// The plural names and kinds of a group and version; none if the cluster does not serve it.
async fn resources(client: &Client, group: &str, version: &str) -> Result<Vec<(String, String)>, String> {
    let answer = if group.is_empty() {
        client.list_core_api_resources(version).await
    } else {
        client.list_api_group_resources(&format!("{group}/{version}")).await
    };
    match answer {
        Ok(list) => Ok(list.resources.into_iter().map(|resource| (resource.name, resource.kind)).collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(request_error_text(&error)),
    }
}

fn served(found: &Result<Vec<(String, String)>, String>, kind: &ResourceKind) -> Served {
    match found {
        Err(error) => Served::Unknown(error.clone()),
        Ok(found) if found.iter().any(|(plural, name)| *plural == kind.plural && *name == kind.kind) => Served::Yes,
        Ok(_) => Served::No,
    }
}

#[cfg(test)]
mod tests {
    use aileron_action::plugin_choice::missing_kind;
    use axum::routing::get;
    use axum::{Json, Router};
    use serde_json::{Value, json};

    use super::*;

    fn kind(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> ResourceKind {
        ResourceKind { group: group.into(), version: version.into(), kind: kind.into(), plural: plural.into() }
    }

    fn list(version: &str, kind: &str, plural: &str) -> Json<Value> {
        Json(json!({"kind": "APIResourceList", "groupVersion": version, "resources": [
            {"name": plural, "kind": kind, "singularName": "", "namespaced": true, "verbs": ["get"]},
            {"name": format!("{plural}/status"), "kind": kind, "singularName": "", "namespaced": true, "verbs": ["get"]},
        ]}))
    }

    #[tokio::test]
    async fn tells_served_missing_and_unknown_apart() {
        let broken = || async { (http::StatusCode::SERVICE_UNAVAILABLE, "down") };
        let router = Router::new()
            .route("/api/v1", get(|| async { list("v1", "Pod", "pods") }))
            .route("/apis/ray.io/v1", get(|| async { list("ray.io/v1", "RayService", "rayservices") }))
            .route("/apis/broken.io/v1", get(broken));
        let client = Client::new(router, "default");
        let pod = kind("", "v1", "Pod", "pods");
        let ray = kind("ray.io", "v1", "RayJob", "rayjobs");
        let spark = kind("sparkoperator.k8s.io", "v1beta2", "SparkApplication", "sparkapplications");
        let broken = kind("broken.io", "v1", "Thing", "things");
        let found = served_kinds(&client, &[pod.clone(), ray.clone(), spark.clone(), broken.clone()]).await;
        assert_eq!(found[&pod], Served::Yes);
        assert_eq!(found[&ray], Served::No, "the group is there, the kind is not");
        assert_eq!(found[&spark], Served::No);
        assert!(matches!(&found[&broken], Served::Unknown(_)), "{found:?}");
    }
    #[test]
    fn only_a_kind_that_is_known_not_to_be_served_is_missing() {
        let spark = kind("sparkoperator.k8s.io", "v1beta2", "SparkApplication", "sparkapplications");
        assert_eq!(missing_kind(&ServedKinds::new(), &spark), None);
        for served in [Served::Yes, Served::Unknown("down".into())] {
            assert_eq!(missing_kind(&[(spark.clone(), served)].into(), &spark), None);
        }
        let missing = missing_kind(&[(spark.clone(), Served::No)].into(), &spark).map(|missing| missing.to_string());
        let expected =
            "the cluster does not serve SparkApplication (sparkoperator.k8s.io/v1beta2); install the operator";
        assert!(missing.as_ref().is_some_and(|text| text.starts_with(expected)), "{missing:?}");
    }
}
