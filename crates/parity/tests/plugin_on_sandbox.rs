//! A plugin of one's own with the real executor on the sandbox, in one process: what `docs/testing.md` shows between the
//! two marks.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Duration;

use aileron_executor::action::{TaskAction, TaskActionStatus, crd::crd};
use aileron_executor::config::{Config, Sources};
use aileron_executor::offline::task_file;
use aileron_executor::run::{RunOptions, run};
use aileron_executor::serve::Readiness;
use aileron_idl::flyteidl2::common::ActionPhase;
use aileron_machinery::pod::phase::task_phase;
use aileron_machinery::pod::{PodOptions, build_pod};
use aileron_machinery::{K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, PluginSet, TaskContext};
use aileron_parity::events_stub::EventsStub;
use aileron_sandbox::{ApiServer, Node, NodeOptions, Options};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{LogParams, PostParams};
use kube::runtime::wait::await_condition;
use prost::Message as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// A plugin of one's own.
struct Polite;

impl K8sPlugin for Polite {
    type Resource = Pod;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new("polite", &["polite"])
    }

    fn build(&self, task: &TaskContext) -> Result<Pod, PluginError> {
        let mut draft = build_pod(task, PodOptions::default())?;
        draft.set_variable("PLEASE", "thank you")?;
        Ok(draft.into_pod())
    }

    fn phase(&self, cx: &PhaseContext<'_>, pod: &Pod) -> Result<PhaseInfo, PluginError> {
        Ok(task_phase(cx, pod))
    }
}

// begin: docs/testing.md
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_runs_its_task() {
    // A cluster: an API server without sockets, and a node that runs pods as processes.
    let dir = tempfile::tempdir().unwrap();
    let server = ApiServer::new(Options { namespaces: vec!["flyte".into(), "default".into()], ..Options::default() });
    let client = server.client();
    Api::all(client.clone()).create(&PostParams::default(), &crd().unwrap()).await.unwrap();
    let options = NodeOptions { dir: dir.path().join("node"), ..NodeOptions::default() };
    let node = Node::start(client.clone(), server.logs().clone(), options).await.unwrap();

    // The executor, with this plugin and no other, and a stand-in for the events service.
    let services = EventsStub::start().await.unwrap();
    let config = json!({
        "executor": {"EventsServiceURL": services.url(), "healthProbeBindAddress": "0", "metricsBindAddress": "0"},
        "storage": {"type": "local", "container": "data", "stow": {"kind": "local", "config": {"path": dir.path()}}},
    });
    let stop = CancellationToken::new();
    let options = RunOptions {
        config: Config::load(&Sources::file("test.yaml", &config.to_string())).unwrap(),
        plugins: PluginSet::new().with(Polite),
        client: client.clone(),
        namespace: "flyte".into(),
        identity: "test".into(),
        readiness: Readiness::new(),
    };
    let executor = tokio::spawn(run(options, stop.clone()));

    // A task of its type.
    let file = "{name: t, type: polite, image: any, command: [sh, -c, 'echo $PLEASE'], resources: {cpu: 100m}}";
    let template = task_file::read(file).unwrap().template.encode_to_vec();
    let action: TaskAction = serde_json::from_value(json!({
        "metadata": {"name": "r-a0"},
        "spec": {
            "runName": "r", "actionName": "a0", "project": "p", "domain": "d", "taskType": "polite",
            "inputUri": "file:///none", "runOutputBase": format!("file://{}/r/", dir.path().display()),
            "taskTemplate": k8s_openapi::ByteString(template),
        },
    }))
    .unwrap();
    let actions: Api<TaskAction> = Api::default_namespaced(client.clone());
    actions.create(&PostParams::default(), &action).await.unwrap();

    // What became of it.
    let ended = await_condition(actions, "r-a0", |found: Option<&TaskAction>| {
        found.and_then(|action| action.status.as_ref()).is_some_and(TaskActionStatus::is_terminal)
    });
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap().unwrap().unwrap();
    assert_eq!(ended.status.unwrap().conditions.last().unwrap().type_, "Succeeded");
    let pods: Api<Pod> = Api::default_namespaced(client);
    assert_eq!(pods.logs("r-a0-0", &LogParams::default()).await.unwrap(), "thank you\n");
    assert_eq!(services.events_of("a0").last().unwrap().event.phase(), ActionPhase::Succeeded);

    stop.cancel();
    executor.await.unwrap().unwrap();
    node.stop().await;
}
// end: docs/testing.md

#[test]
fn the_page_shows_this_very_test() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = std::fs::read_to_string(root.join("tests/plugin_on_sandbox.rs")).unwrap();
    let page = std::fs::read_to_string(root.join("../../docs/testing.md")).unwrap();
    let (_, rest) = source.split_once("// begin: docs/testing.md\n").unwrap();
    let (code, _) = rest.split_once("// end: docs/testing.md\n").unwrap();
    assert!(page.contains(&format!("```rust\n{code}```\n")), "docs/testing.md does not show this:\n{code}");
}
