//! `aileron doctor` against an installation that works, and against broken ones.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use aileron_apiserver::{ApiServer, Options};
use aileron_flyte_local::{EventsFile, Server, Services};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tempfile::TempDir;

const TOKEN: &str = "right";

/// What is wrong with the answers of the API server.
#[derive(Clone, Default)]
struct Faults {
    /// The header `Date` of every answer, instead of the time.
    date: Option<&'static str>,
    /// Access reviews for this verb and resource are answered with no.
    denied: Option<(&'static str, &'static str)>,
    /// Requests for this path are refused with 403.
    forbidden: Option<&'static str>,
}

/// A cluster, the services of Flyte and a configuration in a directory.
struct Installation {
    directory: TempDir,
    server: ApiServer,
    address: SocketAddr,
    services: Server,
    /// Flags after those that every installation has. Later ones win.
    flags: Vec<String>,
    token: &'static str,
}

struct Ended {
    code: Option<i32>,
    report: Value,
    err: String,
}

impl Installation {
    /// An installation that works.
    async fn new() -> Self {
        let installation = Self::without_definition(Faults::default()).await;
        installation.define(|_| {}).await;
        installation
    }

    async fn with(faults: Faults) -> Self {
        let installation = Self::without_definition(faults).await;
        installation.define(|_| {}).await;
        installation
    }

    async fn without_definition(faults: Faults) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut namespaces = Options::default().namespaces;
        namespaces.push("flyte".into());
        let server = ApiServer::new(Options { namespaces, ..Options::default() });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router: Router = server.router().layer(middleware::from_fn_with_state(faults, disturb));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let services = Arc::new(Mutex::new(Services::new(EventsFile::open(&directory.path().join("events")).unwrap())));
        let services = Server::start(None, move |call| {
            std::future::ready(services.lock().unwrap().answer(&call, Timestamp::now()))
        });
        let services = services.await.unwrap();
        Self { directory, server, address, services, flags: Vec::new(), token: TOKEN }
    }

    /// Installs the definition of TaskAction after a change.
    async fn define(&self, change: impl FnOnce(&mut Value)) {
        let mut definition = serde_json::to_value(aileron_action::crd::crd().unwrap()).unwrap();
        change(&mut definition);
        self.create::<CustomResourceDefinition>(&Api::all(self.server.client()), definition).await;
    }

    async fn create<K>(&self, api: &Api<K>, object: Value)
    where
        K: kube::Resource + Clone + serde::de::DeserializeOwned + serde::Serialize + std::fmt::Debug,
    {
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    fn flag(mut self, key: &str, value: &str) -> Self {
        self.flags.push(format!("--{key}={value}"));
        self
    }

    fn command(&self) -> Command {
        let path = self.directory.path();
        let data = path.join("data");
        std::fs::create_dir_all(&data).unwrap();
        let storage = json!({"type": "local", "container": "flyte", "stow": {"config": {"path": data}}});
        let config = json!({
            "storage": storage,
            "executor": {"EventsServiceURL": self.services.url(), "cacheServiceURL": self.services.url()},
            "tasks": {"task-plugins": {"enabled-plugins": ["container", "pod", "sidecar"]}},
        });
        std::fs::write(path.join("config.yaml"), config.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_aileron"));
        command.args(["doctor", "--config", "config.yaml", "--timeout", "5"]);
        command.args(["--kubeconfig", &kubeconfig(path, &format!("http://{}", self.address), self.token)]);
        command.args(&self.flags).current_dir(path).env_clear().env("HOME", path);
        command
    }

    /// Runs the command, without blocking the servers of this process.
    async fn doctor(&self) -> Ended {
        let mut command = self.command();
        command.args(["-o", "json"]);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {err}"));
        Ended { code: output.status.code(), report, err }
    }
}

impl Ended {
    fn finding(&self, check: &str) -> &Value {
        let findings = self.report["findings"].as_array().unwrap();
        findings
            .iter()
            .find(|finding| finding["check"] == check)
            .unwrap_or_else(|| panic!("{check}: {:#}", self.report))
    }

    fn result(&self, check: &str) -> &str {
        self.finding(check)["result"].as_str().unwrap()
    }

    /// The checks with this result.
    fn all(&self, result: &str) -> Vec<&str> {
        let findings = self.report["findings"].as_array().unwrap();
        let with = findings.iter().filter(|finding| finding["result"] == result);
        with.map(|finding| finding["check"].as_str().unwrap()).collect()
    }

    /// This check alone has failed, with these words, and its remedy has those.
    fn assert_only_failure(&self, check: &str, found: &str, remedy: &str) {
        assert_eq!(self.all("failed"), [check], "{:#}{}", self.report, self.err);
        let finding = self.finding(check);
        assert!(finding["found"].as_str().unwrap().contains(found), "{found}: {finding:#}");
        assert!(finding["remedy"].as_str().unwrap().contains(remedy), "{remedy}: {finding:#}");
        assert_eq!((self.code, &self.report["ok"], &self.report["failed"]), (Some(1), &json!(false), &json!(1)));
    }
}

async fn disturb(State(faults): State<Faults>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION);
    if given.is_none_or(|given| given != &format!("Bearer {TOKEN}")) {
        return refusal(StatusCode::UNAUTHORIZED, "Unauthorized");
    }
    if faults.forbidden.is_some_and(|path| request.uri().path().starts_with(path)) {
        return refusal(StatusCode::FORBIDDEN, "Forbidden");
    }
    let is_review = request.method() == Method::POST && request.uri().path().ends_with("/selfsubjectaccessreviews");
    let mut answer = if let (true, Some((verb, resource))) = (is_review, faults.denied) {
        review(request, next, verb, resource).await
    } else {
        next.run(request).await
    };
    if let Some(date) = faults.date {
        answer.headers_mut().insert(header::DATE, HeaderValue::from_static(date));
    }
    answer
}

/// Answers an access review with no if it is about this verb and resource.
async fn review(request: Request, next: Next, verb: &str, resource: &str) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let mut review: Value = serde_json::from_slice(&body).unwrap();
    let asked = &review["spec"]["resourceAttributes"];
    let subresource = asked["subresource"].as_str().map(|name| format!("/{name}")).unwrap_or_default();
    if asked["verb"] == verb && format!("{}{subresource}", asked["resource"].as_str().unwrap()) == resource {
        review["status"] = json!({"allowed": false});
        return axum::Json(review).into_response();
    }
    next.run(Request::from_parts(head, Body::from(body))).await
}

fn refusal(code: StatusCode, reason: &str) -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": reason, "code": code.as_u16()});
    (code, axum::Json(status)).into_response()
}

fn kubeconfig(directory: &Path, server: &str, token: &str) -> String {
    let file = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": token}}],
    });
    let path = directory.join("kubeconfig");
    std::fs::write(&path, file.to_string()).unwrap();
    path.display().to_string()
}

/// An address where nothing listens.
fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_that_works_has_no_findings() {
    let installation = Installation::new().await;
    let ended = installation.doctor().await;
    assert_eq!(ended.code, Some(0), "{:#}{}", ended.report, ended.err);
    assert_eq!(ended.all("ok").len(), ended.report["findings"].as_array().unwrap().len(), "{:#}", ended.report);
    for check in [
        "api server",
        "identity",
        "clock",
        "definition",
        "schema",
        "permissions core",
        "permissions plugin-pod",
        "lease",
        "pod webhooks",
        "storage",
        "events service",
        "cache service",
    ] {
        assert_eq!(ended.result(check), "ok");
    }
    let permissions = ended.report["permissions"].as_array().unwrap();
    assert!(permissions.len() > 15 && permissions.iter().all(|one| one["allowed"] == true), "{permissions:?}");
    assert_eq!(std::fs::read_dir(installation.directory.path().join("data/flyte")).unwrap().count(), 0);

    let mut command = installation.command();
    let table = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.starts_with("CHECK ") && table.ends_with(" 0 warnings, 0 failed, 0 skipped\n"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_api_server_the_rest_is_checked_all_the_same() {
    let address = nowhere();
    let installation = Installation { address, ..Installation::new().await };
    let ended = installation.doctor().await;
    ended.assert_only_failure("api server", "onnection refused", &format!("check that http://{address} is"));
    assert!(ended.finding("api server")["found"].as_str().unwrap().contains(&format!("http://{address}")));
    for check in ["identity", "clock", "definition", "permissions core", "lease", "pod webhooks"] {
        assert_eq!(ended.result(check), "skipped");
    }
    assert_eq!(ended.all("ok"), ["storage", "events service", "cache service"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_does_not_answer_ends_after_the_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let installation = Installation { address, ..Installation::new().await };
    let ended = installation.doctor().await;
    ended.assert_only_failure("api server", "no answer within 5 s", "can be reached from here");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_is_told_once() {
    let installation = Installation { token: "wrong", ..Installation::new().await };
    let ended = installation.doctor().await;
    ended.assert_only_failure("identity", "does not accept the credentials", "token that has not expired");
    assert_eq!(ended.result("permissions core"), "skipped");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_context_is_answered_with_the_known_ones() {
    let mut installation = Installation::new().await;
    installation.flags.push("--context=east".into());
    let ended = installation.doctor().await;
    ended.assert_only_failure("api server", "has no context east; it has c", "--context");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_definition_is_answered_with_the_command_that_installs_it() {
    let ended = Installation::without_definition(Faults::default()).await.doctor().await;
    ended.assert_only_failure("definition", "does not serve taskactions", "aileron crd | kubectl apply -f -");
    assert_eq!(ended.result("schema"), "skipped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_without_status_is_found() {
    let installation = Installation::without_definition(Faults::default()).await;
    let remove = |definition: &mut Value| {
        definition["spec"]["versions"][0].as_object_mut().unwrap().remove("subresources").unwrap();
    };
    installation.define(remove).await;
    installation.doctor().await.assert_only_failure("definition", "no status subresource", "aileron crd");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_with_a_foreign_schema_is_found() {
    let installation = Installation::without_definition(Faults::default()).await;
    let remove = |definition: &mut Value| {
        let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
        definition.pointer_mut(schema).unwrap().as_object_mut().unwrap().remove("phaseHistory").unwrap();
    };
    installation.define(remove).await;
    installation.doctor().await.assert_only_failure("schema", "status.phaseHistory is missing", "aileron crd");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_permission_is_found_with_its_feature() {
    let faults = Faults { denied: Some(("patch", "taskactions/status")), ..Faults::default() };
    let ended = Installation::with(faults).await.doctor().await;
    ended.assert_only_failure("permissions core", "patch taskactions.flyte.org/status in all namespaces", "`core`");
    let denied = ended.report["permissions"].as_array().unwrap().iter().filter(|one| one["allowed"] == false);
    let denied: Vec<_> = denied.map(|one| (&one["feature"], &one["verb"], &one["resource"])).collect();
    assert_eq!(denied, [(&json!("core"), &json!("patch"), &json!("taskactions/status"))]);

    // The executor works without this one.
    let faults = Faults { denied: Some(("list", "resourcequotas")), ..Faults::default() };
    let ended = Installation::with(faults).await.doctor().await;
    assert_eq!((ended.code, ended.all("warning")), (Some(0), vec!["permissions quotas"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_user_may_not_read_is_skipped() {
    let faults = Faults { forbidden: Some("/apis/admissionregistration.k8s.io"), ..Faults::default() };
    let ended = Installation::with(faults).await.doctor().await;
    assert_eq!((ended.code, ended.all("skipped")), (Some(0), vec!["pod webhooks"]), "{:#}", ended.report);
}

#[tokio::test(flavor = "multi_thread")]
async fn storage_that_cannot_be_written_is_found() {
    let installation = Installation::new().await;
    installation.command();
    std::fs::write(installation.directory.path().join("data/flyte"), "a file instead of a directory").unwrap();
    let ended = installation.doctor().await;
    ended.assert_only_failure("storage", "cannot write file://flyte/doctor-", "storage.container");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_store_that_is_away_is_found() {
    let endpoint = format!("http://{}", nowhere());
    let config = json!({"endpoint": endpoint, "auth_type": "accesskey", "access_key_id": "a", "secret_key": "hidden",
        "region": "us-east-1", "disable_ssl": "true"});
    let installation = Installation::new().await.flag("storage.type", "stow").flag("storage.stow.kind", "s3");
    std::fs::write(
        installation.directory.path().join("s3.yaml"),
        json!({"storage": {"stow": {"config": config}}}).to_string(),
    )
    .unwrap();
    let installation = installation.flag("config", "s3.yaml");
    let ended = installation.doctor().await;
    ended.assert_only_failure("storage", &format!("at {endpoint}"), "storage.stow.config");
    assert!(!ended.report.to_string().contains("hidden"), "{:#}", ended.report);
}

#[tokio::test(flavor = "multi_thread")]
async fn services_that_are_away_are_found() {
    let url = format!("http://{}", nowhere());
    let events = Installation::new().await.flag("executor.EventsServiceURL", &url).doctor().await;
    events.assert_only_failure("events service", &format!("{url} cannot be reached"), "executor.EventsServiceURL");
    let cache = Installation::new().await.flag("executor.cacheServiceURL", &url).doctor().await;
    cache.assert_only_failure("cache service", &format!("{url} cannot be reached"), "executor.cacheServiceURL");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_in_the_place_of_a_service_is_found() {
    let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", other.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(other, Router::new()).await });
    let ended = Installation::new().await.flag("executor.EventsServiceURL", &url).doctor().await;
    ended.assert_only_failure("events service", "but not as this service", "executor.EventsServiceURL");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_a_running_executor_is_found() {
    let installation = Installation::new().await;
    let now = Timestamp::now();
    let lease = json!({"metadata": {"name": "abf369a8.flyte.org"}, "spec": {
        "holderIdentity": "flyte-binary-0_3f1c2a4e-9d7b-4c55-8a01-0123456789ab", "leaseDurationSeconds": 3600,
        "acquireTime": format!("{now:.6}"), "renewTime": format!("{now:.6}")}});
    installation.create::<Lease>(&Api::namespaced(installation.server.client(), "flyte"), lease).await;
    let ended = installation.doctor().await;
    ended.assert_only_failure("lease", "(the Go executor) has held flyte/abf369a8.flyte.org", "executor.leaderElect");
    let standby = installation.flag("executor.leaderElect", "true").doctor().await;
    assert_eq!((standby.code, standby.result("lease")), (Some(0), "warning"), "{:#}", standby.report);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_without_its_operator_is_found() {
    let installation = Installation::new().await.flag("tasks.task-plugins.enabled-plugins", "pod,ray");
    let ended = installation.doctor().await;
    ended.assert_only_failure("kind RayJob", "rayjobs.ray.io/v1 is not served", "install the operator of RayJob");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_nobody_answers_is_found() {
    let installation = Installation::new().await;
    let webhook = json!({"metadata": {"name": "flyte-pod-webhook"}, "webhooks": [{
        "name": "webhook.flyte.org", "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "flyte", "name": "flyte-pod-webhook"}},
        "objectSelector": {"matchLabels": {"inject-flyte-secrets": "true"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}]});
    installation.create::<MutatingWebhookConfiguration>(&Api::all(installation.server.client()), webhook).await;
    let ended = installation.doctor().await;
    ended.assert_only_failure("pod webhooks", "flyte/flyte-pod-webhook", "MutatingWebhookConfiguration");
    assert!(
        ended.finding("pod webhooks")["found"].as_str().unwrap().contains("refuses the pods of tasks with secrets")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_clock_is_found() {
    let faults = Faults { date: Some("Sat, 01 Jan 2000 00:00:00 GMT"), ..Faults::default() };
    let ended = Installation::with(faults).await.doctor().await;
    ended.assert_only_failure("clock", "s ahead of the API server", "synchronise the clocks");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_configuration_is_a_usage_error() {
    let installation = Installation::new().await.flag("storage.type", "s4");
    let mut command = installation.command();
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("storage.type"), "no report is made");
    assert_eq!(output.stdout, b"");
}
