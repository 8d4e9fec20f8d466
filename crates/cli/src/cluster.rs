//! The cluster to talk to.

use std::path::Path;

use anyhow::{Context, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::arguments::ClusterArguments;

/// How to reach the cluster: the named kubeconfig, the one `KUBECONFIG` names, the pod this runs in, or
/// `~/.kube/config`. Mirrors controller-runtime's `GetConfig`.
pub async fn config(arguments: &ClusterArguments) -> anyhow::Result<Config> {
    let options = KubeConfigOptions { context: arguments.context.clone(), ..KubeConfigOptions::default() };
    if let Some(path) = &arguments.kubeconfig {
        let file = Kubeconfig::read_from(path);
        let file = file.with_context(|| format!("--kubeconfig: cannot use {}", path.display()))?;
        let config = Config::from_custom_kubeconfig(file, &options).await;
        return config.with_context(|| format!("--kubeconfig: cannot use {}", path.display()));
    }
    if let Some(file) = Kubeconfig::from_env().context("KUBECONFIG: cannot use the file it names")? {
        let config = Config::from_custom_kubeconfig(file, &options).await;
        return config.context("KUBECONFIG: cannot use the file it names");
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Config::incluster().context("cannot use the service account of this pod");
    }
    let home = std::env::home_dir().map(|home| home.join(".kube/config")).filter(|path| Path::is_file(path));
    let Some(path) = home else {
        bail!("no cluster: give --kubeconfig, set KUBECONFIG, or run in a pod");
    };
    let file = Kubeconfig::read_from(&path).with_context(|| format!("cannot use {}", path.display()))?;
    Config::from_custom_kubeconfig(file, &options).await.with_context(|| format!("cannot use {}", path.display()))
}

/// A client of that cluster; nothing is asked yet.
pub async fn connect(arguments: &ClusterArguments) -> anyhow::Result<Client> {
    Client::try_from(config(arguments).await?).context("cannot talk to the cluster")
}

/// A client for the executor. It hears of every refusal: the library would ask again up to fifteen times by itself, with
/// the task's turn to write taken all the while, and the launch gate could not hold the others back. Everything that the
/// executor asks is asked again by whoever asked, with pauses of its own.
pub async fn connect_executor(arguments: &ClusterArguments) -> anyhow::Result<Client> {
    let mut config = config(arguments).await?;
    config.default_retry = false;
    Client::try_from(config).context("cannot talk to the cluster")
}
