//! Mutating webhooks, which are called when an object is created.

use std::time::Duration;

use aileron_kubekit::selector::{LabelSelector, Operator, Requirement};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::errors::ApiError;
use crate::kinds::Kind;
use crate::object::{Key, meta, string_map, strings};
use crate::state::{ServerState, USER};

/// The resource of webhook configurations.
const CONFIGURATIONS: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";

/// Calls the webhooks that concern the object. Returns the changed object; `None` if no webhook changed it.
pub(crate) async fn mutate(
    state: &ServerState,
    kind: &Kind,
    object: &Value,
    dry_run: bool,
) -> Result<Option<Value>, ApiError> {
    let (hooks, labels) = {
        let transaction = state.store.lock();
        let configurations = transaction.list(CONFIGURATIONS, "");
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
            current = call(state, hook, kind, current, dry_run).await?;
        }
    }
    Ok((current != *object).then_some(current))
}

fn concerns(hook: &Value, kind: &Kind) -> bool {
    let takes = |list: &Value, wanted: &str| strings(list).iter().any(|one| one == "*" || one == wanted);
    hook["rules"].as_array().into_iter().flatten().any(|rule| {
        takes(&rule["operations"], "CREATE")
            && takes(&rule["apiGroups"], &kind.group)
            && takes(&rule["apiVersions"], &kind.version)
            && takes(&rule["resources"], &kind.plural)
    })
}

/// Whether a label selector in the form of API objects matches.
fn selects(selector: &Value, labels: &Value) -> bool {
    let mut requirements = Vec::new();
    for (key, value) in string_map(&selector["matchLabels"]) {
        requirements.push(Requirement { key, operator: Operator::Equals(value) });
    }
    for term in selector["matchExpressions"].as_array().into_iter().flatten() {
        let values = strings(&term["values"]).into_iter().collect();
        let operator = match term["operator"].as_str() {
            Some("In") => Operator::In(values),
            Some("NotIn") => Operator::NotIn(values),
            Some("DoesNotExist") => Operator::DoesNotExist,
            _ => Operator::Exists,
        };
        requirements.push(Requirement { key: term["key"].as_str().unwrap_or_default().to_owned(), operator });
    }
    LabelSelector::new(requirements).matches(&string_map(labels))
}

async fn call(state: &ServerState, hook: &Value, kind: &Kind, object: Value, dry_run: bool) -> Result<Value, ApiError> {
    let name = hook["name"].as_str().unwrap_or_default();
    let uid = state.random.uid();
    let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    let gvr = json!({"group": kind.group, "version": kind.version, "resource": kind.plural});
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": uid, "kind": gvk, "resource": gvr, "requestKind": gvk, "requestResource": gvr,
            "name": meta(&object, "name"), "namespace": meta(&object, "namespace"), "operation": "CREATE",
            "userInfo": {"username": USER, "groups": ["system:masters", "system:authenticated"]},
            "object": object, "oldObject": null, "dryRun": dry_run,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    });
    let answer = match exchange(state, hook, &review).await {
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

/// The object with the JSON patch of the webhook, which is encoded in base64.
fn patched(object: &Value, patch: &Value) -> Result<Value, String> {
    let Some(encoded) = patch.as_str().filter(|patch| !patch.is_empty()) else { return Ok(object.clone()) };
    let decoded = STANDARD.decode(encoded).map_err(|error| error.to_string())?;
    let patch: json_patch::Patch = serde_json::from_slice(&decoded).map_err(|error| error.to_string())?;
    let mut object = object.clone();
    json_patch::patch(&mut object, &patch).map_err(|error| error.to_string())?;
    Ok(object)
}

/// Sends the review to the webhook and returns its answer.
async fn exchange(state: &ServerState, hook: &Value, review: &Value) -> Result<Value, String> {
    let config = &hook["clientConfig"];
    let url = match (config["url"].as_str(), &config["service"]) {
        (Some(url), _) => url.to_owned(),
        (None, service) => {
            let text = |field: &str| service[field].as_str().unwrap_or_default().to_owned();
            let (namespace, name) = (text("namespace"), text("name"));
            let base = state.services.get(&namespace, &name);
            let base =
                base.ok_or_else(|| format!("service \"{name}\" in {namespace} has no address in this cluster"))?;
            format!("{base}/{}", text("path").trim_start_matches('/'))
        }
    };
    // The HTTP client needs a crypto provider. An error means that the process has installed one already.
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
