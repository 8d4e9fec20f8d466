//! Every permission that the executor needs with this configuration, asked one by one.

use std::time::Duration;

use aileron_executor::cluster::permissions::{Feature, Rule, Scope};
use futures::StreamExt;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::answer::Answer;
use super::finding::Finding;

/// How many reviews are in flight at once. There are about sixty, and an API server answers each within milliseconds.
const CONCURRENT_REVIEWS: usize = 8;

/// One permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The index of its feature.
    feature: usize,
    /// The index of the rule in the feature.
    rule: usize,
    verb: &'static str,
    /// `None` means all namespaces.
    namespace: Option<String>,
}

/// A permission, and whether the user has it.
pub type Asked = (Question, Answer<bool>);

/// The permissions of these features, in the namespace of the executor and in those of tasks.
pub fn questions(features: &[Feature], own: &str, tasks: &[String]) -> Vec<Question> {
    let mut questions = Vec::new();
    for (feature, needed) in features.iter().enumerate() {
        for (index, rule) in needed.rules.iter().enumerate() {
            let namespaces = match rule.scope {
                Scope::Cluster => vec![None],
                Scope::Own => vec![Some(own.to_owned())],
                Scope::Tasks if tasks.is_empty() => vec![None],
                Scope::Tasks => tasks.iter().cloned().map(Some).collect(),
            };
            for namespace in namespaces {
                let question = |verb| Question { feature, rule: index, verb, namespace: namespace.clone() };
                questions.extend(rule.verbs.iter().copied().map(question));
            }
        }
    }
    questions
}

/// Asks the API server for each permission.
pub async fn look(client: &Client, features: &[Feature], questions: Vec<Question>, timeout: Duration) -> Vec<Asked> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let ask = async |question: Question| {
        let review = features[question.feature].rules.get(question.rule).map(|rule| review(rule, &question));
        let parameters = PostParams::default();
        let asked = Answer::of(timeout, reviews.create(&parameters, &review.unwrap_or_default())).await;
        (question, asked.map(|review| review.status.is_some_and(|status| status.allowed)))
    };
    futures::stream::iter(questions.into_iter().map(ask)).buffered(CONCURRENT_REVIEWS).collect().await
}

fn review(rule: &Rule, question: &Question) -> SelfSubjectAccessReview {
    let (resource, subresource) = match rule.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (rule.resource.as_ref(), None),
    };
    let attributes = ResourceAttributes {
        group: Some(rule.group.to_string()),
        resource: Some(resource.to_owned()),
        subresource,
        verb: Some(question.verb.to_owned()),
        namespace: question.namespace.clone(),
        name: rule.object.as_ref().map(ToString::to_string),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() }
}

/// The name of the check of a feature.
pub fn check_name(feature: &Feature) -> String {
    format!("permissions {}", feature.name)
}

/// One finding for each feature.
pub fn judge(features: &[Feature], asked: &[Asked], user: &str) -> Vec<Finding> {
    let judge_one = |(index, feature): (usize, &Feature)| {
        let own: Vec<_> = asked.iter().filter(|(question, _)| question.feature == index).collect();
        judge_feature(feature, &own, user)
    };
    features.iter().enumerate().map(judge_one).collect()
}

fn judge_feature(feature: &Feature, asked: &[&Asked], user: &str) -> Finding {
    let check = check_name(feature);
    let missing = missing(feature, asked);
    if missing.is_empty() {
        return match asked.iter().find_map(|(_, answer)| answer.problem()) {
            Some(problem) => Finding::skipped(check, format!("cannot be asked: {problem}")),
            None => Finding::ok(check, format!("all {} granted", asked.len())),
        };
    }
    let found = format!("missing: {}", missing.join("; "));
    let everywhere = asked.iter().any(|(question, answer)| {
        let scope = feature.rules.get(question.rule).map(|rule| rule.scope);
        *answer == Answer::Found(false) && scope == Some(Scope::Tasks) && question.namespace.is_none()
    });
    let some = if everywhere { "; if tasks run in some namespaces only, name them with --task-namespace" } else { "" };
    let remedy = format!(
        "grant this to {user}: deploy/ has the role of the feature `{}` (docs/install.md#permissions){some}",
        feature.name
    );
    if feature.without.is_empty() {
        return Finding::failed(check, found, remedy);
    }
    Finding::warning(check, found, format!("{remedy}. Without it {}", feature.without))
}

/// The missing permissions, one text for each resource and namespace.
fn missing(feature: &Feature, asked: &[&Asked]) -> Vec<String> {
    let mut found: Vec<(usize, Option<&str>, Vec<&str>)> = Vec::new();
    for (question, answer) in asked {
        if *answer != Answer::Found(false) {
            continue;
        }
        let namespace = question.namespace.as_deref();
        match found.iter_mut().find(|(rule, place, _)| *rule == question.rule && *place == namespace) {
            Some((_, _, verbs)) => verbs.push(question.verb),
            None => found.push((question.rule, namespace, vec![question.verb])),
        }
    }
    let text = |(rule, namespace, verbs): (usize, Option<&str>, Vec<&str>)| {
        let rule = feature.rules.get(rule)?;
        let place = namespace.map_or_else(|| "in all namespaces".to_owned(), |name| format!("in namespace {name}"));
        Some(format!("{} {} {place} ({})", verbs.join(", "), resource_name(rule), rule.why))
    };
    found.into_iter().filter_map(text).collect()
}

/// The resource with its group, as kubectl names it.
fn resource_name(rule: &Rule) -> String {
    let resource = match (rule.group.as_ref(), rule.resource.split_once('/')) {
        ("", _) => rule.resource.to_string(),
        (group, None) => format!("{}.{group}", rule.resource),
        (group, Some((resource, subresource))) => format!("{resource}.{group}/{subresource}"),
    };
    match &rule.object {
        Some(object) => format!("{resource} {object}"),
        None => resource,
    }
}

/// Every permission, for other programs.
pub fn as_json(features: &[Feature], asked: &[Asked]) -> Vec<Value> {
    let one = |(question, answer): &Asked| {
        let feature = features.get(question.feature)?;
        let rule = feature.rules.get(question.rule)?;
        Some(json!({
            "feature": feature.name,
            "verb": question.verb,
            "group": rule.group,
            "resource": rule.resource,
            "name": rule.object,
            "namespace": question.namespace,
            "why": rule.why,
            "allowed": match answer {
                Answer::Found(allowed) => Value::Bool(*allowed),
                _ => Value::Null,
            },
        }))
    };
    asked.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use aileron_executor::cluster::permissions::features;

    use super::super::finding::Outcome;
    use super::*;

    fn answered(tasks: &[String], allowed: impl Fn(&Feature, &Rule, &str) -> bool) -> (Vec<Feature>, Vec<Asked>) {
        let features = features();
        let asked = questions(&features, "flyte", tasks)
            .into_iter()
            .map(|question| {
                let feature = &features[question.feature];
                let allowed = allowed(feature, &feature.rules[question.rule], question.verb);
                (question, Answer::Found(allowed))
            })
            .collect();
        (features, asked)
    }

    #[test]
    fn every_permission_of_every_feature_is_asked_for() {
        let (features, asked) = answered(&[], |_, _, _| true);
        let verbs: usize = features.iter().flat_map(|feature| &feature.rules).map(|rule| rule.verbs.len()).sum();
        assert_eq!(asked.len(), verbs);
        assert!(judge(&features, &asked, "ada").iter().all(|finding| finding.outcome == Outcome::Ok));
        assert_eq!(as_json(&features, &asked).len(), verbs);
        let (_, asked) = answered(&["a".into(), "b".into()], |_, _, _| true);
        assert!(asked.len() > verbs, "rules for tasks are asked for in each namespace");
    }

    #[test]
    fn a_missing_permission_names_the_feature_the_resource_and_the_remedy() {
        let (features, asked) = answered(&[], |_, rule, _| rule.resource != "taskactions/status");
        let found = judge(&features, &asked, "ada");
        let core = &found[0];
        assert_eq!((core.check.as_str(), core.outcome), ("permissions core", Outcome::Failed));
        assert_eq!(core.found, "missing: patch taskactions.flyte.org/status in all namespaces (the status)");
        let remedy = core.remedy.as_deref().unwrap_or_default();
        assert!(remedy.contains("to ada") && remedy.contains("feature `core`"), "{remedy}");
        assert!(remedy.contains("--task-namespace"), "{remedy}");
    }

    #[test]
    fn a_permission_that_the_executor_can_do_without_is_a_warning() {
        let (features, asked) = answered(&["a".into()], |feature, _, _| feature.name != "quotas");
        let found = judge(&features, &asked, "ada");
        let quotas = found.iter().find(|finding| finding.check == "permissions quotas");
        let quotas = quotas.map(|finding| (finding.outcome, finding.found.as_str()));
        let expected = "missing: list, watch resourcequotas in all namespaces (compares a create with the quotas before it is sent)";
        assert_eq!(quotas, Some((Outcome::Warning, expected)));
    }

    #[test]
    fn permissions_that_cannot_be_asked_for_are_skipped() {
        let features = features();
        let failed = |question| (question, Answer::Failed("no answer within 10 s".to_owned()));
        let asked: Vec<_> = questions(&features, "flyte", &[]).into_iter().map(failed).collect();
        assert!(judge(&features, &asked, "ada").iter().all(|finding| finding.outcome == Outcome::Skipped));
    }
}
