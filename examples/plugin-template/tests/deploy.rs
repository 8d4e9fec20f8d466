//! The files of `deploy/`.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use aileron::{Program, SandboxOptions};
use aileron_machinery::K8sPlugin;
use aileron_machinery::serde_json::{Value, json, to_value};
use aileron_plugin_batch::{BatchConfig, BatchJob, BatchPlugin};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::discovery::ApiResource;
use kube::discovery::Scope;
use kube::{Client, CustomResourceExt};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy")
}

fn documents(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(deploy().join(file)).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

#[test]
fn the_definition_is_that_of_the_resource() {
    let [definition] = documents("crd.yaml").try_into().unwrap();
    assert_eq!(definition, to_value(BatchJob::crd()).unwrap(), "run: make generate");
}

#[test]
fn the_permissions_of_the_executor_are_for_the_kind_of_the_plugin() {
    let objects = documents("executor-permissions.yaml");
    let (group, plural) = (BatchJob::crd().spec.group, BatchJob::crd().spec.names.plural);
    let verbs = ["get", "list", "watch", "create", "patch", "delete"];
    assert_eq!(objects[0]["rules"][0], json!({"apiGroups": [group], "resources": [plural], "verbs": verbs}));
}

#[test]
fn the_executor_with_this_plugin_enables_it() {
    let [component] = documents("executor/kustomization.yaml").try_into().unwrap();
    let patch = component["patches"][0]["patch"].as_str().unwrap();
    let id = BatchPlugin::new(BatchConfig::default()).entry().id;
    assert!(patch.ends_with(&format!("value: --tasks.task-plugins.enabled-plugins={id}")), "{patch}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_accepts_every_object() {
    let program = Program::new().with_section(BatchPlugin::new);
    let sandbox = program.start_sandbox(SandboxOptions::default()).await.unwrap();
    let [kustomization] = documents("kustomization.yaml").try_into().unwrap();
    for file in kustomization["resources"].as_array().unwrap() {
        for object in documents(file.as_str().unwrap()) {
            apply(sandbox.client(), object).await;
        }
    }
    sandbox.stop().await.unwrap();
}

async fn apply(client: Client, object: Value) {
    let object: DynamicObject = aileron_machinery::serde_json::from_value(object).unwrap();
    let types = object.types.clone().unwrap();
    let (kind, capabilities): (ApiResource, _) =
        kube::discovery::pinned_kind(&client, &(&types).try_into().unwrap()).await.unwrap();
    let namespace = object.metadata.namespace.clone().unwrap_or_default();
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client, &kind),
        Scope::Namespaced => Api::namespaced_with(client, &namespace, &kind),
    };
    let name = object.metadata.name.clone().unwrap();
    let applied = api.patch(&name, &PatchParams::apply("deploy").force(), &Patch::Apply(&object)).await;
    applied.unwrap_or_else(|error| panic!("{} {name}: {error}", types.kind));
}
