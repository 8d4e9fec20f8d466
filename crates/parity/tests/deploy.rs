//! `deploy/`: helm and kustomize render it, a real API server accepts every object, and the program accepts its arguments.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use aileron_parity::cluster::{Cluster, Options, User, create_namespace};
use aileron_parity::manifests::{apply, helm, helm_template, kustomize, objects};
use aileron_parity::suite::binary;
use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};

/// A definition with the fields that a ServiceMonitor of ours has, instead of that of the Prometheus operator.
const SERVICE_MONITOR: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: ServiceMonitor, plural: servicemonitors, singular: servicemonitor}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [selector, endpoints]
            properties:
              selector:
                type: object
                properties: {matchLabels: {type: object, additionalProperties: {type: string}}}
              endpoints:
                type: array
                items:
                  type: object
                  properties:
                    port: {type: string}
                    interval: {type: string}
                    scheme: {type: string, enum: [http, https]}
                    bearerTokenFile: {type: string}
                    tlsConfig: {type: object, properties: {insecureSkipVerify: {type: boolean}}}
";

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn config() -> Value {
    let storage = json!({"type": "stow", "container": "flyte", "stow": {"kind": "s3", "config": {"auth_type": "iam"}}});
    json!({"executor": {"EventsServiceURL": "http://events:8090", "cluster": "c"}, "storage": storage})
}

/// Values that differ from the defaults in all ways that add, remove or change objects.
fn variants() -> Vec<(&'static str, Value)> {
    let image = json!({"repository": "registry.test/aileron"});
    let digest = format!("sha256:{}", "0".repeat(64));
    let all = ["pod", "spark", "ray", "dask", "pytorch", "tensorflow", "mpi", "clustered-task"];
    vec![
        ("defaults", json!({"image": image, "config": config()})),
        (
            "everything",
            json!({
                "image": {"repository": "registry.test/aileron", "digest": digest},
                "config": config(),
                "plugins": all,
                "pools": {"enabled": true},
                "metrics": {
                    "readers": [{"name": "prometheus", "namespace": "monitoring"}],
                    "serviceMonitor": {"enabled": true, "interval": "1m", "labels": {"release": "prometheus"}},
                },
                "networkPolicy": {
                    "enabled": true,
                    "metricsFrom": [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}],
                    "egress": [{"ports": [{"port": 443}]}],
                },
                "crd": {"install": true},
                "serviceAccount": {"annotations": {"example.org/role": "aileron"}},
                "imagePullSecrets": [{"name": "registry"}],
                "priorityClassName": "system-cluster-critical",
                "nodeSelector": {"pool": "platform"},
                "tolerations": [{"key": "platform", "operator": "Exists"}],
                "podAnnotations": {"example.org/note": "a"},
                "podLabels": {"team": "platform"},
                "extraArgs": ["--log-format=json"],
                "extraEnv": [{"name": "AWS_REGION", "value": "eu-central-1"}],
                "extraEnvFrom": [{"secretRef": {"name": "storage"}}],
                "extraVolumes": [{"name": "certificates", "emptyDir": {}}],
                "extraVolumeMounts": [{"name": "certificates", "mountPath": "/certificates"}],
            }),
        ),
        (
            "one replica in some namespaces",
            json!({
                "image": image,
                "existingConfigMap": "flyte-binary-config",
                "replicas": 1,
                "leaderElection": {"enabled": false},
                "plugins": ["pod", "ray"],
                "garbageCollection": {"enabled": false},
                "quotas": {"enabled": false},
                "metrics": {"enabled": false},
                "networkPolicy": {"enabled": true},
                "rbac": {"namespaces": ["team-a", "team-b"]},
            }),
        ),
        (
            "roles and account of somebody else, and plain metrics",
            json!({
                "image": image,
                "config": config(),
                "rbac": {"create": false},
                "serviceAccount": {"create": false, "name": "flyte-binary"},
                "metrics": {"secure": false, "serviceMonitor": {"enabled": true}},
            }),
        ),
    ]
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// The folders of the kustomization that can be built by themselves.
fn kustomizations() -> Result<Vec<PathBuf>> {
    let base = deploy().join("kustomize");
    let mut folders = vec![base.clone(), base.join("monitoring"), base.join("crd")];
    for entry in std::fs::read_dir(base.join("permissions"))? {
        folders.push(entry?.path());
    }
    Ok(folders)
}

#[test]
fn helm_finds_no_mistake_in_the_chart() -> Result<()> {
    let chart = deploy().join("helm/aileron").display().to_string();
    for (name, values) in variants() {
        helm(&["lint", "--strict", &chart, "--values", "-"], &values).context(name)?;
    }
    Ok(())
}

#[test]
fn values_that_cannot_work_are_refused_with_a_reason() {
    let image = json!({"repository": "registry.test/aileron"});
    for (values, reason) in [
        (json!({}), "there is no published image"),
        (json!({"image": image, "replicsa": 2}), "replicsa"),
        (json!({"image": image, "image.tag": 1}), "image.tag"),
        (json!({"image": image, "replicas": "two"}), "replicas"),
        (json!({"image": image, "leaderElection": {"enabled": false}}), "there can be one replica"),
        (json!({"image": image, "plugins": ["spork"]}), "there is no plugin \"spork\""),
        (json!({"image": image, "rbac": {"namespaces": ["Team A"]}}), "Team A"),
        (json!({"image": image, "config": config(), "existingConfigMap": "other"}), "set one of them"),
        (json!({"image": image, "serviceAccount": {"create": false}}), "name the existing service account"),
    ] {
        let said = format!("{:#}", helm_template(&values).expect_err(reason));
        assert!(said.contains(reason), "{reason}: {said}");
    }
}

#[tokio::test]
async fn an_api_server_accepts_every_object() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let admin = cluster.client(User::Admin).await?;
    for namespace in ["team-a", "team-b"] {
        create_namespace(&admin, namespace).await?;
    }
    apply(&admin, &objects(SERVICE_MONITOR)?).await?;
    for (name, values) in variants() {
        apply(&admin, &helm_template(&values)?).await.with_context(|| format!("the chart with {name}"))?;
    }
    // Another selector, which cannot be changed.
    let deployments: Api<Deployment> = Api::namespaced(admin.clone(), "flyte");
    deployments.delete("aileron", &DeleteParams::default()).await?;
    for folder in kustomizations()? {
        apply(&admin, &kustomize(&folder)?).await.with_context(|| format!("{}", folder.display()))?;
    }
    Ok(())
}

#[tokio::test]
async fn helm_installs_changes_and_uninstalls_the_chart() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let admin = cluster.client(User::Admin).await?;
    for namespace in ["team-a", "team-b"] {
        create_namespace(&admin, namespace).await?;
    }
    apply(&admin, &objects(SERVICE_MONITOR)?).await?;
    let chart = deploy().join("helm/aileron").display().to_string();
    let kubeconfig = cluster.kubeconfig(User::Admin).display().to_string();
    let place = ["--namespace", "flyte", "--kubeconfig", &kubeconfig];
    for (name, values) in variants() {
        let upgrade = ["upgrade", "--install", "aileron", &chart, "--values", "-"];
        helm(&[&upgrade[..], &place].concat(), &values).context(name)?;
    }
    let deployments: Api<Deployment> = Api::namespaced(admin.clone(), "flyte");
    let deployed = deployments.get("aileron").await?.spec;
    assert_eq!(deployed.template.spec.and_then(|pod| pod.service_account_name).as_deref(), Some("flyte-binary"));
    helm(&[&["uninstall", "aileron"][..], &place].concat(), &Value::Null)?;
    assert!(deployments.get_opt("aileron").await?.is_none());
    // Without it, all actions would be gone.
    let definitions: Api<CustomResourceDefinition> = Api::all(admin);
    assert!(definitions.get_opt("taskactions.flyte.org").await?.is_some(), "the definition must stay");
    Ok(())
}

/// Everything that a binding or a pod names is there too.
#[test]
fn objects_refer_to_objects_that_exist() -> Result<()> {
    let mut sets = vec![("kustomize".to_owned(), kustomize(&deploy().join("kustomize"))?)];
    for (name, values) in variants() {
        if values["serviceAccount"]["create"] != false {
            sets.push((name.to_owned(), helm_template(&values)?));
        }
    }
    for (set, objects) in sets {
        let names = |kind: &str| {
            let named = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
            of_kind(&objects, kind).into_iter().map(named).collect::<BTreeSet<_>>()
        };
        let accounts = names("ServiceAccount");
        let has = |kind: &str, name: &Value| names(kind).contains(name.as_str().unwrap());
        for binding in [of_kind(&objects, "ClusterRoleBinding"), of_kind(&objects, "RoleBinding")].concat() {
            let (role, subject) = (&binding["roleRef"], &binding["subjects"][0]);
            assert!(has(role["kind"].as_str().unwrap(), &role["name"]), "{set}: {binding}");
            let is_reader = role["name"].as_str().unwrap().ends_with("metrics-reader");
            assert!(is_reader || accounts.contains(subject["name"].as_str().unwrap()), "{set}: {binding}");
        }
        let deployment = of_kind(&objects, "Deployment").pop().unwrap();
        let pod = &deployment["spec"]["template"];
        assert!(has("ServiceAccount", &pod["spec"]["serviceAccountName"]), "{set}");
        let config = &pod["spec"]["volumes"][0]["configMap"]["name"];
        assert!(has("ConfigMap", config) || *config == "flyte-binary-config", "{set}: {config}");
        for kind in ["Service", "PodDisruptionBudget", "NetworkPolicy"] {
            for object in of_kind(&objects, kind) {
                let spec = &object["spec"];
                let places = [&spec["selector"]["matchLabels"], &spec["podSelector"]["matchLabels"], &spec["selector"]];
                let selector = places.into_iter().find_map(Value::as_object).unwrap();
                let labels = &pod["metadata"]["labels"];
                assert!(selector.iter().all(|(key, value)| labels[key] == *value), "{set}: {object} selects no pod");
            }
        }
    }
    Ok(())
}

/// The YAML block of `docs/install.md` that begins with this line.
fn example(first_line: &str) -> Result<String> {
    let page = std::fs::read_to_string(deploy().join("../docs/install.md"))?;
    let (_, rest) = page.split_once(&format!("```yaml\n{first_line}\n")).context("no such example")?;
    Ok(rest.split("```").next().unwrap_or_default().to_owned())
}

#[test]
fn the_examples_of_the_page_work() -> Result<()> {
    let values: Value = serde_saphyr::from_str(&example("# values.yaml")?)?;
    let chart = helm_template(&values)?;
    assert!(
        of_kind(&chart, "ClusterRole").iter().any(|role| role["rules"][0]["apiGroups"][0] == "sparkoperator.k8s.io")
    );

    // Beside a link to this folder, because kustomize does not take absolute paths.
    let folder = tempfile::tempdir()?;
    std::os::unix::fs::symlink(deploy().canonicalize()?, folder.path().join("deploy"))?;
    let overlay = folder.path().join("overlay");
    std::fs::create_dir(&overlay)?;
    std::fs::write(overlay.join("config.yaml"), "executor: {cluster: mine}\n")?;
    let text = example("# kustomization.yaml")?.replace("path/to/deploy", "../deploy");
    std::fs::write(overlay.join("kustomization.yaml"), text)?;
    let objects = kustomize(&overlay)?;
    let container = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example.org/aileron:0.1.0");
    let flags: Vec<_> = container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let plugins: Vec<_> = flags.iter().filter(|flag| flag.contains("enabled-plugins")).collect();
    assert_eq!(plugins, [&"--tasks.task-plugins.enabled-plugins=core-sleep,container,sidecar,pod,spark"]);
    assert_eq!(of_kind(&objects, "ConfigMap")[0]["data"]["config.yaml"], "executor: {cluster: mine}\n");
    assert_eq!(of_kind(&objects, "ServiceMonitor").len(), 1);
    let names: Vec<_> = of_kind(&objects, "ClusterRole").iter().map(|role| role["metadata"]["name"].clone()).collect();
    assert!(names.contains(&"aileron-plugin-spark-tasks".into()), "{names:?}");
    Ok(())
}

/// The program reads the configuration and takes the arguments of the container.
#[test]
fn the_program_accepts_the_arguments_and_the_configuration() -> Result<()> {
    let mut sets = vec![("kustomize", kustomize(&deploy().join("kustomize"))?)];
    for (name, values) in variants() {
        sets.push((name, helm_template(&values)?));
    }
    for (set, objects) in sets {
        let folder = tempfile::tempdir()?;
        let given = of_kind(&objects, "ConfigMap")
            .pop()
            .map_or_else(|| config().to_string(), |map| map["data"]["config.yaml"].as_str().unwrap().to_owned());
        std::fs::write(folder.path().join("config.yaml"), given)?;
        let container = &of_kind(&objects, "Deployment").pop().unwrap()["spec"]["template"]["spec"]["containers"][0];
        let arguments = container["args"].as_array().unwrap().iter().map(|one| one.as_str().unwrap());
        let mount = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
        let here = |argument: &str| argument.replace(mount, &folder.path().display().to_string());
        let (keys, others): (Vec<_>, Vec<_>) =
            arguments.map(here).partition(|one| one.starts_with("--") && one.contains('.'));
        assert_eq!(others[0], "run", "{set}");
        let shown = |command: &str| {
            let output = Command::new(binary().unwrap())
                .args(["config", command])
                .args(&others[1..3])
                .args(&keys)
                .env_clear()
                .output()
                .unwrap();
            let said = [output.stdout, output.stderr].concat();
            assert!(output.status.success(), "{set}: {}", String::from_utf8_lossy(&said));
            String::from_utf8(said).unwrap()
        };
        shown("check");
        let all = shown("show");
        for part in ["leaderElect:", "enabled-plugins:", "core-sleep", "EventsServiceURL:"] {
            assert!(all.contains(part), "{set}: no {part} in\n{all}");
        }
    }
    Ok(())
}
