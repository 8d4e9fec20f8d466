//! The cluster of `aileron run`: from a kubeconfig file or from the pod in which the executor runs.

use std::path::Path;

use aileron_machinery::error_text::chain;
use anyhow::{Context, anyhow, bail};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::{keep_alive, named_server};
use crate::arguments::ClusterArguments;

/// The address and the credentials of the cluster: from the kubeconfig of the command line, the one that `KUBECONFIG`
/// names, the service account of this pod, or `~/.kube/config`. Mirrors controller-runtime's `GetConfig`.
pub async fn client_config(arguments: &ClusterArguments) -> anyhow::Result<Config> {
    let context = arguments.context.as_deref();
    if let Some(path) = &arguments.kubeconfig {
        return select(read("--kubeconfig", path)?, context, "--kubeconfig", &path.display().to_string()).await;
    }
    if let Some(file) = from_environment()? {
        return select(file, context, "KUBECONFIG", &environment_files()).await;
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Config::incluster().context("cannot use the service account of this pod");
    }
    let home = std::env::home_dir().map(|home| home.join(".kube/config")).filter(|path| Path::is_file(path));
    let Some(path) = home else {
        bail!("no cluster: give --kubeconfig, set KUBECONFIG, or run in a pod");
    };
    let label = "kubeconfig";
    select(read(label, &path)?, context, label, &path.display().to_string()).await
}

/// A client of the cluster. No request is sent yet.
pub async fn client(arguments: &ClusterArguments) -> anyhow::Result<Client> {
    named_server::client(client_config(arguments).await?)
}

/// A client for the executor, without the retries of the client library.
///
/// The library would repeat a refused request up to fifteen times. During these retries a task would occupy its slot for
/// writes, and the launch gate would not learn of the refusal and would not hold back other tasks. The executor repeats its
/// requests itself, with its own back-off.
pub fn executor_client(mut config: Config) -> anyhow::Result<Client> {
    config.default_retry = false;
    keep_alive::client(config)
}

/// Reads a file. `label` is the flag or variable that names it.
pub fn read(label: &str, path: &Path) -> anyhow::Result<Kubeconfig> {
    Kubeconfig::read_from(path).map_err(|error| unusable(label, &path.display().to_string(), error))
}

/// Reads the files that the variable `KUBECONFIG` names; `None` if it is not set.
pub fn from_environment() -> anyhow::Result<Option<Kubeconfig>> {
    Kubeconfig::from_env().map_err(|error| unusable("KUBECONFIG", &environment_files(), error))
}

/// The files that the variable `KUBECONFIG` names, for messages.
pub fn environment_files() -> String {
    std::env::var("KUBECONFIG").unwrap_or_default()
}

/// The settings of one context of a file: the named one, else the current one.
pub async fn select(file: Kubeconfig, context: Option<&str>, label: &str, path: &str) -> anyhow::Result<Config> {
    let known: Vec<_> = file.contexts.iter().map(|context| context.name.clone()).collect();
    let current = file.current_context.clone();
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(file, &options).await.map_err(|error| match error {
        KubeconfigError::LoadContext(_) | KubeconfigError::CurrentContextNotSet => {
            anyhow!(no_context(context, current.as_deref(), label, path, &known))
        }
        error => unusable(label, path, error),
    })
}

/// The file has no context of the wanted name.
fn no_context(wanted: Option<&str>, current: Option<&str>, label: &str, path: &str, known: &[String]) -> String {
    let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
    match (wanted, current.filter(|current| !current.is_empty())) {
        (Some(wanted), _) => format!("--context: {path} has no context {wanted}; {known}"),
        (None, Some(current)) => format!("{label}: {path} has no context {current}, its current one; {known}"),
        (None, None) => format!("{label}: {path} has no current context; name one with --context: {known}"),
    }
}

/// A file that cannot be read or used. The path is in the message once.
fn unusable(label: &str, path: &str, error: KubeconfigError) -> anyhow::Error {
    match error {
        KubeconfigError::ReadConfig(source, path) => {
            anyhow!(source).context(format!("{label}: cannot use {}", path.display()))
        }
        error => anyhow!("{label}: cannot use {path}: {}", chain(&error)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const FILE: &str = "{apiVersion: v1, kind: Config, current-context: gone, \
        contexts: [{name: east, context: {cluster: c}}, {name: west, context: {cluster: c}}], \
        clusters: [{name: c, cluster: {server: 'https://example.org'}}]}";

    async fn chosen(context: Option<&str>) -> Result<Config, String> {
        let file = Kubeconfig::from_yaml(FILE).unwrap();
        select(file, context, "--kubeconfig", "k.yaml").await.map_err(|error| chain(error.as_ref()))
    }

    #[tokio::test]
    async fn an_unknown_context_is_answered_with_the_known_ones() {
        assert_eq!(chosen(Some("east")).await.unwrap().cluster_url.host(), Some("example.org"));
        assert_eq!(
            chosen(Some("north")).await.unwrap_err(),
            "--context: k.yaml has no context north; it has east, west"
        );
        assert_eq!(
            chosen(None).await.unwrap_err(),
            "--kubeconfig: k.yaml has no context gone, its current one; it has east, west"
        );
    }

    #[test]
    fn a_missing_file_is_named_once() {
        let error = read("--kubeconfig", Path::new("/nowhere/k.yaml")).unwrap_err();
        let text = chain(error.as_ref());
        assert!(text.starts_with("--kubeconfig: cannot use /nowhere/k.yaml: No such file"), "{text}");
        assert_eq!(text.matches("/nowhere").count(), 1, "{text}");
    }
}
