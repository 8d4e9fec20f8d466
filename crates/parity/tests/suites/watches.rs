//! Data from watches: slimmed pods have all fields that are read, and outdated quotas are not used.

use std::path::Path;

use aileron_action::TaskAction;
use aileron_executor::caches::pods::slim;
use aileron_machinery::Pending;
use aileron_parity::cluster::{Proxy, RefusalRule};
use aileron_parity::suite::{Executor, Server, StatusView, Task};
use aileron_parity::vectors::case::{self, Case};
use aileron_parity::vectors::families::produce;
use anyhow::Result;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceQuota};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

aileron_parity::on_both!(an_unreadable_quota_blocks_no_task);

/// The cached quota is outdated after the permission to read quotas was revoked. The test sets the used quota, because this
/// bench has no ResourceQuota controller.
async fn an_unreadable_quota_blocks_no_task(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("blinded").await?;
    let proxy = Proxy::start(&bench.cluster).await?;
    let quotas: Api<ResourceQuota> = Api::namespaced(space.admin.clone(), &space.namespace);
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}});
    quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
    let counted = async |hard: &str| {
        let status = json!({"status": {"hard": {"pods": hard}, "used": {"pods": "1"}}});
        quotas.patch_status("few", &PatchParams::default(), &Patch::Merge(status)).await
    };
    counted("1").await?;
    let executor = Executor::start_with(proxy.client()?, &bench.settings(), std::convert::identity).await?;
    space.submit(&Task::container("next")).await?;
    let full = |action: &TaskAction| action.pending().is_some_and(|(code, _)| code == "Quota");
    space.until("next", "waiting for quota", full).await?;

    for verb in ["list", "watch"] {
        proxy.refuse(RefusalRule::of(verb, "resourcequotas", 403, usize::MAX));
    }
    proxy.drop_watches();
    let raised = json!({"spec": {"hard": {"pods": "9"}}});
    quotas.patch("few", &PatchParams::default(), &Patch::Merge(raised)).await?;
    counted("9").await?;
    let action = space.until_ended("next").await?;
    assert_eq!((action.outcome().unwrap().0.as_str(), action.status_or_default().attempts), ("Succeeded", 1));
    let requests = proxy.requests().into_iter().map(|request| request.record);
    let creates: Vec<_> = requests.filter(|it| it.verb == "create" && it.resource == "pods").collect();
    assert_eq!(
        creates.iter().map(|it| it.code).collect::<Vec<_>>(),
        [201],
        "the create must be sent only after the cached quota was dropped"
    );
    executor.stop().await
}

/// Compares the results for all recorded pods with the results for the slimmed pods of the cache.
#[test]
fn a_slimmed_pod_gives_the_same_results_as_the_full_pod() -> Result<()> {
    let cases = case::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/open"))?;
    let mut pods = 0;
    for case in cases.iter().filter(|case| ["phase", "podhelper"].contains(&case.family.as_str())) {
        let (mut whole, mut slimmed) = (case.clone(), case.clone());
        let before = pods;
        for_each_pod(&mut whole, &mut |value| *value = json!(with_bulk(read(value))));
        for_each_pod(&mut slimmed, &mut |value| {
            let (recorded, whole) = (read(value), with_bulk(read(value)));
            let small = slim(whole.clone());
            assert_eq!(small, slim(recorded), "{}: slimming must remove all added fields", case.id());
            assert!(json!(small).to_string().len() < json!(whole).to_string().len(), "{}", case.id());
            assert_eq!(Pending::of_pod(&small), Pending::of_pod(&whole), "{}", case.id());
            *value = json!(small);
            pods += 1;
        });
        if pods > before {
            let (of_whole, of_slimmed) = (produce(&whole), produce(&slimmed));
            assert_eq!(of_whole.is_ok(), of_slimmed.is_ok(), "{}", case.id());
            assert_eq!(of_whole.unwrap_or_default(), of_slimmed.unwrap_or_default(), "{}", case.id());
        }
    }
    assert!(pods >= 200, "only {pods} pods");
    Ok(())
}

fn read(pod: &Value) -> Pod {
    serde_json::from_value(pod.clone()).unwrap()
}

/// Adds fields that pods in a cluster have and recorded ones lack.
fn with_bulk(mut pod: Pod) -> Pod {
    let bulk: Pod = serde_json::from_value(json!({
        "metadata": {"managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {}}}]},
        "spec": {
            "containers": [], "serviceAccountName": "default", "restartPolicy": "Never", "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler", "priority": 7, "nodeSelector": {"pool": "gpu"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}], "imagePullSecrets": [{"name": "registry"}],
            "volumes": [{"name": "data", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
        },
    }))
    .unwrap();
    let of_container: Container = serde_json::from_value(json!({
        "name": "", "args": ["pyflyte-execute", "--inputs", "s3://bucket/inputs.pb"], "command": ["sh", "-c"],
        "env": [{"name": "FLYTE_ATTEMPT_NUMBER", "value": "0"}, {"name": "SECRET", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}], "terminationMessagePolicy": "FallbackToLogsOnError",
        "ports": [{"containerPort": 8080}], "readinessProbe": {"httpGet": {"port": 8080}}, "imagePullPolicy": "Always",
    }))
    .unwrap();
    pod.metadata.managed_fields = bulk.metadata.managed_fields;
    let Some(recorded) = pod.spec.take() else { return pod };
    let mut spec = PodSpec {
        node_name: recorded.node_name,
        hostname: recorded.hostname,
        containers: recorded.containers,
        init_containers: recorded.init_containers,
        ..bulk.spec.unwrap()
    };
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        let env = container.env.iter().flatten().chain(of_container.env.iter().flatten()).cloned().collect();
        let (name, image) = (container.name.clone(), container.image.clone());
        *container = Container { name, image, env: Some(env), ..of_container.clone() };
    }
    pod.spec = Some(spec);
    pod
}

fn for_each_pod(case: &mut Case, visit: &mut dyn FnMut(&mut Value)) {
    let pods = case.input.get_mut("pods").and_then(Value::as_array_mut);
    pods.into_iter().flatten().for_each(&mut *visit);
    if let Some(object) = case.input.get_mut("resource").filter(|object| object["kind"] == "Pod") {
        visit(object);
    }
    if let Some(pod) = case.input.get_mut("args").and_then(|args| args.get_mut("pod")).filter(|pod| pod.is_object()) {
        visit(pod);
    }
}
