//! The cluster that commands of people talk to: the one they name, else the sandbox that runs.

use std::path::PathBuf;

use aileron_machinery::error_text::chain;
use anyhow::{Context, anyhow};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::arguments::{ClusterArguments, ConnectionArguments};
use crate::cluster;
use crate::failure::Failure;
use crate::sandbox::EVENTS_FILE;
use crate::sandbox::state::{State, StateDir};

/// A cluster and a namespace in it.
#[derive(Clone)]
pub struct Connection {
    /// The cluster.
    pub client: Client,
    /// The namespace that is meant.
    pub namespace: String,
    /// Where inputs and outputs are, if the cluster is the sandbox that runs.
    pub storage: Option<PathBuf>,
    /// The Python that sandbox was started with.
    pub python: Option<PathBuf>,
}

impl Connection {
    /// The file of events that the executor of the sandbox sent, if the cluster is the sandbox that runs.
    pub fn events(&self) -> Option<PathBuf> {
        self.storage.as_ref()?.parent().map(|dir| dir.join(EVENTS_FILE))
    }
}

/// The cluster that is named, else the sandbox; it is an error if there is neither.
pub async fn open(arguments: &ConnectionArguments) -> Result<Connection, Failure> {
    find(arguments).await?.ok_or_else(|| {
        Failure::Failed(anyhow!(
            "no sandbox is running and no cluster was named: start one with `aileron sandbox` in another terminal, or \
             give --kubeconfig, or set KUBECONFIG"
        ))
    })
}

/// As [`open`], but nothing if nothing was named and no sandbox runs.
pub async fn find(arguments: &ConnectionArguments) -> Result<Option<Connection>, Failure> {
    if let Some(path) = &arguments.kubeconfig {
        let file = Kubeconfig::read_from(path);
        let subject = format!("--kubeconfig: cannot use {}", path.display());
        return connect(arguments, file.with_context(|| subject.clone())?, &subject).await.map(Some);
    }
    let subject = "KUBECONFIG: cannot use the file it names";
    if let Some(file) = Kubeconfig::from_env().context(subject)? {
        return connect(arguments, file, subject).await.map(Some);
    }
    let Some(state) = running() else {
        // A context without a file would be a context of the file that kubectl uses.
        if arguments.context.is_some() {
            let file = Kubeconfig::read().context("--context: cannot use ~/.kube/config")?;
            return connect(arguments, file, "--context: cannot use ~/.kube/config").await.map(Some);
        }
        return Ok(None);
    };
    let subject = format!("cannot use {} of the sandbox that runs", state.kubeconfig.display());
    let file = Kubeconfig::read_from(&state.kubeconfig).with_context(|| subject.clone())?;
    connect(arguments, file, &subject).await.map(Some)
}

/// The sandbox of this user that runs, if any.
pub fn running() -> Option<State> {
    StateDir::of(|name| std::env::var_os(name).map(PathBuf::from)).iter().find_map(StateDir::running)
}

/// The cluster of commands that look at an installation: the one that is named, else the sandbox that runs, else the
/// one that `aileron run` would take.
pub async fn observe(arguments: &ClusterArguments) -> anyhow::Result<Client> {
    let is_named = arguments.kubeconfig.is_some() || arguments.context.is_some();
    if is_named || std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty()) {
        return cluster::connect(arguments).await;
    }
    match running() {
        Some(state) => {
            let sandbox = ClusterArguments { kubeconfig: Some(state.kubeconfig), context: None };
            cluster::connect(&sandbox).await.context("cannot use the sandbox that runs")
        }
        None => cluster::connect(arguments).await,
    }
}

/// What went wrong, without what only programmers want to see.
pub fn told(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        error => chain(error),
    }
}

/// Why a call of the cluster failed, and what may help.
pub fn explain(error: &kube::Error, what: &str) -> Failure {
    let unknown = ["could not find", "page not found"];
    let remedy = match error {
        kube::Error::Api(status) if status.code == 404 && unknown.iter().any(|text| status.message.contains(text)) => {
            Some("the cluster does not know TaskAction; install it with `aileron crd | kubectl apply -f -`")
        }
        kube::Error::Api(status) if status.code == 401 => Some("is the kubeconfig that of this cluster?"),
        kube::Error::HyperError(_) | kube::Error::Service(_) => Some("is the cluster running?"),
        _ => None,
    };
    let text = format!("{what}: {}", told(error));
    Failure::Failed(match remedy {
        Some(remedy) => anyhow!("{text}; {remedy}"),
        None => anyhow!("{text}"),
    })
}

async fn connect(arguments: &ConnectionArguments, file: Kubeconfig, subject: &str) -> Result<Connection, Failure> {
    let options = KubeConfigOptions { context: arguments.context.clone(), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(file, &options).await.with_context(|| subject.to_owned())?;
    let namespace = arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    // Also when KUBECONFIG leads to the sandbox: what matters is which server it is.
    let server = config.cluster_url.authority().map(|authority| format!("http://{authority}"));
    let sandbox = running().filter(|state| Some(&state.server) == server.as_ref());
    let client = Client::try_from(config).with_context(|| subject.to_owned())?;
    let (storage, python) = sandbox.map(|state| (state.storage, state.python)).unzip();
    Ok(Connection { client, namespace, storage, python: python.flatten() })
}
