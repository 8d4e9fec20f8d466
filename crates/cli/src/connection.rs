//! The cluster that a command talks to: the one that the user names, else the running sandbox.

mod keep_alive;
pub mod kubeconfig;
pub mod named_server;

use std::path::PathBuf;

use aileron_executor::cluster::kube::requests::is_kind_not_served;
pub use aileron_executor::cluster::request_error_text as error_text;
use anyhow::{Context, anyhow};
use kube::{Client, Config};

use crate::arguments::{ClusterArguments, ConnectionArguments};
use crate::failure::Failure;
use crate::program::Program;
use crate::sandbox::EVENTS_FILE;
use crate::sandbox::registration::{RunningSandbox, StateDir};

/// A cluster and a namespace in it.
#[derive(Clone)]
pub struct Connection {
    pub client: Client,
    pub namespace: String,
    /// Where the running sandbox stores inputs and outputs, if the cluster is that sandbox.
    pub storage: Option<PathBuf>,
    /// The Python with which that sandbox was started.
    pub python: Option<PathBuf>,
    /// The name of this program, for remedies in error messages.
    program: String,
}

impl Connection {
    /// The file of the events that the executor of the sandbox has sent, if the cluster is the running sandbox.
    pub fn events_file(&self) -> Option<PathBuf> {
        self.storage.as_ref()?.parent().map(|dir| dir.join(EVENTS_FILE))
    }

    /// A failed request: `what` failed, why, and what may help.
    pub fn request_failed(&self, error: &kube::Error, what: &str) -> Failure {
        request_failed(&self.program, error, what)
    }
}

/// The cluster that the user names, else the running sandbox. It is an error if neither exists.
pub async fn open(program: &Program, arguments: &ConnectionArguments) -> Result<Connection, Failure> {
    find(program, arguments).await?.ok_or_else(|| {
        Failure::Failed(anyhow!(
            "no sandbox is running and no cluster was named: start a sandbox with `{} sandbox` in another terminal, \
             give --kubeconfig, or set KUBECONFIG",
            program.name()
        ))
    })
}

/// As [`open`], but `None` if the user names no cluster and no sandbox is running.
pub async fn find(program: &Program, arguments: &ConnectionArguments) -> Result<Option<Connection>, Failure> {
    let context = arguments.context.as_deref();
    if let Some(path) = &arguments.kubeconfig {
        let (label, name) = ("--kubeconfig", path.display().to_string());
        let config = kubeconfig::select(kubeconfig::read(label, path)?, context, label, &name).await?;
        return connect(program, arguments, config).map(Some);
    }
    if let Some(file) = kubeconfig::from_environment()? {
        let config = kubeconfig::select(file, context, "KUBECONFIG", &kubeconfig::environment_files()).await?;
        return connect(program, arguments, config).map(Some);
    }
    let Some(sandbox) = running_sandbox() else {
        // A context without a file is a context of kubectl's default file.
        if context.is_some() {
            let path = std::env::home_dir().unwrap_or_default().join(".kube/config");
            let (label, name) = ("--context", path.display().to_string());
            let config = kubeconfig::select(kubeconfig::read(label, &path)?, context, label, &name).await?;
            return connect(program, arguments, config).map(Some);
        }
        return Ok(None);
    };
    let (label, name) = ("the running sandbox", sandbox.kubeconfig.display().to_string());
    let file = kubeconfig::read(label, &sandbox.kubeconfig)?;
    connect(program, arguments, kubeconfig::select(file, context, label, &name).await?).map(Some)
}

/// The cluster for commands that inspect an installation: the one that the user names, else the running sandbox, else the
/// cluster that `aileron run` would use.
pub async fn inspection_client(arguments: &ClusterArguments) -> anyhow::Result<Client> {
    if is_named(arguments) {
        return kubeconfig::client(arguments).await;
    }
    match running_sandbox() {
        Some(sandbox) => {
            let sandbox = ClusterArguments { kubeconfig: Some(sandbox.kubeconfig), context: None };
            kubeconfig::client(&sandbox).await.context("cannot use the running sandbox")
        }
        None => kubeconfig::client(arguments).await,
    }
}

/// Whether the user names the cluster.
pub fn is_named(arguments: &ClusterArguments) -> bool {
    let variable = || std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty());
    arguments.kubeconfig.is_some() || arguments.context.is_some() || variable()
}

/// A failed request: `what` failed, why, and what may help. `program` is the name of this program.
pub fn request_failed(program: &str, error: &kube::Error, what: &str) -> Failure {
    let remedy = match error {
        kube::Error::Api(status) if is_kind_not_served(status) => Some(missing_definition(program)),
        kube::Error::Api(status) if status.code == 401 => Some("is this the kubeconfig of this cluster?".to_owned()),
        kube::Error::HyperError(_) | kube::Error::Service(_) => Some("is the cluster running?".to_owned()),
        _ => None,
    };
    let text = format!("{what}: {}", error_text(error));
    Failure::Failed(match remedy {
        Some(remedy) => anyhow!("{text}; {remedy}"),
        None => anyhow!("{text}"),
    })
}

/// The cluster does not have the TaskAction definition, and how to install it.
pub fn missing_definition(program: &str) -> String {
    format!("the cluster has no definition of TaskAction; install it with `{program} crd | kubectl apply -f -`")
}

/// The running sandbox of this user, if there is one.
fn running_sandbox() -> Option<RunningSandbox> {
    StateDir::candidates(|name| std::env::var_os(name).map(PathBuf::from)).iter().find_map(StateDir::running)
}

fn connect(program: &Program, arguments: &ConnectionArguments, config: Config) -> Result<Connection, Failure> {
    let namespace = arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    // A kubeconfig of the user may lead to the sandbox, too. Compare the addresses.
    let server = config.cluster_url.authority().map(|authority| format!("http://{authority}"));
    let sandbox = running_sandbox().filter(|sandbox| Some(&sandbox.server) == server.as_ref());
    let client = named_server::client(config)?;
    let (storage, python) = sandbox.map(|sandbox| (sandbox.storage, sandbox.python)).unzip();
    Ok(Connection { client, namespace, storage, python: python.flatten(), program: program.name().to_owned() })
}
