//! The cluster of `aileron run`: from a kubeconfig file or from the pod in which the executor runs.

use std::path::Path;

use anyhow::{Context, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::keep_alive;
use crate::arguments::ClusterArguments;

/// The address and the credentials of the cluster: from the kubeconfig of the command line, the one that `KUBECONFIG`
/// names, the service account of this pod, or `~/.kube/config`. Mirrors controller-runtime's `GetConfig`.
async fn client_config(arguments: &ClusterArguments) -> anyhow::Result<Config> {
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

/// A client of the cluster. No request is sent yet.
pub async fn client(arguments: &ClusterArguments) -> anyhow::Result<Client> {
    Client::try_from(client_config(arguments).await?).context("cannot create a client of the cluster")
}

/// A client for the executor, without the retries of the client library.
///
/// The library would repeat a refused request up to fifteen times. During these retries a task would occupy its slot for
/// writes, and the launch gate would not learn of the refusal and would not hold back other tasks. The executor repeats its
/// requests itself, with its own back-off.
pub async fn executor_client(arguments: &ClusterArguments) -> anyhow::Result<Client> {
    let mut config = client_config(arguments).await?;
    config.default_retry = false;
    keep_alive::client(config)
}
