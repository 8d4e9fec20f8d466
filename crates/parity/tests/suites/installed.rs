//! The steps of `docs/install.md` on a real API server that checks permissions: a Go executor works, the chart is installed, its
//! container takes the work over and gives it back. The Go executor is a stand-in with the permissions that the page adds.

use std::net::TcpListener;
use std::path::Path;

use aileron_parity::cluster::{Authorization, User};
use aileron_parity::manifests::{Grants, apply, helm};
use aileron_parity::suite::{Bench, BenchOptions, GoExecutor, GoState, LeaderElect, Program, Server, StatusView, Task};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use serde_json::{Value, json};

const AILERON: User = User::ServiceAccount("flyte", "aileron");
const FLYTE_BINARY: User = User::ServiceAccount("flyte", "flyte-binary");

/// The YAML block of the page that begins with this line.
fn example(first_line: &str) -> Result<Value> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/install.md");
    let page = std::fs::read_to_string(page)?;
    let (_, rest) = page.split_once(&format!("```yaml\n{first_line}\n")).context("no such example")?;
    Ok(serde_saphyr::from_str(rest.split("```").next().unwrap_or_default())?)
}

/// The role of flyte-binary: what its chart grants for actions and pods, and the rules that the page adds.
async fn grant_go_executor(bench: &Bench) -> Result<()> {
    let admin = bench.cluster.client(User::Admin).await?;
    let all = ["create", "delete", "get", "list", "patch", "update", "watch"];
    let mut rules = vec![
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": all}),
        json!({"apiGroups": ["flyte.org"], "resources": ["taskactions", "taskactions/status"], "verbs": all}),
    ];
    let values = example("# flyte-values.yaml")?;
    assert_eq!(values["configuration"]["inline"]["executor"]["leaderElect"], true);
    rules.extend(values["rbac"]["extraRules"].as_array().context("the page adds no rules")?.iter().cloned());
    let name = "flyte-binary-cluster-role";
    let subject = json!({"kind": "ServiceAccount", "namespace": "flyte", "name": "flyte-binary"});
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
    let (group, metadata) = ("rbac.authorization.k8s.io/v1", json!({"name": name}));
    let roles = [
        json!({"apiVersion": group, "kind": "ClusterRole", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": group, "kind": "ClusterRoleBinding", "metadata": metadata, "roleRef": reference,
            "subjects": [subject],
        }),
    ];
    apply(&admin, &roles).await?;
    Grants::of(&roles, FLYTE_BINARY)?.until_known(&admin, FLYTE_BINARY).await
}

/// The values of the page, with the services, the storage and the ports of the bench.
fn values(bench: &Bench) -> Result<Value> {
    let mut values = example("# values.yaml")?;
    let services = bench.stub.url();
    let config = &mut values["config"];
    for key in ["EventsServiceURL", "cacheServiceURL"] {
        ensure!(config["executor"][key].is_string(), "the page does not set {key}");
        config["executor"][key] = services.clone().into();
    }
    let files = json!({"kind": "local", "config": {"path": bench.data()}});
    config["storage"] = json!({"type": "local", "container": "data", "stow": files});
    values["probes"] = json!({"port": TcpListener::bind("127.0.0.1:0")?.local_addr()?.port()});
    values["metrics"] = json!({"enabled": false});
    Ok(values)
}

/// Starts the container of the installed Deployment, as the kubelet would: with its arguments, its ConfigMap and its service
/// account.
async fn start_container(bench: &Bench, pod: &str) -> Result<Program> {
    let admin = bench.cluster.client(User::Admin).await?;
    let deployment = Api::<Deployment>::namespaced(admin.clone(), "flyte").get("aileron").await?;
    let spec = deployment.spec.template.spec.context("no pod")?;
    assert_eq!(spec.service_account_name.as_deref(), Some("aileron"));
    let map = spec.volumes.iter().flatten().find_map(|volume| volume.config_map.as_ref()).context("no ConfigMap")?;
    let map = Api::<ConfigMap>::namespaced(admin, "flyte").get(&map.name).await?;
    let folder = bench.cluster.dir().join(pod);
    std::fs::create_dir(&folder)?;
    for (file, text) in map.data.into_iter().flatten() {
        std::fs::write(folder.join(file), text)?;
    }
    let container = spec.containers.first().context("no container")?;
    let mount = &container.volume_mounts.iter().flatten().next().context("no mount")?.mount_path;
    let here = |argument: &String| argument.replace(mount.as_str(), &folder.display().to_string());
    let arguments: Vec<String> = container.args.iter().flatten().map(here).collect();
    Program::start_container(&bench.cluster, AILERON, &arguments, ("flyte", pod))
}

#[tokio::test]
async fn the_steps_of_the_page_change_the_executor_and_change_it_back() -> Result<()> {
    let bench = Bench::start(BenchOptions {
        server: Server::Real,
        authorization: Authorization::Rbac,
        audited: vec![AILERON, FLYTE_BINARY],
        ..BenchOptions::default()
    })
    .await?;
    let space = bench.space("flyte").await?;
    // `helm upgrade flyte-binary`, with the values of the page.
    grant_go_executor(&bench).await?;
    let mut go = GoExecutor::start(&bench, None, FLYTE_BINARY, "flyte-binary-1", LeaderElect::On).await?;
    go.until(GoState::Leads).await?;
    space.submit(&Task::container("in-flight").attempts(&["succeed@20000"])).await?;
    space.until("in-flight", "running", |action| action.reason() == "Executing").await?;

    // `helm install aileron`.
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/aileron").display().to_string();
    let kubeconfig = bench.cluster.kubeconfig(User::Admin).display().to_string();
    let place = ["--namespace", "flyte", "--kubeconfig", &kubeconfig];
    let said = helm(&[&["install", "aileron", &chart, "--values", "-"][..], &place].concat(), &values(&bench)?)?;
    ensure!(said.contains("kubectl --namespace flyte get lease abf369a8.flyte.org"), "{said}");
    let mut aileron = start_container(&bench, "aileron-1").await?;
    go.until(GoState::LostTheLease).await?;
    go.stop();
    let mut go = GoExecutor::start(&bench, None, FLYTE_BINARY, "flyte-binary-2", LeaderElect::On).await?;
    aileron.until_started().await?;
    space.submit(&Task::container("new")).await?;
    for name in ["new", "in-flight"] {
        let action = space.until_ended(name).await?;
        assert_eq!(action.outcome().unwrap().0, "Succeeded", "{}\n{}", action.summary(), aileron.log());
        assert_eq!(action.status_or_default().attempts, 1);
    }
    assert_eq!((go.state(), space.runs().len()), (GoState::Standby, 2));
    space.submit(&Task::container("returned").attempts(&["succeed@6000"])).await?;
    space.until("returned", "running", |action| action.reason() == "Executing").await?;

    // `kubectl scale deployment aileron --replicas 0`, then `helm uninstall aileron`.
    aileron.terminate().await?;
    go.until(GoState::Leads).await?;
    helm(&[&["uninstall", "aileron"][..], &place].concat(), &Value::Null)?;
    let action = space.until_ended("returned").await?;
    assert_eq!((action.outcome().unwrap().0, space.runs().len()), ("Succeeded".to_owned(), 3), "{}", action.summary());
    go.check().await
}

/// `helm uninstall` alone: the executor loses its permissions before it is told to stop. It cannot release the lease, so the Go
/// executor waits until the lease has expired.
#[tokio::test]
async fn an_executor_that_lost_its_permissions_still_ends_in_time() -> Result<()> {
    let authorization = Authorization::Rbac;
    let options = BenchOptions { server: Server::Real, authorization, ..BenchOptions::default() };
    let bench = Bench::start(BenchOptions { audited: vec![AILERON, FLYTE_BINARY], ..options }).await?;
    let space = bench.space("flyte").await?;
    grant_go_executor(&bench).await?;
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/aileron").display().to_string();
    let kubeconfig = bench.cluster.kubeconfig(User::Admin).display().to_string();
    let place = ["--namespace", "flyte", "--kubeconfig", &kubeconfig];
    let mut alone = values(&bench)?;
    alone["leaderElection"] = json!({"takeOver": false});
    helm(&[&["install", "aileron", &chart, "--values", "-"][..], &place].concat(), &alone)?;
    let mut aileron = start_container(&bench, "aileron-1").await?;
    aileron.until_started().await?;
    let mut go = GoExecutor::start(&bench, None, FLYTE_BINARY, "flyte-binary-1", LeaderElect::On).await?;
    space.submit(&Task::container("left").attempts(&["succeed@3000"])).await?;
    space.until("left", "running", |action| action.reason() == "Executing").await?;
    helm(&[&["uninstall", "aileron"][..], &place].concat(), &Value::Null)?;
    aileron.terminate().await?;
    go.until(GoState::Leads).await?;
    let action = space.until_ended("left").await?;
    assert_eq!((action.outcome().unwrap().0, space.runs().len()), ("Succeeded".to_owned(), 1), "{}", action.summary());
    assert_eq!(action.status_or_default().attempts, 1);
    go.check().await
}
