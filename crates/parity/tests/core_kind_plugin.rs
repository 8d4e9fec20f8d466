//! A plugin for a built-in kind other than Pod that is known only at run time, with the real executor on the sandbox API. Its
//! objects are watched from the start, so changes are seen at once.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;
use std::time::Duration;

use aileron_action::{TaskAction, TaskActionStatus, crd::crd};
use aileron_apiserver::{ApiServer, Options};
use aileron_config::{Config, Sources};
use aileron_executor::assembly::{RunOptions, run};
use aileron_executor::caches::memory::MemoryCounts;
use aileron_executor::caches::readiness::Readiness;
use aileron_machinery::{
    AnyResource, JsonObject, ObjectPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, PluginSet, ResourceKind,
    TaskContext, TaskInfo, async_trait,
};
use aileron_parity::events_stub::EventsStub;
use aileron_preview::task_file;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use prost::Message as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Time limit of a wait. It is long because the machine may be busy with other programs, and shorter than the ten minutes
/// after which an action gets a round without a change of its object.
const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

/// Creates a ConfigMap as its object. The task succeeds when the ConfigMap has an answer.
struct Note;

#[async_trait]
impl ObjectPlugin for Note {
    fn entry(&self) -> PluginEntry {
        PluginEntry::new(format!("note-{}", "v1"), &["note"])
    }

    fn kind(&self) -> ResourceKind {
        ResourceKind::new(String::new(), "v1", "ConfigMap", "configmaps")
    }

    async fn build(&self, _: &TaskContext) -> Result<Box<dyn AnyResource>, PluginError> {
        Ok(Box::new(JsonObject::new(self.kind(), json!({"data": {"question": "ready?"}}))?))
    }

    async fn phase(&self, cx: &PhaseContext<'_>, note: &dyn AnyResource) -> Result<PhaseInfo, PluginError> {
        let info = TaskInfo::at(cx.task.now);
        let answered = note.to_json()?["data"]["answer"] == "yes";
        Ok(if answered { PhaseInfo::success(info) } else { PhaseInfo::running(info) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_an_object_of_a_core_group_kind_wakes_its_task() {
    let dir = tempfile::tempdir().unwrap();
    let server = ApiServer::new(Options { namespaces: vec!["flyte".into(), "default".into()], ..Options::default() });
    let client = server.client();
    Api::all(client.clone()).create(&PostParams::default(), &crd().unwrap()).await.unwrap();
    let services = EventsStub::start().await.unwrap();
    let config = json!({
        "executor": {"EventsServiceURL": services.url(), "healthProbeBindAddress": "0", "metricsBindAddress": "0"},
        "storage": {"type": "local", "container": "data", "stow": {"kind": "local", "config": {"path": dir.path()}}},
    });
    let stop = CancellationToken::new();
    let options = RunOptions {
        config: Config::load(&Sources::file("test.yaml", &config.to_string())).unwrap(),
        plugins: PluginSet::new().with_object_plugin(Arc::new(Note)),
        client: client.clone(),
        namespace: "flyte".into(),
        identity: "test".into(),
        readiness: Readiness::new(),
        memory: MemoryCounts::default(),
    };
    let executor = tokio::spawn(run(options, stop.clone()));

    let file = "{name: t, type: note, image: any}";
    let template = task_file::read(file).unwrap().template.encode_to_vec();
    let action: TaskAction = serde_json::from_value(json!({
        "metadata": {"name": "r-a0"},
        "spec": {
            "runName": "r", "actionName": "a0", "project": "p", "domain": "d", "taskType": "note",
            "inputUri": "file:///none", "runOutputBase": format!("file://{}/r/", dir.path().display()),
            "taskTemplate": k8s_openapi::ByteString(template),
        },
    }))
    .unwrap();
    let actions: Api<TaskAction> = Api::default_namespaced(client.clone());
    actions.create(&PostParams::default(), &action).await.unwrap();
    let executing = |found: Option<&TaskAction>| {
        let status = found.and_then(|action| action.status.as_ref());
        status.is_some_and(|status| status.plugin_phase == "PhaseRunning")
    };
    let running = await_condition(actions.clone(), "r-a0", executing);
    tokio::time::timeout(WAIT_TIMEOUT, running).await.unwrap().unwrap();

    let notes: Api<ConfigMap> = Api::default_namespaced(client);
    let answer = Patch::Merge(json!({"data": {"answer": "yes"}}));
    notes.patch("r-a0-0", &PatchParams::default(), &answer).await.unwrap();
    let ended = await_condition(actions, "r-a0", |found: Option<&TaskAction>| {
        found.and_then(|action| action.status.as_ref()).is_some_and(TaskActionStatus::is_terminal)
    });
    let ended = tokio::time::timeout(WAIT_TIMEOUT, ended).await.unwrap().unwrap().unwrap();
    assert_eq!(ended.status.unwrap().conditions.last().unwrap().type_, "Succeeded");

    stop.cancel();
    executor.await.unwrap().unwrap();
}
