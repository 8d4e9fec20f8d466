//! Runs a case on one server.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::script::{Case, Step};

/// The API group of the custom resource of the cases.
const GROUP: &str = "conformance.aileron";

/// One of the two servers.
pub struct Side {
    client: Client,
}

#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    /// JSON, or a list of the lines of a stream, or the plain text.
    pub body: Value,
}

/// Values of earlier answers that steps can use.
#[derive(Default)]
struct Known {
    namespace: String,
    first_version: String,
    version: String,
    uid: String,
}

impl Side {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Installs the custom resource definition of the cases and waits until it is served.
    pub async fn prepare(&self) -> Result<()> {
        let definition = include_str!("definition.json");
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.send("POST", path, "application/json", "", definition).await?;
        for _ in 0..100 {
            if self.send("GET", &format!("/apis/{GROUP}/v1/things"), "", "", "").await?.code == 200 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("the custom resource definition is not served")
    }

    pub async fn play(&self, case: &Case, namespace: &str) -> Result<Vec<Answer>> {
        let mut known = Known { namespace: namespace.to_owned(), ..Known::default() };
        let body = json!({"metadata": {"name": namespace}}).to_string();
        self.send("POST", "/api/v1/namespaces", "application/json", "", &body).await?;
        let mut answers = Vec::new();
        for step in &case.steps {
            let answer = self.step(step, &known).await.with_context(|| format!("{}: {}", case.name, step.text))?;
            let metadata = &answer.body["metadata"];
            if let Some(version) = metadata["resourceVersion"].as_str() {
                known.version = version.to_owned();
                if known.first_version.is_empty() {
                    known.first_version = version.to_owned();
                }
            }
            if let Some(uid) = metadata["uid"].as_str() {
                known.uid = uid.to_owned();
            }
            answers.push(answer);
        }
        Ok(answers)
    }

    async fn step(&self, step: &Step, known: &Known) -> Result<Answer> {
        let fill = |text: &str| {
            let text = text.replace("$ns", &known.namespace).replace("$rv1", &known.first_version);
            text.replace("$rv", &known.version).replace("$uid", &known.uid)
        };
        let (mut path, body) = (fill(&absolute(&step.path)), fill(&step.body));
        let json = "application/json";
        let (method, media, accept) = match step.verb.as_str() {
            "SLEEP" => {
                tokio::time::sleep(Duration::from_millis(500)).await;
                return Ok(Answer { code: 0, body: Value::Null });
            }
            "MERGE" => ("PATCH", "application/merge-patch+json", ""),
            "JSONPATCH" => ("PATCH", "application/json-patch+json", ""),
            "STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json", ""),
            "APPLY" => ("PATCH", "application/apply-patch+yaml", ""),
            "YAML" => ("POST", "application/yaml", ""),
            "PLAIN" => ("POST", "text/plain", ""),
            "TABLE" => ("GET", json, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
            "WATCH" => {
                path += if path.contains('?') { "&" } else { "?" };
                path += "watch=1&timeoutSeconds=1";
                ("GET", json, "")
            }
            method => (method, json, ""),
        };
        let body = if step.verb == "YAML" { body.replace("\\n", "\n") } else { body };
        self.send(method, &path, media, accept, &body).await
    }

    async fn send(&self, method: &str, path: &str, media: &str, accept: &str, body: &str) -> Result<Answer> {
        let mut request = Request::builder().method(method).uri(path);
        if !media.is_empty() {
            request = request.header("content-type", media);
        }
        if !accept.is_empty() {
            request = request.header("accept", accept);
        }
        let response: Response<Body> = self.client.send(request.body(body.as_bytes().to_vec().into())?).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await?;
        let text = String::from_utf8_lossy(&bytes);
        let body = serde_json::from_str(&text).or_else(|_| {
            let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
            lines.map(Value::Array)
        });
        Ok(Answer { code, body: body.unwrap_or_else(|_| Value::String(text.trim().to_owned())) })
    }
}

/// `pods/p` in the namespace of the case; an absolute path as it is.
fn absolute(path: &str) -> String {
    if path.starts_with('/') || path.is_empty() {
        return path.to_owned();
    }
    let resource = path.split(['/', '?']).next().unwrap_or_default();
    match resource {
        "things" => format!("/apis/{GROUP}/v1/namespaces/$ns/{path}"),
        "leases" => format!("/apis/coordination.k8s.io/v1/namespaces/$ns/{path}"),
        _ => format!("/api/v1/namespaces/$ns/{path}"),
    }
}
