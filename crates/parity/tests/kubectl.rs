//! `kubectl` commands on the sandbox, and their output.
//!
//! They run with two versions: the `kubectl` on `PATH`, and the one of Debian's package, which is years older.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use aileron_apiserver::{ApiServer, Options};
use aileron_parity::manifests::find_kubectl;
use aileron_sandbox::{Node, NodeOptions};
use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinHandle;

/// Time limit of a command; none takes this long, even on a loaded machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

const OBJECTS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: a}}
data: {color: red}
---
apiVersion: v1
kind: Pod
metadata: {name: task}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: registry.test/task
    command: [sh, -c, 'echo one; echo two; while [ ! -e GATE ]; do sleep 0.1; done; echo three']
";

const DEFINITION: &str = r#"{
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
  "metadata": {"name": "things.kubectl.test"},
  "spec": {
    "group": "kubectl.test", "scope": "Namespaced",
    "names": {"kind": "Thing", "plural": "things", "singular": "thing", "shortNames": ["th"]},
    "versions": [{
      "name": "v1", "served": true, "storage": true,
      "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
      "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
        "type": "object", "properties": {"size": {"type": "integer", "description": "How large it is."}}
      }}}}
    }]
  }
}"#;

/// A sandbox with a node on loopback, and a `kubectl` that uses it.
struct KubectlSandbox {
    kubectl: PathBuf,
    node: Node,
    serving: JoinHandle<std::io::Result<()>>,
    dir: TempDir,
}

/// A command that still runs.
struct Running {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl KubectlSandbox {
    async fn new(kubectl: PathBuf) -> Result<Self> {
        aileron_parity::init();
        let server = ApiServer::new(Options::default());
        let token = server.new_token();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let serving = server.serve(listener, &token);
        let dir = tempfile::tempdir()?;
        std::fs::write(dir.path().join("kubeconfig"), server.kubeconfig(address, &token))?;
        let gate = dir.path().join("gate");
        std::fs::write(dir.path().join("objects.yaml"), OBJECTS.replace("GATE", &gate.display().to_string()))?;
        std::fs::write(dir.path().join("definition.json"), DEFINITION)?;
        let options =
            NodeOptions { name: "sandbox".to_owned(), dir: dir.path().join("node"), ..NodeOptions::default() };
        let node = Node::start(server.client(), server.logs().clone(), options).await?;
        Ok(Self { kubectl, node, serving, dir })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .args(words(line))
            .current_dir(self.dir.path())
            .env_clear()
            // `kubectl` caches discovery there.
            .env("HOME", self.dir.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("KUBECONFIG", self.dir.path().join("kubeconfig"))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs a command. Returns whether it succeeded, and its output.
    async fn run(&self, line: &str) -> Result<(bool, String)> {
        let output = tokio::time::timeout(WAIT_TIMEOUT, self.command(line).output());
        let output = output.await.with_context(|| format!("kubectl {line} did not end"))??;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
    }

    /// Runs a command that must succeed, and returns its output.
    async fn succeed(&self, line: &str) -> Result<String> {
        match self.run(line).await? {
            (true, said) => Ok(said),
            (false, said) => bail!("kubectl {line}: {said}"),
        }
    }

    /// Runs a command that must fail, and returns its output.
    async fn fail(&self, line: &str) -> Result<String> {
        match self.run(line).await? {
            (false, said) => Ok(said),
            (true, said) => bail!("kubectl {line} should fail, but succeeded: {said}"),
        }
    }

    fn start(&self, line: &str) -> Result<Running> {
        let mut child = self.command(line).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Ok(Running { _child: child, lines })
    }

    async fn stop(self) {
        self.node.stop().await;
        self.serving.abort();
    }
}

impl Running {
    /// The next line; `None` at the end.
    async fn line(&mut self) -> Result<Option<String>> {
        Ok(tokio::time::timeout(WAIT_TIMEOUT, self.lines.next_line())
            .await
            .context("no further line within the time limit")??)
    }

    async fn until(&mut self, text: &str) -> Result<()> {
        while let Some(line) = self.line().await? {
            if line.contains(text) {
                return Ok(());
            }
        }
        bail!("the command ended before it printed {text:?}")
    }
}

/// Splits a line into words. Text between single quotes is one word.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// The columns of a table's row.
fn row<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let found = table.lines().find(|line| line.split_whitespace().next() == Some(name));
    found.unwrap_or_else(|| panic!("no {name} in\n{table}")).split_whitespace().collect()
}

/// Creates, changes and deletes objects.
async fn objects(sandbox: &KubectlSandbox) -> Result<()> {
    let said = sandbox.succeed("apply -f objects.yaml").await?;
    assert_eq!(said, "configmap/settings created\npod/task created\n");
    let objects = sandbox.dir.path().join("objects.yaml");
    std::fs::write(&objects, std::fs::read_to_string(&objects)?.replace("red", "blue"))?;
    let said = sandbox.succeed("apply -f objects.yaml").await?;
    assert_eq!(said, "configmap/settings configured\npod/task unchanged\n");
    assert_eq!(sandbox.succeed("get cm settings -o jsonpath={.data.color}").await?, "blue");
    let said = sandbox.fail("create -f objects.yaml").await?;
    assert!(said.contains("Error from server (AlreadyExists)") && said.contains("configmaps \"settings\" already"));

    assert_eq!(sandbox.succeed("label cm settings tier=x").await?, "configmap/settings labeled\n");
    assert_eq!(sandbox.succeed("annotate cm settings note=y").await?, "configmap/settings annotated\n");
    for (kind, patch) in [
        ("merge", r#"{"data":{"shape":"round"}}"#),
        ("strategic", r#"{"data":{"size":"3"}}"#),
        ("json", r#"[{"op":"replace","path":"/data/color","value":"green"}]"#),
    ] {
        let said = sandbox.succeed(&format!("patch cm settings --type {kind} -p '{patch}'")).await?;
        assert_eq!(said, "configmap/settings patched\n");
    }
    let data = sandbox.succeed("get cm -l tier=x -o jsonpath={.items[0].data}").await?;
    for pair in [r#""color":"green""#, r#""shape":"round""#, r#""size":"3""#] {
        assert!(data.contains(pair), "{data}");
    }
    let described = sandbox.succeed("describe cm settings").await?;
    assert!(described.contains("app=a") && described.contains("shape:\n----\nround"), "{described}");

    // New versions of `kubectl` send these objects as protobuf.
    assert_eq!(sandbox.succeed("create namespace team").await?, "namespace/team created\n");
    assert_eq!(sandbox.succeed("-n team create configmap made --from-literal=a=b").await?, "configmap/made created\n");
    assert_eq!(
        sandbox.succeed("-n team create secret generic made --from-literal=a=b").await?,
        "secret/made created\n"
    );
    assert_eq!(sandbox.succeed("-n team get secret made -o jsonpath={.data.a}").await?, "Yg==");
    assert_eq!(sandbox.succeed("-n team create serviceaccount made").await?, "serviceaccount/made created\n");
    assert_eq!(sandbox.succeed("-n team create quota made --hard=pods=1").await?, "resourcequota/made created\n");
    assert_eq!(sandbox.succeed("auth can-i get pods").await?.trim(), "yes");
    sandbox.succeed("-n team run first --image=registry.test/i --restart=Never --command -- sleep 600").await?;
    let said = sandbox.fail("-n team run second --image=registry.test/i --restart=Never").await?;
    let quota = "is forbidden: exceeded quota: made, requested: pods=1, used: pods=1, limited: pods=1";
    assert!(said.contains("Error from server (Forbidden)") && said.contains(quota), "{said}");
    let described = sandbox.succeed("describe namespace team").await?;
    assert!(described.contains("Active") && row(&described, "pods") == ["pods", "1", "1"], "{described}");

    assert_eq!(sandbox.succeed("delete cm settings").await?, "configmap \"settings\" deleted\n".to_owned());
    assert!(sandbox.succeed("delete namespace team").await?.contains("namespace \"team\" deleted"));
    assert!(sandbox.fail("get namespace team").await?.contains("namespaces \"team\" not found"));
    Ok(())
}

/// Follows a pod from its start to its end.
async fn pods(sandbox: &KubectlSandbox) -> Result<()> {
    let mut watch = sandbox.start("get pods -w --output-watch-events")?;
    watch.until("task").await?;
    let said = sandbox.succeed("wait --for=condition=Ready pod/task --timeout=30s").await?;
    assert_eq!(said, "pod/task condition met\n");
    let table = sandbox.succeed("get pods -o wide").await?;
    let columns = row(&table, "task");
    assert_eq!(columns[1..4], ["1/1", "Running", "0"], "{table}");
    assert!(columns.contains(&"sandbox"), "{table}");
    assert_eq!(row(&sandbox.succeed("get pods -A").await?, "default")[1], "task");
    assert!(sandbox.succeed("get pods --field-selector status.phase=Pending").await?.contains("No resources found"));
    let described = sandbox.succeed("describe pod task").await?;
    for part in ["registry.test/task", "Running", "Scheduled", "Started"] {
        assert!(described.contains(part), "no {part} in {described}");
    }

    assert_eq!(sandbox.succeed("logs task").await?, "one\ntwo\n");
    assert_eq!(sandbox.succeed("logs task --tail=1").await?, "two\n");
    let mut follow = sandbox.start("logs -f task")?;
    assert_eq!(follow.line().await?.as_deref(), Some("one"));
    assert_eq!(follow.line().await?.as_deref(), Some("two"));
    std::fs::write(sandbox.dir.path().join("gate"), "")?;
    assert_eq!(follow.line().await?.as_deref(), Some("three"));
    assert_eq!(follow.line().await?, None, "the log ends with the task");
    watch.until("Completed").await?;
    assert_eq!(row(&sandbox.succeed("get pods").await?, "task")[1..3], ["0/1", "Completed"]);

    let mut gone = sandbox.start("wait --for=delete pod/task --timeout=30s")?;
    assert_eq!(sandbox.succeed("delete pod task --now").await?.lines().next(), Some("pod \"task\" deleted"));
    watch.until("DELETED").await?;
    while gone.line().await?.is_some() {}
    assert!(sandbox.fail("get pod task").await?.contains("Error from server (NotFound): pods \"task\" not found"));
    Ok(())
}

/// Discovery, custom resources and errors.
async fn discovery(sandbox: &KubectlSandbox) -> Result<()> {
    assert!(sandbox.succeed("version").await?.contains("v1.34"));
    let resources = sandbox.succeed("api-resources").await?;
    assert_eq!(row(&resources, "configmaps")[1], "cm");
    let said = sandbox.fail("get things").await?;
    assert!(said.contains("the server doesn't have a resource type \"things\""), "{said}");

    sandbox.succeed("create -f definition.json").await?;
    sandbox.succeed("wait --for=condition=Established crd/things.kubectl.test --timeout=30s").await?;
    let thing = r#"{"apiVersion":"kubectl.test/v1","kind":"Thing","metadata":{"name":"large"},"spec":{"size":7}}"#;
    std::fs::write(sandbox.dir.path().join("thing.json"), thing)?;
    assert_eq!(sandbox.succeed("apply -f thing.json").await?, "thing.kubectl.test/large created\n");
    assert_eq!(row(&sandbox.succeed("get th").await?, "large")[1], "7");
    std::fs::write(sandbox.dir.path().join("thing.json"), thing.replace('7', "\"seven\""))?;
    let said = sandbox.fail("apply -f thing.json").await?;
    assert!(said.contains("The Thing \"large\" is invalid") && said.contains("spec.size: Invalid value"), "{said}");

    std::fs::write(
        sandbox.dir.path().join("unknown.json"),
        r#"{"apiVersion":"a.b/v1","kind":"C","metadata":{"name":"c"}}"#,
    )?;
    assert!(sandbox.fail("apply -f unknown.json").await?.contains("no matches for kind \"C\" in version \"a.b/v1\""));
    std::fs::write(sandbox.dir.path().join("bad.yaml"), "kind: [")?;
    assert!(sandbox.fail("apply -f bad.yaml").await?.starts_with("error: error parsing bad.yaml"));
    assert!(sandbox.fail("patch cm none -p '{}'").await?.contains("configmaps \"none\" not found"));
    Ok(())
}

async fn run_all(kubectl: PathBuf) -> Result<()> {
    let sandbox = KubectlSandbox::new(kubectl).await?;
    objects(&sandbox).await?;
    pods(&sandbox).await?;
    discovery(&sandbox).await?;
    sandbox.stop().await;
    Ok(())
}

#[tokio::test]
async fn kubectl_on_path_works() -> Result<()> {
    run_all(find_kubectl(&[])?).await
}

#[tokio::test]
async fn kubectl_of_debian_works() -> Result<()> {
    if std::env::var_os("PATH")
        .is_some_and(|path| !std::env::split_paths(&path).any(|dir| dir.join("apt-get").exists()))
    {
        eprintln!("skipped: there is no apt-get to fetch the package with");
        return Ok(());
    }
    run_all(find_kubectl(&["--package"])?).await
}
