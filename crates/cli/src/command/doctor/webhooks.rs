//! Mutating webhooks that the API server calls for pods of tasks. A webhook that nobody answers stops all tasks, and secrets of
//! tasks come from the webhook of the Go executor.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Endpoints;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::answer::Answer;
use super::finding::Finding;

pub const WEBHOOKS: &str = "pod webhooks";

/// The label of pods that the webhook of the Go executor adds secrets to.
const SECRETS_LABEL: &str = "inject-flyte-secrets";

/// A webhook that may change pods of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct PodWebhook {
    /// The configuration and the webhook in it.
    pub name: String,
    /// The API server refuses pods that the webhook does not answer for.
    pub refuses: bool,
    pub pods: SelectedPods,
    /// Namespace and name of its service; `None` for an address outside of the cluster.
    pub service: Option<(String, String)>,
    /// Whether the service has an address that is ready. It is not known for an address outside of the cluster.
    pub answers: Option<Answer<bool>>,
}

/// Which pods a webhook is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectedPods {
    /// All of them.
    All,
    /// Those of tasks with secrets.
    WithSecrets,
    /// Those with other labels, which a task may have.
    Labelled,
}

/// Asks the API server.
pub async fn look(client: &Client, timeout: Duration) -> Answer<Vec<PodWebhook>> {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let parameters = ListParams::default();
    let listed = Answer::of(timeout, configurations.list(&parameters)).await;
    let mut found = listed.map(|list| list.items.iter().flat_map(pod_webhooks).collect::<Vec<_>>());
    if let Answer::Found(webhooks) = &mut found {
        for webhook in webhooks {
            if let Some((namespace, name)) = &webhook.service {
                let endpoints: Api<Endpoints> = Api::namespaced(client.clone(), namespace);
                webhook.answers =
                    Some(match Answer::of(timeout, endpoints.get(name)).await.map(|found| is_ready(&found)) {
                        Answer::Missing => Answer::Found(false),
                        other => other,
                    });
            }
        }
    }
    found
}

/// The webhooks of a configuration that are called when a pod is created.
fn pod_webhooks(configuration: &MutatingWebhookConfiguration) -> Vec<PodWebhook> {
    let webhooks = configuration.webhooks.iter().flatten();
    let webhook = |webhook: &MutatingWebhook| {
        let service = webhook.client_config.service.as_ref();
        PodWebhook {
            name: format!("{}/{}", configuration.name_any(), webhook.name),
            refuses: webhook.failure_policy.as_deref() != Some("Ignore"),
            pods: selected_pods(webhook),
            service: service.map(|service| (service.namespace.clone(), service.name.clone())),
            answers: None,
        }
    };
    webhooks.filter(|one| is_for_new_pods(one)).map(webhook).collect()
}

fn is_for_new_pods(webhook: &MutatingWebhook) -> bool {
    let has = |list: &Option<Vec<String>>, word: &str| list.iter().flatten().any(|one| one == word || one == "*");
    webhook.rules.iter().flatten().any(|rule| {
        let resources = has(&rule.resources, "pods") || rule.resources.iter().flatten().any(|one| one == "*/*");
        resources && has(&rule.api_groups, "") && has(&rule.operations, "CREATE")
    })
}

fn selected_pods(webhook: &MutatingWebhook) -> SelectedPods {
    let Some(selector) = &webhook.object_selector else { return SelectedPods::All };
    let labels = selector.match_labels.iter().flat_map(|labels| labels.keys());
    let expressions = selector.match_expressions.iter().flatten().map(|expression| &expression.key);
    let keys: Vec<_> = labels.chain(expressions).collect();
    match keys.as_slice() {
        [] => SelectedPods::All,
        keys if keys.iter().any(|key| *key == SECRETS_LABEL) => SelectedPods::WithSecrets,
        _ => SelectedPods::Labelled,
    }
}

fn is_ready(endpoints: &Endpoints) -> bool {
    let ready = |addresses: &Option<Vec<_>>| addresses.as_ref().is_some_and(|addresses| !addresses.is_empty());
    endpoints.subsets.iter().flatten().any(|subset| ready(&subset.addresses))
}

/// What is wrong with the webhooks.
pub fn judge(found: &Answer<Vec<PodWebhook>>) -> Vec<Finding> {
    let webhooks = match found {
        Answer::Found(webhooks) => webhooks,
        Answer::Forbidden(_) => {
            let why = "this user may not list MutatingWebhookConfigurations; the executor does not need to";
            return vec![Finding::skipped(WEBHOOKS, why)];
        }
        other => return vec![Finding::skipped(WEBHOOKS, other.problem().unwrap_or_default())],
    };
    let secrets = if webhooks.iter().any(|webhook| webhook.pods == SelectedPods::WithSecrets) {
        "there is one for secrets of tasks"
    } else {
        "none adds secrets to pods: tasks that use secrets do not get them"
    };
    let wrong: Vec<_> = webhooks.iter().filter_map(judge_one).collect();
    if !wrong.is_empty() {
        return wrong;
    }
    vec![Finding::ok(WEBHOOKS, format!("{} for pods; {secrets}", webhooks.len()))]
}

fn judge_one(webhook: &PodWebhook) -> Option<Finding> {
    let (Some((namespace, service)), Some(Answer::Found(false))) = (&webhook.service, &webhook.answers) else {
        return None;
    };
    let pods = match webhook.pods {
        SelectedPods::All => "all pods",
        SelectedPods::WithSecrets => "the pods of tasks with secrets",
        SelectedPods::Labelled => "pods with certain labels",
    };
    let name = &webhook.name;
    let found = format!("the service {namespace}/{service} of the webhook {name} has no ready endpoint");
    let remedy = format!("start the program behind the service, or delete the MutatingWebhookConfiguration of {name}");
    Some(match (webhook.refuses, webhook.pods) {
        (true, SelectedPods::All | SelectedPods::WithSecrets) => {
            let found = format!("{found}, and its failurePolicy is Fail: the API server refuses {pods}");
            Finding::failed(WEBHOOKS, found, remedy)
        }
        (true, SelectedPods::Labelled) => {
            let found = format!("{found}, and its failurePolicy is Fail: the API server refuses {pods}");
            Finding::warning(WEBHOOKS, found, remedy)
        }
        (false, _) => Finding::warning(WEBHOOKS, format!("{found}: {pods} are created without it"), remedy),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::super::finding::Outcome;
    use super::*;

    fn read(policy: &str, selector: &Value, resources: &Value) -> Vec<PodWebhook> {
        let configuration = json!({"metadata": {"name": "flyte-pod-webhook"}, "webhooks": [{
            "name": "secrets.flyte.org", "failurePolicy": policy, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "flyte", "name": "hook"}},
            "objectSelector": selector,
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": resources}],
        }]});
        pod_webhooks(&serde_json::from_value(configuration).unwrap())
    }

    fn secrets() -> Value {
        json!({"matchLabels": {SECRETS_LABEL: "true"}})
    }

    fn judged(policy: &str, selector: &Value, answers: bool) -> Finding {
        let mut webhooks = read(policy, selector, &json!(["pods"]));
        webhooks[0].answers = Some(Answer::Found(answers));
        judge(&Answer::Found(webhooks)).remove(0)
    }

    #[test]
    fn only_webhooks_for_new_pods_are_looked_at() {
        assert_eq!(read("Fail", &json!({}), &json!(["deployments"])), []);
        assert_eq!(read("Fail", &json!({}), &json!(["*"])).len(), 1);
        let webhook = read("Fail", &secrets(), &json!(["pods"])).remove(0);
        assert_eq!((webhook.name.as_str(), webhook.refuses), ("flyte-pod-webhook/secrets.flyte.org", true));
        assert_eq!(webhook.pods, SelectedPods::WithSecrets);
    }

    #[test]
    fn a_webhook_without_endpoint_is_a_failure_if_it_refuses_pods_of_tasks() {
        let dead = judged("Fail", &secrets(), false);
        assert_eq!(dead.outcome, Outcome::Failed);
        assert!(dead.found.contains("flyte/hook") && dead.found.contains("the pods of tasks with secrets"), "{dead:?}");
        assert_eq!(judged("Fail", &json!({}), false).outcome, Outcome::Failed);
        assert_eq!(judged("Fail", &json!({"matchLabels": {"app": "x"}}), false).outcome, Outcome::Warning);
        assert_eq!(judged("Ignore", &json!({}), false).outcome, Outcome::Warning);
        assert_eq!(judged("Fail", &secrets(), true).found, "1 for pods; there is one for secrets of tasks");
    }

    #[test]
    fn without_the_permission_the_check_is_skipped() {
        assert_eq!(judge(&Answer::Forbidden("no".into()))[0].outcome, Outcome::Skipped);
        let none = judge(&Answer::Found(Vec::new())).remove(0);
        assert_eq!(none.outcome, Outcome::Ok);
        assert!(none.found.contains("tasks that use secrets do not get them"), "{none:?}");
    }
}
