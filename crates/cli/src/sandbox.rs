//! A whole single-machine cluster in this process: API server, node, simulated operators, services and the executor.

mod access;
mod dir;
mod executor;
mod services;
pub mod state;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use aileron_apiserver::{ApiServer, Options, Persistence};
use aileron_kubekit::quantity::Quantity;
use aileron_sandbox::{Node, NodeOptions, Operators, Rules, install_definitions};
use anyhow::{Context, anyhow};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use tokio::task::JoinHandle;

use crate::arguments::{ConfigArguments, NodeArguments};
use crate::failure::Failure;
use crate::{logs, output};

use access::Access;
use dir::Dir;
pub use dir::clean;
use executor::{Executor, NAMESPACE};
use services::Services;
use state::{State, write_private};

/// The file of events in its directory.
pub const EVENTS_FILE: &str = "events.jsonl";
/// The file of log records in its directory, unless they go elsewhere.
const LOG_FILE: &str = "executor.log";

/// Where a sandbox keeps its things.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In a directory that goes with it.
    #[default]
    Temporary,
    /// Here, to find them again.
    Persistent(PathBuf),
}

/// Where log records go. There is one choice for the whole process; a later one does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Records {
    /// To a file in the sandbox's directory.
    #[default]
    File,
    /// To the error stream.
    Screen,
}

/// What the executor's configuration is made of, besides what a sandbox brings along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigSources {
    /// Files and patterns.
    pub files: Vec<String>,
    /// Keys of the command line.
    pub overrides: Vec<(String, String)>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
}

/// What a sandbox is like.
#[derive(Clone, Debug, Default)]
pub struct SandboxOptions {
    /// Where it keeps its things.
    pub place: Place,
    /// Port of the API server on loopback; 0 for the one of the last time, if one is kept, or a free one.
    pub port: u16,
    /// What images stand for: directories of programs, or virtualenvs.
    pub images: BTreeMap<String, PathBuf>,
    /// The Python of tasks.
    pub python: Option<PathBuf>,
    /// What the node has, where it is not what this machine has.
    pub capacity: BTreeMap<String, Quantity>,
    /// The executor's configuration.
    pub config: ConfigSources,
    /// Where log records go.
    pub records: Records,
    /// What is logged, instead of `info`.
    pub log_level: Option<String>,
}

/// A running cluster.
#[derive(Debug)]
pub struct Sandbox {
    executor: Executor,
    node: Node,
    /// What the node has, for people.
    size: String,
    operators: Operators,
    services: Services,
    persistence: Option<Persistence>,
    server: ApiServer,
    serving: JoinHandle<std::io::Result<()>>,
    address: SocketAddr,
    storage: PathBuf,
    python: Option<PathBuf>,
    /// Where log records are, if they are in a file.
    log: Option<PathBuf>,
    dir: Dir,
}

impl ConfigSources {
    /// What a command line and the environment say.
    pub fn new(arguments: &ConfigArguments, overrides: Vec<(String, String)>) -> Self {
        // Variables that are not text cannot be configuration.
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { files: arguments.files.clone(), overrides, environment }
    }
}

impl SandboxOptions {
    /// What a command line says about the node.
    pub fn with_node(mut self, arguments: &NodeArguments) -> Result<Self, Failure> {
        for image in &arguments.images {
            let pair = image.split_once('=').filter(|(name, path)| !name.is_empty() && !path.is_empty());
            let Some((name, path)) = pair else {
                return Err(Failure::Usage(format!("--image {image}: write NAME=PATH, such as team/etl:1=./etl")));
            };
            let path = absolute(Path::new(path), "--image")?;
            self.images.insert(name.to_owned(), path);
        }
        if let Some(python) = &arguments.python {
            self.python = Some(absolute(python, "--python")?);
        }
        let gpu = arguments.gpu.map(|count| count.to_string());
        for (name, amount) in [("cpu", &arguments.cpu), ("memory", &arguments.memory), ("nvidia.com/gpu", &gpu)] {
            let Some(amount) = amount else { continue };
            let Ok(amount) = amount.parse() else {
                return Err(Failure::Usage(format!("--{name} {amount}: not a quantity such as 4, 500m or 8Gi")));
            };
            self.capacity.insert(name.to_owned(), amount);
        }
        Ok(self)
    }
}

impl SandboxOptions {
    /// The node, with its things below `dir`.
    fn node(&self, dir: &Path) -> anyhow::Result<NodeOptions> {
        let mut node = NodeOptions { dir: dir.join("node"), images: self.images.clone(), ..NodeOptions::default() };
        node.capacity.extend(self.capacity.clone());
        if let Some(python) = &self.python {
            let programs = if python.is_dir() { Some(python.join("bin")) } else { python.parent().map(Path::to_owned) };
            node.path.extend(programs);
        }
        // Tasks may use this very program, but must not find everything else that is beside it first.
        let programs = dir.join("bin");
        std::fs::create_dir_all(&programs).with_context(|| format!("cannot make {}", programs.display()))?;
        let link = programs.join("aileron");
        // One of an earlier time may lead elsewhere.
        let _ = std::fs::remove_file(&link);
        let program = std::env::current_exe().context("cannot find this program")?;
        std::os::unix::fs::symlink(program, &link).with_context(|| format!("cannot make {}", link.display()))?;
        node.path.push(programs);
        Ok(node)
    }
}

impl Sandbox {
    /// Starts all of it; when this returns, tasks can be submitted.
    pub async fn start(options: SandboxOptions) -> Result<Self, Failure> {
        let dir = Dir::open(&options.place)?;
        let log = match options.records {
            Records::File => Some(dir.path().join(LOG_FILE)),
            Records::Screen => None,
        };
        logs::start_sandbox(log.as_deref(), options.log_level.as_deref())?;
        // First, since it is what most likely fails; nobody is answered before the end.
        let last = match &dir {
            Dir::Temporary { .. } => None,
            Dir::Persistent(path) => Access::read(path)?,
        };
        let last_port = last.as_ref().map(|last| last.port);
        let listener = access::listen(options.port, last_port).await?;
        let storage = dir.path().join("data");
        std::fs::create_dir_all(&storage).with_context(|| format!("cannot make {}", storage.display()))?;

        let mut namespaces = Options::default().namespaces;
        namespaces.push(NAMESPACE.to_owned());
        let server = ApiServer::new(Options { namespaces, ..Options::default() });
        let persistence = match &dir {
            Dir::Temporary { .. } => None,
            Dir::Persistent(path) => {
                let persistence = Persistence::open(path.join("objects"), &server).await;
                Some(persistence.context("cannot take up the objects of the last time")?)
            }
        };
        let client = server.client();
        install(&client, &aileron_executor::action::crd::crd().context("the definition of TaskAction")?).await?;
        let rules = Rules::builtin();
        install_definitions(&client, &rules).await.context("cannot install the kinds of the simulated operators")?;
        let operators = Operators::start(client.clone(), rules).await;
        let operators = operators.context("cannot start the simulated operators")?;

        let node = options.node(dir.path())?;
        let size = size(&node.capacity);
        let node = Node::start(client.clone(), server.logs().clone(), node).await.context("cannot start the node")?;

        let services = Services::start(&dir.path().join(EVENTS_FILE), &server.new_token()).await;
        let services = services.context("cannot start the events and cache services")?;
        let config = executor::configure(&options.config, services.url(), &storage)?;
        let executor = Executor::start(client.clone(), config).await?;

        // Last: whoever finds the address finds everything working.
        let address = listener.local_addr().context("cannot listen")?;
        let token = last.map_or_else(|| server.new_token(), |last| last.token);
        if let Dir::Persistent(path) = &dir {
            Access { port: address.port(), token: token.clone() }.write(path)?;
        }
        if let Some(taken) = last_port.filter(|last| options.port == 0 && *last != address.port()) {
            output::warn(&format!(
                "port {taken} of the last time is taken: older copies of the kubeconfig do not work"
            ));
        }
        let kubeconfig = dir.path().join("kubeconfig");
        write_private(&kubeconfig, server.kubeconfig(address, &token).as_bytes())
            .with_context(|| format!("cannot write {}", kubeconfig.display()))?;
        let serving = server.serve(listener, &token);
        Ok(Self {
            executor,
            node,
            size,
            operators,
            services,
            persistence,
            server,
            serving,
            address,
            storage,
            python: options.python,
            log,
            dir,
        })
    }

    /// A client with all rights, without a connection.
    pub fn client(&self) -> kube::Client {
        self.server.client()
    }

    /// Where inputs and outputs are.
    pub fn storage(&self) -> &Path {
        &self.storage
    }

    /// What the node has, in a few words.
    pub fn size(&self) -> &str {
        &self.size
    }

    /// The file of log records, if there is one.
    pub fn log(&self) -> Option<&Path> {
        self.log.as_deref()
    }

    /// What other commands need to know.
    pub fn state(&self) -> State {
        State {
            pid: std::process::id(),
            kubeconfig: self.dir.path().join("kubeconfig"),
            server: format!("http://{}", self.address),
            dir: self.dir.path().to_owned(),
            storage: self.storage.clone(),
            temporary: matches!(self.dir, Dir::Temporary { .. }),
            python: self.python.clone(),
        }
    }

    /// Returns only if a part of it has ended by itself, with the reason.
    pub async fn broken(&mut self) -> anyhow::Error {
        tokio::select! {
            ended = self.executor.ended() => ended.err().unwrap_or_else(|| anyhow!("the executor has ended")),
            _ = &mut self.serving => anyhow!("the API server has ended"),
        }
    }

    /// Does some work, unless a part of it ends by itself.
    pub async fn unless_broken<T>(&mut self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            result = work => result,
            error = self.broken() => Err(error.into()),
        }
    }

    /// Ends all of it: processes of pods first, and the directory if it is to vanish.
    pub async fn stop(self) -> anyhow::Result<()> {
        let Self { executor, node, operators, services, persistence, serving, dir, .. } = self;
        // The executor first, or it would take the end of the pods for failures of their tasks.
        let stopped = executor.stop().await;
        node.stop().await;
        operators.stop().await;
        drop(services);
        serving.abort();
        if let Some(persistence) = persistence {
            persistence.stop().await.context("cannot save the objects")?;
        }
        dir.close()?;
        stopped
    }
}

async fn install(client: &kube::Client, definition: &CustomResourceDefinition) -> anyhow::Result<()> {
    let name = definition.metadata.name.clone().unwrap_or_default();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let applied = definitions.patch(&name, &PatchParams::apply("aileron").force(), &Patch::Apply(definition)).await;
    applied.map(|_| ()).with_context(|| format!("cannot install the definition {name}"))
}

/// `4 CPUs, 7.6Gi of memory, 1 nvidia.com/gpu`.
fn size(capacity: &BTreeMap<String, Quantity>) -> String {
    let amount = |name: &str| capacity.get(name).map(ToString::to_string).unwrap_or_default();
    let memory = amount("memory");
    // A machine tells its memory in Ki, which nobody can read.
    let memory = match memory.strip_suffix("Ki").and_then(|number| number.parse::<f64>().ok()) {
        Some(kibibytes) => format!("{:.1}Gi", kibibytes / f64::from(1 << 20)),
        None => memory,
    };
    let cpus = match amount("cpu") {
        one if one == "1" => "1 CPU".to_owned(),
        other => format!("{other} CPUs"),
    };
    let mut text = format!("{cpus}, {memory} of memory");
    for (name, amount) in capacity.iter().filter(|(name, _)| name.contains('/')) {
        text.push_str(&format!(", {amount} {name}"));
    }
    text
}

fn absolute(path: &Path, flag: &str) -> Result<PathBuf, Failure> {
    // Not resolved further: a virtualenv's python is a link, and where it leads the packages are others.
    let path = std::path::absolute(path).map_err(|error| Failure::Usage(format!("{flag}: {error}")))?;
    if path.exists() { Ok(path) } else { Err(Failure::Usage(format!("{flag}: {} does not exist", path.display()))) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn images_and_sizes_are_read_and_mistakes_named() {
        let dir = tempfile::tempdir().unwrap();
        let image = format!("team/etl:1={}", dir.path().display());
        let good = NodeArguments { images: vec![image], cpu: Some("500m".into()), gpu: Some(2), ..Default::default() };
        let options = SandboxOptions::default().with_node(&good).unwrap();
        assert_eq!(options.images["team/etl:1"], dir.path());
        assert_eq!(options.capacity["nvidia.com/gpu"].to_string(), "2");
        assert_eq!(options.capacity["cpu"].to_string(), "500m");
        let machine = [("cpu", "4"), ("memory", "24684100Ki"), ("nvidia.com/gpu", "2"), ("pods", "110")];
        let machine = machine.map(|(name, amount)| (name.to_owned(), amount.parse().unwrap())).into();
        assert_eq!(size(&machine), "4 CPUs, 23.5Gi of memory, 2 nvidia.com/gpu");
        for (bad, text) in [
            (NodeArguments { images: vec!["x".into()], ..Default::default() }, "--image x: write NAME=PATH"),
            (NodeArguments { images: vec!["x=/not/there".into()], ..Default::default() }, "/not/there does not exist"),
            (NodeArguments { memory: Some("lots".into()), ..Default::default() }, "--memory lots: not a quantity"),
        ] {
            let error = SandboxOptions::default().with_node(&bad).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
