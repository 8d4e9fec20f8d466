//! The kinds of objects that enabled plugins create: whether the cluster serves them, and in which version.

use std::collections::BTreeMap;
use std::time::Duration;

use aileron_action::plugin_choice::{PluginList, Served, ServedKinds};
use aileron_executor::registry::served::served_kinds;
use aileron_machinery::ResourceKind;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup;
use kube::Client;

use super::answer::Answer;
use super::finding::Finding;

/// A kind, and the enabled plugins that create its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub kind: ResourceKind,
    pub plugins: Vec<String>,
}

/// What is known about the kinds.
#[derive(Clone, Debug, Default)]
pub struct KindFacts {
    pub served: ServedKinds,
    /// The versions that the cluster serves, by group.
    pub versions: BTreeMap<String, Vec<String>>,
}

/// The kinds of the enabled plugins, except for pods, which every cluster has.
pub fn wanted(list: &PluginList) -> Vec<Wanted> {
    let mut found: Vec<Wanted> = Vec::new();
    for plugin in list.plugins().iter().filter(|plugin| plugin.enabled) {
        let Some(kind) = plugin.kind.clone().filter(|kind| *kind != ResourceKind::of::<Pod>()) else { continue };
        let id = plugin.entry.id.to_string();
        match found.iter_mut().find(|wanted| wanted.kind == kind) {
            Some(wanted) => wanted.plugins.push(id),
            None => found.push(Wanted { kind, plugins: vec![id] }),
        }
    }
    found
}

/// Asks the API server.
pub async fn look(client: &Client, wanted: &[Wanted], timeout: Duration) -> KindFacts {
    let kinds: Vec<_> = wanted.iter().map(|wanted| wanted.kind.clone()).collect();
    let served = match tokio::time::timeout(timeout, served_kinds(client, &kinds)).await {
        Ok(served) => served,
        Err(_) => {
            let unknown = Served::Unknown(format!("no answer within {} s", timeout.as_secs()));
            kinds.iter().map(|kind| (kind.clone(), unknown.clone())).collect()
        }
    };
    let mut versions = BTreeMap::new();
    for kind in kinds.iter().filter(|kind| served.get(*kind) == Some(&Served::No)) {
        let group = async {
            let request = http::Request::get(format!("/apis/{}", kind.group)).body(Vec::new());
            client.request::<APIGroup>(request.map_err(kube::Error::HttpError)?).await
        };
        if let Answer::Found(group) = Answer::of(timeout, group).await {
            let names = group.versions.into_iter().map(|version| version.version).collect();
            versions.insert(kind.group.to_string(), names);
        }
    }
    KindFacts { served, versions }
}

/// The name of the check of a kind.
pub fn check_name(wanted: &Wanted) -> String {
    format!("kind {}", wanted.kind.kind)
}

/// One finding for each kind. `chosen` says that the configuration names the enabled plugins; without it all are enabled, and
/// an operator that is not installed is no mistake.
pub fn judge(wanted: &[Wanted], facts: &KindFacts, chosen: bool) -> Vec<Finding> {
    wanted.iter().map(|wanted| judge_one(wanted, facts, chosen)).collect()
}

fn judge_one(wanted: &Wanted, facts: &KindFacts, chosen: bool) -> Finding {
    let (check, kind) = (check_name(wanted), &wanted.kind);
    let plugins = wanted.plugins.join(", ");
    let resource = format!("{}.{}/{}", kind.plural, kind.group, kind.version);
    match facts.served.get(kind) {
        Some(Served::Yes) => Finding::ok(check, format!("{resource} is served, for the plugin {plugins}")),
        Some(Served::Unknown(problem)) => Finding::skipped(check, problem.clone()),
        None => Finding::skipped(check, "the API server was not asked"),
        Some(Served::No) => {
            let others = facts.versions.get(kind.group.as_ref()).map(|versions| versions.join(", "));
            let found = match &others {
                Some(others) => {
                    format!("{resource} is not served (the group has {others}): tasks of the plugin {plugins} wait")
                }
                None => format!("{resource} is not served: tasks of the plugin {plugins} wait"),
            };
            let remedy = format!(
                "install the operator of {} in a release with version {}, or leave the plugin out of \
                 tasks.task-plugins.enabled-plugins",
                kind.kind, kind.version
            );
            if chosen { Finding::failed(check, found, remedy) } else { Finding::warning(check, found, remedy) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Outcome;
    use super::*;

    fn ray() -> Wanted {
        let kind = ResourceKind {
            group: "ray.io".into(),
            version: "v1".into(),
            kind: "RayJob".into(),
            plural: "rayjobs".into(),
        };
        Wanted { kind, plugins: vec!["ray".into()] }
    }

    fn judged(served: Served, versions: &[&str], chosen: bool) -> Finding {
        let mut facts = KindFacts { served: [(ray().kind, served)].into(), ..KindFacts::default() };
        if !versions.is_empty() {
            facts.versions.insert("ray.io".into(), versions.iter().map(ToString::to_string).collect());
        }
        judge(&[ray()], &facts, chosen).remove(0)
    }

    #[test]
    fn a_missing_kind_is_a_failure_only_if_its_plugin_was_chosen() {
        assert_eq!(judged(Served::Yes, &[], true).outcome, Outcome::Ok);
        let missing = judged(Served::No, &[], true);
        assert_eq!((missing.check.as_str(), missing.outcome), ("kind RayJob", Outcome::Failed));
        assert_eq!(judged(Served::No, &[], false).outcome, Outcome::Warning);
        let other = judged(Served::No, &["v1alpha1"], true);
        assert!(other.found.contains("the group has v1alpha1"), "{other:?}");
        assert_eq!(judged(Served::Unknown("down".into()), &[], true).outcome, Outcome::Skipped);
    }
}
