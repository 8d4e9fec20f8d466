//! Mutating webhooks, called when an object is made.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aileron_kubekit::selector::{LabelSelector, Operator, Requirement};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::{meta, text_map, texts};
use crate::server::ApiServer;
use crate::status::ApiError;
use crate::store::Key;

const PLACE: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";

/// Where the services are that webhooks name: this cluster has no network of its own.
#[derive(Debug, Default)]
pub(crate) struct Services(Mutex<BTreeMap<(String, String), String>>);

impl Services {
    pub(crate) fn set(&self, namespace: &str, name: &str, url: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert((namespace.to_owned(), name.to_owned()), url.trim_end_matches('/').to_owned());
    }

    fn get(&self, namespace: &str, name: &str) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }
}

/// The object as the webhooks want it, if any of them wants it otherwise.
pub(crate) async fn mutate(
    server: &ApiServer,
    kind: &Kind,
    object: &Value,
    dry_run: bool,
) -> Result<Option<Value>, ApiError> {
    let (hooks, labels) = {
        let transaction = server.store().lock();
        let configurations = transaction.list(PLACE, "");
        if configurations.is_empty() {
            return Ok(None);
        }
        let namespace = transaction.get("namespaces", &Key::new("", meta(object, "namespace")));
        let labels = namespace.map(|stored| stored.body()["metadata"]["labels"].clone()).unwrap_or_default();
        let hooks: Vec<Value> = configurations
            .iter()
            .flat_map(|stored| stored.body()["webhooks"].as_array().cloned().unwrap_or_default())
            .collect();
        (hooks, labels)
    };
    let mut current = object.clone();
    for hook in hooks.iter().filter(|hook| concerns(hook, kind)) {
        let selected = selects(&hook["namespaceSelector"], &labels)
            && selects(&hook["objectSelector"], &current["metadata"]["labels"]);
        if selected {
            current = call(server, hook, kind, current, dry_run).await?;
        }
    }
    Ok((current != *object).then_some(current))
}

fn concerns(hook: &Value, kind: &Kind) -> bool {
    let takes = |list: &Value, wanted: &str| texts(list).iter().any(|one| one == "*" || one == wanted);
    hook["rules"].as_array().into_iter().flatten().any(|rule| {
        takes(&rule["operations"], "CREATE")
            && takes(&rule["apiGroups"], &kind.group)
            && takes(&rule["apiVersions"], &kind.version)
            && takes(&rule["resources"], &kind.plural)
    })
}

/// A selector as objects hold it.
fn selects(selector: &Value, labels: &Value) -> bool {
    let mut requirements = Vec::new();
    for (key, value) in text_map(&selector["matchLabels"]) {
        requirements.push(Requirement { key, operator: Operator::Equals(value) });
    }
    for term in selector["matchExpressions"].as_array().into_iter().flatten() {
        let values = texts(&term["values"]).into_iter().collect();
        let operator = match term["operator"].as_str() {
            Some("In") => Operator::In(values),
            Some("NotIn") => Operator::NotIn(values),
            Some("DoesNotExist") => Operator::DoesNotExist,
            _ => Operator::Exists,
        };
        requirements.push(Requirement { key: term["key"].as_str().unwrap_or_default().to_owned(), operator });
    }
    LabelSelector::new(requirements).matches(&text_map(labels))
}

async fn call(server: &ApiServer, hook: &Value, kind: &Kind, object: Value, dry_run: bool) -> Result<Value, ApiError> {
    let name = hook["name"].as_str().unwrap_or_default();
    let uid = server.inner.random.uid();
    let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    let gvr = json!({"group": kind.group, "version": kind.version, "resource": kind.plural});
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": uid, "kind": gvk, "resource": gvr, "requestKind": gvk, "requestResource": gvr,
            "name": meta(&object, "name"), "namespace": meta(&object, "namespace"), "operation": "CREATE",
            "userInfo": {"username": crate::reviews::USER, "groups": ["system:masters", "system:authenticated"]},
            "object": object, "oldObject": null, "dryRun": dry_run,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    });
    let answer = match exchange(server, hook, &review).await {
        Ok(answer) => answer,
        Err(_) if hook["failurePolicy"] == "Ignore" => return Ok(object),
        Err(problem) => {
            let text = format!("failed calling webhook {name:?}: failed to call webhook: {problem}");
            return Err(ApiError::internal_error(&text));
        }
    };
    let response = &answer["response"];
    if response["allowed"] != true {
        let status = &response["status"];
        let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(400).max(400);
        let reason = match (status["message"].as_str(), status["reason"].as_str()) {
            (Some(message), _) if !message.is_empty() => format!(": {message}"),
            (_, Some(reason)) => format!(": {reason}"),
            _ => " without explanation".to_owned(),
        };
        return Err(ApiError::of_code(code, format!("admission webhook {name:?} denied the request{reason}")));
    }
    patched(&object, &response["patch"])
        .map_err(|problem| ApiError::internal_error(&format!("webhook {name:?}: {problem}")))
}

fn patched(object: &Value, patch: &Value) -> Result<Value, String> {
    let Some(encoded) = patch.as_str().filter(|patch| !patch.is_empty()) else { return Ok(object.clone()) };
    let decoded = STANDARD.decode(encoded).map_err(|error| error.to_string())?;
    let patch: json_patch::Patch = serde_json::from_slice(&decoded).map_err(|error| error.to_string())?;
    let mut object = object.clone();
    json_patch::patch(&mut object, &patch).map_err(|error| error.to_string())?;
    Ok(object)
}

async fn exchange(server: &ApiServer, hook: &Value, review: &Value) -> Result<Value, String> {
    let config = &hook["clientConfig"];
    let url = match (config["url"].as_str(), &config["service"]) {
        (Some(url), _) => url.to_owned(),
        (None, service) => {
            let text = |field: &str| service[field].as_str().unwrap_or_default().to_owned();
            let (namespace, name) = (text("namespace"), text("name"));
            let base = server.inner.services.get(&namespace, &name);
            let base =
                base.ok_or_else(|| format!("service \"{name}\" in {namespace} has no address in this cluster"))?;
            format!("{base}/{}", text("path").trim_start_matches('/'))
        }
    };
    // A client cannot be made without; an error only says that somebody chose before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let seconds = hook["timeoutSeconds"].as_u64().unwrap_or(10);
    let mut client = reqwest::Client::builder().timeout(Duration::from_secs(seconds));
    if let Some(bundle) = config["caBundle"].as_str() {
        let pem = STANDARD.decode(bundle).map_err(|error| format!("caBundle: {error}"))?;
        let certificates = reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| format!("caBundle: {error}"))?;
        client = client.tls_certs_only(certificates);
    }
    let client = client.build().map_err(|error| error.to_string())?;
    let request = client.post(&url).header("content-type", "application/json").body(review.to_string());
    let response = request.send().await.map_err(|error| format!("Post {url:?}: {error}"))?;
    let status = response.status();
    let body = response.bytes().await.map_err(|error| error.to_string())?;
    if !status.is_success() {
        return Err(format!("the server answered {status}"));
    }
    serde_json::from_slice(&body).map_err(|error| format!("the answer is no review: {error}"))
}
