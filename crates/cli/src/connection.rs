//! The cluster that a command talks to: the one that the user names, else the running sandbox.

mod keep_alive;
pub mod kubeconfig;

use std::path::PathBuf;

use aileron_machinery::error_text::chain;
use anyhow::{Context, anyhow};
use kube::config::{KubeConfigOptions, Kubeconfig};
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
    if let Some(path) = &arguments.kubeconfig {
        let file = Kubeconfig::read_from(path);
        let subject = format!("--kubeconfig: cannot use {}", path.display());
        return connect(program, arguments, file.with_context(|| subject.clone())?, &subject).await.map(Some);
    }
    let subject = "KUBECONFIG: cannot use the file it names";
    if let Some(file) = Kubeconfig::from_env().context(subject)? {
        return connect(program, arguments, file, subject).await.map(Some);
    }
    let Some(sandbox) = running_sandbox() else {
        // A context without a file is a context of kubectl's default file.
        if arguments.context.is_some() {
            let subject = "--context: cannot use ~/.kube/config";
            let file = Kubeconfig::read().context(subject)?;
            return connect(program, arguments, file, subject).await.map(Some);
        }
        return Ok(None);
    };
    let subject = format!("cannot use {} of the running sandbox", sandbox.kubeconfig.display());
    let file = Kubeconfig::read_from(&sandbox.kubeconfig).with_context(|| subject.clone())?;
    connect(program, arguments, file, &subject).await.map(Some)
}

/// The cluster for commands that inspect an installation: the one that the user names, else the running sandbox, else the
/// cluster that `aileron run` would use.
pub async fn inspection_client(arguments: &ClusterArguments) -> anyhow::Result<Client> {
    let is_named = arguments.kubeconfig.is_some() || arguments.context.is_some();
    if is_named || std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty()) {
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

/// The text of a failed request, without the Rust names of error types.
pub fn error_text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        error => chain(error),
    }
}

/// A failed request: `what` failed, why, and what may help. `program` is the name of this program.
pub fn request_failed(program: &str, error: &kube::Error, what: &str) -> Failure {
    let unknown_kind = ["could not find", "page not found"];
    let remedy = match error {
        kube::Error::Api(status)
            if status.code == 404 && unknown_kind.iter().any(|text| status.message.contains(text)) =>
        {
            Some(missing_definition(program))
        }
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

async fn connect(
    program: &Program,
    arguments: &ConnectionArguments,
    file: Kubeconfig,
    subject: &str,
) -> Result<Connection, Failure> {
    let options = KubeConfigOptions { context: arguments.context.clone(), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(file, &options).await.with_context(|| subject.to_owned())?;
    let namespace = arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    // A kubeconfig of the user may lead to the sandbox, too. Compare the addresses.
    let server = config.cluster_url.authority().map(|authority| format!("http://{authority}"));
    let sandbox = running_sandbox().filter(|sandbox| Some(&sandbox.server) == server.as_ref());
    let client = Client::try_from(config).with_context(|| subject.to_owned())?;
    let (storage, python) = sandbox.map(|sandbox| (sandbox.storage, sandbox.python)).unzip();
    Ok(Connection { client, namespace, storage, python: python.flatten(), program: program.name().to_owned() })
}
