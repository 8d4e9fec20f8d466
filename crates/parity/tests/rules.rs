//! What an operator of an installation may rely on, on the API of the sandbox inside this process: kinds that come and
//! go, what an action waits for, which plugin takes a task, and what becomes of finished objects.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use aileron_executor::action::TaskAction;
use aileron_executor::config::{Config, Sources};
use aileron_executor::run::{RunOptions, run};
use aileron_executor::serve::Readiness;
use aileron_idl::json_to_struct;
use aileron_parity::cluster::install_crd;
use aileron_parity::events_stub::EventsStub;
use aileron_parity::kubelet::{self, Kubelet, Store};
use aileron_parity::suite::{LOOK_EVERY, PATIENCE, Settings, Task, script};
use aileron_plugins::builtin::PluginConfigs;
use aileron_sandbox::{ApiServer, Fault, Match, Options};
use anyhow::{Context, Result, bail};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Longer than any watch needs, far shorter than any look that is not caused by a change.
const AT_ONCE: Duration = Duration::from_secs(5);

/// An executor on an API server of its own, with a kubelet.
struct Installation {
    server: ApiServer,
    client: kube::Client,
    actions: Api<TaskAction>,
    data: tempfile::TempDir,
    _stub: EventsStub,
    _kubelet: Kubelet,
    _stop: tokio_util::sync::DropGuard,
}

impl Installation {
    async fn start(settings: impl FnOnce(Settings) -> Settings) -> Result<Self> {
        aileron_parity::init();
        // Shown with a test that fails.
        let _ = tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).with_test_writer().try_init();
        let server = ApiServer::new(Options::default());
        let client = server.client();
        install_crd(&client, &aileron_executor::action::crd::crd()?).await?;
        let data = tempfile::tempdir()?;
        let stub = EventsStub::start().await?;
        let nodes = kubelet::Settings::default().decide(script).store(Store::Local(data.path().to_owned()));
        let kubelet = Kubelet::start(client.clone(), nodes);
        let settings = settings(Settings::new(&stub.url(), data.path()));
        let config = Config::load(&Sources::file("rules.yaml", &settings.text()))?;
        let configs: PluginConfigs = (&config.plugins).into();
        let readiness = Readiness::new();
        let options = RunOptions {
            plugins: aileron_plugins::builtin(&configs),
            spark_pod_templates: configs.spark_pod_templates,
            config,
            client: client.clone(),
            namespace: "flyte".to_owned(),
            identity: "rules".to_owned(),
            readiness: readiness.clone(),
        };
        let cancel = CancellationToken::new();
        let executor = tokio::spawn(run(options, cancel.clone()));
        let actions = Api::namespaced(client.clone(), "default");
        let installation =
            Self { server, client, actions, data, _stub: stub, _kubelet: kubelet, _stop: cancel.drop_guard() };
        let ready = async || {
            if executor.is_finished() {
                bail!("the executor ended");
            }
            Ok(readiness.is_ready().then_some(()))
        };
        until("the executor is ready", ready).await.with_context(|| format!("{:?}", readiness.checks()))?;
        Ok(installation)
    }

    async fn submit(&self, task: &Task) -> Result<()> {
        let data = format!("file://{}", self.data.path().display());
        let mut action = task.build("default", &data);
        action.spec.run_name = "r".into();
        self.actions.create(&PostParams::default(), &action).await?;
        Ok(())
    }

    async fn until_action<T>(&self, name: &str, what: &str, seen: impl Fn(&TaskAction) -> Option<T>) -> Result<T> {
        let mut last = None;
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let action = self.actions.get(name).await?;
            if let Some(seen) = seen(&action) {
                return Ok(seen);
            }
            last = action.status;
            tokio::time::sleep(LOOK_EVERY).await;
        }
        bail!("{name} never was {what}: {last:#?}")
    }

    fn jobs(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), "default", &pytorch_job())
    }
}

async fn until<T>(what: &str, look: impl AsyncFn() -> Result<Option<T>>) -> Result<T> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Some(seen) = look().await? {
            return Ok(seen);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    bail!("never: {what}")
}

/// The code and the words of what an action waits for.
fn pending(action: &TaskAction) -> Option<(String, String)> {
    let pending = action.status.as_ref()?.pending()?;
    Some((pending.reason.clone(), pending.message.clone()))
}

/// How an action ended: condition, reason, message.
fn ended(action: &TaskAction) -> Option<(String, String, String)> {
    let conditions = &action.status.as_ref()?.conditions;
    let end =
        conditions.iter().find(|it| it.status == "True" && ["Succeeded", "Failed"].contains(&it.type_.as_str()))?;
    Some((end.type_.clone(), end.reason.clone(), end.message.clone()))
}

fn pytorch_job() -> ApiResource {
    ApiResource {
        group: "kubeflow.org".into(),
        version: "v1".into(),
        api_version: "kubeflow.org/v1".into(),
        kind: "PyTorchJob".into(),
        plural: "pytorchjobs".into(),
    }
}

fn definition() -> CustomResourceDefinition {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "pytorchjobs.kubeflow.org"},
        "spec": {
            "group": "kubeflow.org", "scope": "Namespaced", "names": {"kind": "PyTorchJob", "plural": "pytorchjobs"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}}}],
        },
    }))
    .unwrap()
}

fn training(name: &str) -> Task {
    let mut task = Task::container(name).task_type("pytorch");
    task.template.task_type_version = 1;
    task.template.custom = Some(json_to_struct(&json!({"workerReplicas": {"replicas": 1}})).unwrap());
    task.template.interface = None;
    task
}

#[tokio::test]
async fn a_task_waits_for_its_kind_and_goes_on_as_the_kind_appears() -> Result<()> {
    let here = Installation::start(|settings| settings).await?;
    here.submit(&training("r-early")).await?;
    let waits = |action: &TaskAction| pending(action).filter(|(code, _)| code == "MissingKind");
    let (_, words) = here.until_action("r-early", "waiting for its kind", waits).await?;
    assert!(words.starts_with("the cluster does not serve PyTorchJob (kubeflow.org/v1); install"), "{words}");
    let status = here.actions.get("r-early").await?.status.unwrap();
    assert_eq!((status.plugin_phase.as_str(), status.system_failures), ("PhaseWaitingForResources", 0));
    let progress = &status.conditions[0];
    assert_eq!(
        (progress.type_.as_str(), progress.reason.as_str(), &progress.message),
        ("Progressing", "Queued", &words)
    );

    // Another one is deleted while it waits: nothing keeps it.
    here.submit(&training("r-given-up")).await?;
    here.until_action("r-given-up", "waiting for its kind", waits).await?;
    here.actions.delete("r-given-up", &DeleteParams::default()).await?;
    until("the action is gone", async || Ok(here.actions.get_opt("r-given-up").await?.is_none().then_some(()))).await?;

    install_crd(&here.client, &definition()).await?;
    let begin = Instant::now();
    until("the job is there", async || Ok(here.jobs().get_opt("r-early-0").await?)).await?;
    assert!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
    here.until_action("r-early", "started", |action| pending(action).is_none_or(|it| it.0 == "Starting").then_some(()))
        .await?;

    // The job cannot make its pods, and says so.
    let refused = "Error creating: Internal error occurred: failed calling webhook \"pods.example.com\"";
    let event: Event = serde_json::from_value(json!({
        "metadata": {"name": "r-early-0.1", "namespace": "default"}, "reason": "FailedCreatePod", "type": "Warning",
        "message": refused, "source": {"component": "training-operator"},
        "involvedObject":
            {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "namespace": "default", "name": "r-early-0"},
    }))?;
    Api::<Event>::namespaced(here.client.clone(), "default").create(&PostParams::default(), &event).await?;
    let webhook = |action: &TaskAction| pending(action).filter(|(code, _)| code == "Webhook");
    let (_, words) = here.until_action("r-early", "refused by a webhook", webhook).await?;
    assert_eq!(words, refused);

    // The kind goes, and with it the job; the task waits again, and nobody is charged.
    let definitions: Api<CustomResourceDefinition> = Api::all(here.client.clone());
    definitions.delete("pytorchjobs.kubeflow.org", &DeleteParams::default()).await?;
    here.until_action("r-early", "waiting again", waits).await?;
    let status = here.actions.get("r-early").await?.status.unwrap();
    assert_eq!((status.observed_attempt(), status.system_failures), (1, 0));
    install_crd(&here.client, &definition()).await?;
    until("the job is there again", async || Ok(here.jobs().get_opt("r-early-0").await?)).await?;
    Ok(())
}

#[tokio::test]
async fn a_task_fails_when_its_kind_does_not_come_in_time() -> Result<()> {
    let here = Installation::start(|settings| settings.with(&["executor", "missingKindTimeout"], "2s")).await?;
    here.submit(&training("r-late")).await?;
    let (outcome, _, words) = here.until_action("r-late", "ended", ended).await?;
    assert_eq!(outcome, "Failed");
    assert!(words.starts_with("the cluster does not serve PyTorchJob"), "{words}");
    let status = here.actions.get("r-late").await?.status.unwrap();
    assert_eq!(status.error_state.clone().unwrap().code, "KindNotServed");
    assert!(status.pending().is_none());
    Ok(())
}

#[tokio::test]
async fn rules_say_which_plugin_takes_a_task_and_why_none_does() -> Result<()> {
    let rules = json!({
        "unknown-task-types": "fail",
        "overrides": [{"project": "flytesnacks", "domain": "development", "missing": "fail",
            "task-types": {"pytorch": "my-torch"}}],
    });
    let here = Installation::start(|settings| settings.with(&["tasks", "task-plugins"], rules)).await?;
    here.submit(&Task::container("r-unheard").task_type("shell")).await?;
    here.submit(&training("r-ruled")).await?;
    let (outcome, reason, words) = here.until_action("r-unheard", "ended", ended).await?;
    assert_eq!((outcome.as_str(), reason.as_str()), ("Failed", "PluginNotFound"));
    assert!(words.contains("unknown-task-types keeps it from the default plugin \"pod\""), "{words}");
    let (_, reason, words) = here.until_action("r-ruled", "ended", ended).await?;
    assert_eq!(reason, "PluginNotFound");
    assert!(words.contains("tasks.task-plugins.overrides[0] wants plugin \"my-torch\""), "{words}");
    Ok(())
}

#[tokio::test]
async fn finished_objects_go_as_configured_and_no_others() -> Result<()> {
    let here =
        Installation::start(|settings| settings.with(&["plugins", "k8s", "delete-finished"], "on-success")).await?;
    here.submit(&Task::container("r-good")).await?;
    here.submit(&Task::container("r-bad").attempts(&["error:Broken:unrecoverable"])).await?;
    assert_eq!(here.until_action("r-good", "ended", ended).await?.0, "Succeeded");
    assert_eq!(here.until_action("r-bad", "ended", ended).await?.0, "Failed");
    let pods: Api<Pod> = Api::namespaced(here.client.clone(), "default");
    until("the pod that ended well is gone", async || Ok(pods.get_opt("r-good-0").await?.is_none().then_some(())))
        .await?;
    assert!(pods.get_opt("r-bad-0").await?.is_some(), "its logs are wanted");
    assert!(here.actions.get_opt("r-good").await?.is_some(), "the action stays until it is collected");
    Ok(())
}

#[tokio::test]
async fn tasks_wait_for_a_token_and_hold_it_until_they_have_ended() -> Result<()> {
    let pools = json!({"licences": {"quota": 2, "task-types": ["container"]}});
    let here = Installation::start(|settings| settings.with(&["tasks", "pools"], pools)).await?;
    let names: Vec<_> = (0..6).map(|number| format!("r-l{number}")).collect();
    for name in &names {
        here.submit(&Task::container(name).attempts(&["succeed@1500"])).await?;
    }
    let tokens: Api<Lease> = Api::all(here.client.clone());
    let labelled = ListParams::default().labels("flyte.org/pool=licences");
    let full = |action: &TaskAction| pending(action).filter(|(code, _)| code == "Pool");
    let (_, words) = here.until_action("r-l5", "waiting for a token", full).await?;
    assert_eq!(words, "pool licences: all 2 tokens are taken");
    until("all have ended", async || {
        let held = tokens.list(&labelled).await?.items;
        assert!(held.len() <= 2, "{held:#?}");
        let owned =
            |lease: &Lease| lease.metadata.owner_references.as_ref().is_some_and(|it| it[0].kind == "TaskAction");
        assert!(held.iter().all(owned));
        let actions = here.actions.list(&ListParams::default()).await?.items;
        Ok(actions.iter().all(|action| ended(action).is_some()).then_some(()))
    })
    .await?;
    for name in &names {
        let action = here.actions.get(name).await?;
        let status = action.status.clone().unwrap();
        assert_eq!((ended(&action).unwrap().0.as_str(), status.observed_attempt()), ("Succeeded", 1));
        assert_eq!(status.system_failures, 0, "waiting is charged to nobody");
    }
    until("every token is back", async || Ok(tokens.list(&labelled).await?.items.is_empty().then_some(()))).await?;
    Ok(())
}

#[tokio::test]
async fn only_our_finalizer_comes_off_also_after_a_conflict() -> Result<()> {
    let here = Installation::start(|settings| settings.with(&["plugins", "k8s", "inject-finalizer"], true)).await?;
    here.submit(&Task::container("r-held")).await?;
    assert_eq!(here.until_action("r-held", "ended", ended).await?.0, "Succeeded");
    let pods: Api<Pod> = Api::namespaced(here.client.clone(), "default");
    let theirs = json!([{"op": "add", "path": "/metadata/finalizers/0", "value": "example.com/theirs"}]);
    let theirs = Patch::Json::<()>(serde_json::from_value(theirs)?);
    let pod = pods.patch("r-held-0", &PatchParams::default(), &theirs).await?;
    assert_eq!(pod.metadata.finalizers.unwrap(), ["example.com/theirs", "flyte/flytek8s"]);
    here.server.faults().add(Fault::Times(Match::of("patch", "pods"), 409, 2));
    here.actions.delete("r-held", &DeleteParams::default()).await?;
    until("the action is gone", async || Ok(here.actions.get_opt("r-held").await?.is_none().then_some(()))).await?;
    assert_eq!(pods.get("r-held-0").await?.metadata.finalizers.unwrap(), ["example.com/theirs"]);
    Ok(())
}
