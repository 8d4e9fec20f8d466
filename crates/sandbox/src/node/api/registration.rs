//! The Node object in the API.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::node::options::NODE_ADDRESS;
use crate::node::resources::Amounts;

/// The standard labels of a node.
pub(crate) fn labels(name: &str) -> BTreeMap<String, String> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let os = if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS };
    let pairs = [("kubernetes.io/hostname", name), ("kubernetes.io/arch", arch), ("kubernetes.io/os", os)];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Creates the Node object, or updates an existing one of this name.
pub(crate) async fn register(client: &Client, name: &str, capacity: &Amounts) -> kube::Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    let metadata = json!({"name": name, "labels": labels(name)});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}});
    let params = PatchParams::default();
    match api
        .create(&PostParams::default(), &serde_json::from_value(node.clone()).map_err(kube::Error::SerdeError)?)
        .await
    {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {
            api.patch(name, &params, &Patch::Merge(&json!({"metadata": {"labels": labels(name)}}))).await?;
        }
        Err(error) => return Err(error),
    }
    let patch = json!({"status": status(name, capacity)});
    api.patch_status(name, &params, &Patch::Merge(&patch)).await?;
    Ok(())
}

fn status(name: &str, capacity: &Amounts) -> Value {
    let amounts: BTreeMap<_, _> = capacity.iter().map(|(name, amount)| (name, amount.to_string())).collect();
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |kind: &str, holds: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": holds, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    json!({
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "addresses": [{"type": "InternalIP", "address": NODE_ADDRESS}, {"type": "Hostname", "address": name}],
        "nodeInfo": {
            "architecture": labels(name)["kubernetes.io/arch"], "operatingSystem": labels(name)["kubernetes.io/os"],
            "kubeletVersion": concat!("v", env!("CARGO_PKG_VERSION"), "-sandbox"), "kubeProxyVersion": "",
            "containerRuntimeVersion": "process://1", "kernelVersion": "", "osImage": "processes of this machine",
            "machineID": "", "systemUUID": "", "bootID": "",
        },
    })
}
