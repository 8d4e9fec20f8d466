//! A cluster on one machine inside this process: API server, node, simulated operators, control-plane services and the
//! executor.

mod access;
mod directory;
mod executor;
mod options;
pub mod registration;
mod services;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use aileron_apiserver::{ApiServer, Options, Persistence};
use aileron_sandbox::{Node, Operators, Rules, install_definitions};
use anyhow::{Context, anyhow};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use tokio::task::JoinHandle;

use crate::display::output;
use crate::failure::Failure;
use crate::process::logging;
use crate::program::Program;

use access::Access;
use directory::SandboxDirectory;
pub use directory::remove_left_behind;
use executor::{Executor, NAMESPACE};
pub use options::{DirectoryChoice, ExecutorConfig, LogTarget, SandboxOptions};
use registration::{RunningSandbox, write_private};
use services::LocalServices;

/// The file of events in the sandbox's directory.
pub const EVENTS_FILE: &str = "events.jsonl";
/// The file of log records in the sandbox's directory.
const LOG_FILE: &str = "executor.log";

/// A running sandbox.
#[derive(Debug)]
pub struct Sandbox {
    executor: Executor,
    node: Node,
    /// The capacity of the node, as text.
    size: String,
    operators: Operators,
    services: LocalServices,
    persistence: Option<Persistence>,
    server: ApiServer,
    serving: JoinHandle<std::io::Result<()>>,
    address: SocketAddr,
    storage: PathBuf,
    python: Option<PathBuf>,
    /// The file of log records, unless they go to the error stream.
    log: Option<PathBuf>,
    directory: SandboxDirectory,
}

impl Sandbox {
    /// Starts all parts of the sandbox. When this returns, tasks can be submitted.
    pub(crate) async fn start(program: &Program, options: SandboxOptions) -> Result<Self, Failure> {
        let directory = SandboxDirectory::open(&options.directory)?;
        let log = match options.log {
            LogTarget::File => Some(directory.path().join(LOG_FILE)),
            LogTarget::Stderr => None,
        };
        logging::start_sandbox(log.as_deref(), options.log_level.as_deref())?;
        // Listen first: a port that is in use is the most likely failure. Requests are answered only at the end.
        let previous = match &directory {
            SandboxDirectory::Temporary { .. } => None,
            SandboxDirectory::Persistent(path) => Access::read(path)?,
        };
        let previous_port = previous.as_ref().map(|previous| previous.port);
        let listener = access::listen(options.port, previous_port).await?;
        let storage = directory.path().join("data");
        std::fs::create_dir_all(&storage).with_context(|| format!("cannot create {}", storage.display()))?;

        let mut namespaces = Options::default().namespaces;
        namespaces.push(NAMESPACE.to_owned());
        let server = ApiServer::new(Options { namespaces, ..Options::default() });
        let persistence = match &directory {
            SandboxDirectory::Temporary { .. } => None,
            SandboxDirectory::Persistent(path) => {
                let persistence = Persistence::open(path.join("objects"), &server).await;
                Some(persistence.context("cannot load the stored objects of the sandbox")?)
            }
        };
        let client = server.client();
        install(&client, &aileron_action::crd::crd().context("the definition of TaskAction")?).await?;
        for definition in &options.definitions {
            install(&client, definition).await?;
        }
        let rules = options.rules();
        // The definition of the user says more about a kind than the one that fits every object.
        let is_defined = |rules: &Rules| {
            options.definitions.iter().any(|own| own.metadata.name.as_deref() == Some(&rules.qualified()))
        };
        let undefined: Vec<_> = rules.iter().filter(|rules| !is_defined(rules)).cloned().collect();
        install_definitions(&client, &undefined)
            .await
            .context("cannot install the kinds of the simulated operators")?;
        let operators = Operators::start(client.clone(), rules).await;
        let operators = operators.context("cannot start the simulated operators")?;

        let node = options.node(directory.path(), program.name())?;
        let size = options::size_text(&node.capacity);
        let node = Node::start(client.clone(), server.logs().clone(), node).await.context("cannot start the node")?;

        let services = LocalServices::start(&directory.path().join(EVENTS_FILE), &server.new_token()).await;
        let services = services.context("cannot start the events and cache services")?;
        let config = executor::configure(program, &options.config, services.url(), &storage)?;
        let executor = Executor::start(program, client.clone(), config).await?;

        // Publish the address last: a client that finds it finds a sandbox that works.
        let address = listener.local_addr().context("cannot listen")?;
        let token = previous.map_or_else(|| server.new_token(), |previous| previous.token);
        if let SandboxDirectory::Persistent(path) = &directory {
            Access { port: address.port(), token: token.clone() }.write(path)?;
        }
        if let Some(port) = previous_port.filter(|port| options.port == 0 && *port != address.port()) {
            output::warn(&format!(
                "port {port} of the previous start is in use: older copies of the kubeconfig do not work"
            ));
        }
        let kubeconfig = directory.path().join("kubeconfig");
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
            directory,
        })
    }

    /// A client with all permissions. It calls the API server without a network connection.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.server.client()
    }

    /// The directory of inputs and outputs.
    #[must_use]
    pub fn storage(&self) -> &Path {
        &self.storage
    }

    /// The events that the executor has sent, one JSON object per event, in order of arrival.
    ///
    /// # Errors
    /// The file of events cannot be read.
    pub fn events(&self) -> anyhow::Result<Vec<serde_json::Value>> {
        let path = self.directory.path().join(EVENTS_FILE);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// The capacity of the node, as text.
    pub(crate) fn size(&self) -> &str {
        &self.size
    }

    /// The file of log records, unless they go to the error stream.
    pub(crate) fn log(&self) -> Option<&Path> {
        self.log.as_deref()
    }

    /// What other commands must know to use the sandbox.
    pub(crate) fn registration(&self) -> RunningSandbox {
        RunningSandbox {
            pid: std::process::id(),
            kubeconfig: self.directory.path().join("kubeconfig"),
            server: format!("http://{}", self.address),
            dir: self.directory.path().to_owned(),
            storage: self.storage.clone(),
            temporary: matches!(self.directory, SandboxDirectory::Temporary { .. }),
            python: self.python.clone(),
        }
    }

    /// Returns only if a part of the sandbox has ended by itself, with the reason.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        tokio::select! {
            ended = self.executor.ended() => ended.err().unwrap_or_else(|| anyhow!("the executor has ended")),
            _ = &mut self.serving => anyhow!("the API server has ended"),
        }
    }

    /// Does `work`, unless a part of the sandbox ends by itself before.
    pub(crate) async fn run_unless_failed<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            result = work => result,
            error = self.failed() => Err(error.into()),
        }
    }

    /// Stops the executor, the processes of pods and all other parts, and removes a temporary directory.
    ///
    /// # Errors
    /// A part does not stop in time, or the objects cannot be stored.
    pub async fn stop(self) -> anyhow::Result<()> {
        let Self { executor, node, operators, services, persistence, serving, directory, .. } = self;
        // The executor first: otherwise it would report the end of the pods as failures of their tasks.
        let stopped = executor.stop().await;
        node.stop().await;
        operators.stop().await;
        drop(services);
        serving.abort();
        if let Some(persistence) = persistence {
            persistence.stop().await.context("cannot save the objects")?;
        }
        directory.close()?;
        stopped
    }
}

async fn install(client: &kube::Client, definition: &CustomResourceDefinition) -> anyhow::Result<()> {
    let name = definition.metadata.name.clone().unwrap_or_default();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let applied = definitions.patch(&name, &PatchParams::apply("aileron").force(), &Patch::Apply(definition)).await;
    applied.map(|_| ()).with_context(|| format!("cannot install the definition {name}"))
}
