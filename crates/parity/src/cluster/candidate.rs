//! A program of Kubernetes that competes for a lease with client-go, as the Go executor does. It shows that client-go
//! follows a take-over, and not only our stand-in for it.

use std::path::Path;

use anyhow::{Context, Result};

use super::process::Process;
use super::{Cluster, User, binaries};

/// A running kube-controller-manager that competes for a lease. It ends when it is dropped, without releasing the lease.
#[derive(Debug)]
pub struct Candidate {
    process: Process,
}

impl Candidate {
    /// Whether the program has ended. It does so when it loses the lease.
    ///
    /// # Errors
    /// The system does not know the process.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.process.exited()?.is_some())
    }
}

impl Cluster {
    /// Starts a candidate for this lease. `name` is the name of its log, which [`Cluster::log`] returns.
    ///
    /// # Errors
    /// The program cannot be built or started.
    pub async fn candidate(&self, namespace: &str, lease: &str, name: &str) -> Result<Candidate> {
        let binaries = tokio::task::spawn_blocking(binaries::manager).await.context("locating the program")??;
        let command = command(&binaries, &self.kubeconfig(User::Admin), namespace, lease);
        Ok(Candidate { process: Process::spawn(self.dir(), name, &command)? })
    }
}

/// The times are the defaults of controller-runtime.
fn command(binaries: &Path, kubeconfig: &Path, namespace: &str, lease: &str) -> Vec<String> {
    vec![
        binaries.join("kube-controller-manager").display().to_string(),
        format!("--kubeconfig={}", kubeconfig.display()),
        // One that finds nothing to do.
        "--controllers=ttl-controller".to_owned(),
        "--secure-port=0".to_owned(), // no server: no component calls it
        "--leader-elect=true".to_owned(),
        "--leader-elect-lease-duration=15s".to_owned(),
        "--leader-elect-renew-deadline=10s".to_owned(),
        "--leader-elect-retry-period=2s".to_owned(),
        format!("--leader-elect-resource-namespace={namespace}"),
        format!("--leader-elect-resource-name={lease}"),
    ]
}
