//! An API server with a node, and functions that wait for pods.
#![allow(dead_code)] // each suite uses its part

use std::path::PathBuf;
use std::time::Duration;

use aileron_apiserver::{ApiServer, Options};
use aileron_sandbox::{Node, NodeOptions};
use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ListParams, LogParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Time limit of a wait. It is long because the machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Cluster {
    server: ApiServer,
    node: Node,
}

impl Cluster {
    pub async fn start() -> Self {
        Self::with(NodeOptions::default()).await
    }

    pub async fn with(options: NodeOptions) -> Self {
        Self::on(ApiServer::new(Options::default()), options).await
    }

    pub async fn on(server: ApiServer, options: NodeOptions) -> Self {
        let options = NodeOptions { restart_backoff: Duration::from_millis(100), ..options };
        let node = Node::start(server.client(), server.logs().clone(), options).await.unwrap();
        Self { server, node }
    }

    pub async fn stop(self) -> ApiServer {
        self.node.stop().await;
        self.server
    }

    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    pub fn client(&self) -> Client {
        self.server.client()
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client())
    }

    #[allow(clippy::needless_pass_by_value)] // callers pass `json!` values
    pub async fn create(&self, name: &str, spec: Value) {
        let pod = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
    }

    /// The first version of the pod for which `holds` is true, including past versions.
    pub async fn until(&self, name: &str, holds: impl Fn(&Pod) -> bool) -> Pod {
        let found = async {
            loop {
                let pod = self.pods().get(name).await.unwrap();
                if holds(&pod) {
                    return pod;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(pod) => pod,
            Err(_) => panic!("{}", serde_json::to_string_pretty(&self.pods().get(name).await.unwrap()).unwrap()),
        }
    }

    pub async fn ended(&self, name: &str) -> Pod {
        self.until(name, |pod| matches!(phase(pod), "Succeeded" | "Failed")).await
    }

    pub async fn until_gone(&self, name: &str) {
        let gone = async {
            while self.pods().get_opt(name).await.unwrap().is_some() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.unwrap();
    }

    /// The last version of a pod before its deletion.
    pub fn watch_end(&self, name: &str) -> JoinHandle<Pod> {
        let (pods, params) = (self.pods(), WatchParams::default().fields(&format!("metadata.name={name}")));
        tokio::spawn(async move {
            let mut events = Box::pin(pods.watch(&params, "0").await.unwrap());
            while let Some(event) = events.try_next().await.unwrap() {
                if let WatchEvent::Deleted(pod) = event {
                    // The node removes the files a moment later.
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    return pod;
                }
            }
            panic!("the watch ended");
        })
    }

    pub async fn log(&self, name: &str, container: &str) -> String {
        let params = LogParams { container: Some(container.to_owned()), ..LogParams::default() };
        self.pods().logs(name, &params).await.unwrap()
    }

    pub async fn logged(&self, name: &str, container: &str, text: &str) {
        let logged = async {
            while !self.log(name, container).await.contains(text) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, logged).await.unwrap();
    }

    pub async fn first_line(&self, name: &str, container: &str) -> String {
        self.until(name, |pod| value(pod)["spec"]["nodeName"].is_string()).await;
        let params = LogParams { container: Some(container.to_owned()), follow: true, ..LogParams::default() };
        let mut lines = self.pods().log_stream(name, &params).await.unwrap().lines();
        tokio::time::timeout(PATIENCE, lines.try_next()).await.unwrap().unwrap().unwrap()
    }

    /// The first `count` events about a pod, once they exist.
    pub async fn events(&self, name: &str, count: usize) -> Vec<String> {
        let api: Api<Event> = Api::default_namespaced(self.client());
        let params = ListParams::default().fields(&format!("involvedObject.name={name}"));
        for _ in 0..500 {
            let mut events = api.list(&params).await.unwrap().items;
            if events.len() >= count {
                events.sort_by_key(ResourceExt::name_any);
                let one = |event: &Event| {
                    let text = |value: &Option<String>| value.clone().unwrap_or_default();
                    let source = event.source.as_ref().and_then(|source| source.component.clone()).unwrap_or_default();
                    let (kind, reason) = (text(&event.type_), text(&event.reason));
                    format!("{kind} {reason} {source}: {}", text(&event.message))
                };
                return events.iter().map(one).collect();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("there are not {count} events about {name}");
    }

    pub fn files(&self, pod: &Pod) -> PathBuf {
        self.node.dir().join("pods").join(pod.uid().unwrap())
    }
}

/// A container that runs a script. As in all commands of containers, `$$` stands for one dollar sign.
pub fn sh(name: &str, script: &str) -> Value {
    json!({"name": name, "image": "host", "command": ["sh", "-c", script.replace("$$", "$$$$")]})
}

pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub fn value(pod: &Pod) -> Value {
    serde_json::to_value(pod).unwrap()
}

/// The status of one container; null if there is none.
pub fn status_of(pod: &Pod, container: &str) -> Value {
    let status = value(pod)["status"].clone();
    let lists = ["containerStatuses", "initContainerStatuses"];
    let mut all = lists.iter().flat_map(|list| status[*list].as_array().cloned().unwrap_or_default());
    all.find(|one| one["name"] == container).unwrap_or_default()
}

/// Whether a process with this id runs. A zombie process counts as ended.
pub fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Waits until the process with this id has ended.
pub async fn gone(pid: &str) {
    assert!(pid.parse::<u32>().is_ok(), "{pid:?} is no process");
    for _ in 0..500 {
        if !is_alive(pid) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("process {pid} still runs");
}
