//! Runs etcd and kube-apiserver as processes, optionally with kube-controller-manager.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use kube::Client;

use super::process::Process;
use super::{POLL_INTERVAL, audit, locked, process};

/// The controllers that are needed: an API server alone counts no quota, does not delete objects whose owner is gone, and
/// does not empty deleted namespaces.
const CONTROLLERS: &str = "resourcequota-controller,garbage-collector-controller,namespace-controller";

/// The processes of one control plane.
#[derive(Debug)]
pub(super) struct Real {
    manager: Option<Process>,
    apiserver: Mutex<Process>,
    etcd: Mutex<Process>,
    command: Vec<String>,
    etcd_command: Vec<String>,
    etcd_port: u16,
}

/// Ports that were free when they were chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub etcd: u16,
    pub peer: u16,
    pub api: u16,
}

impl Real {
    pub(super) fn start(
        binaries: &Path,
        dir: &Path,
        ports: Ports,
        authorization: &str,
        flags: &[String],
    ) -> Result<Self> {
        let etcd_command = etcd_command(binaries, dir, ports.etcd, ports.peer);
        let etcd = Process::spawn(dir, "etcd", &etcd_command)?;
        let mut command = apiserver_command(binaries, dir, ports.etcd, ports.api);
        command.push(format!("--authorization-mode={authorization}"));
        command.extend_from_slice(flags);
        let apiserver = Process::spawn(dir, "kube-apiserver", &command)?;
        let etcd_port = ports.etcd;
        Ok(Self { manager: None, apiserver: apiserver.into(), etcd: etcd.into(), command, etcd_command, etcd_port })
    }

    /// Starts kube-controller-manager. It reconnects by itself when the API server is unavailable.
    pub(super) fn start_controllers(&mut self, binaries: &Path, dir: &Path, kubeconfig: &Path) -> Result<()> {
        let command = manager_command(binaries, kubeconfig);
        self.manager = Some(Process::spawn(dir, "kube-controller-manager", &command)?);
        Ok(())
    }

    pub(super) fn stop_apiserver(&self) {
        locked(&self.apiserver).stop();
    }

    pub(super) fn start_apiserver(&self, dir: &Path) -> Result<()> {
        *locked(&self.apiserver) = Process::spawn(dir, "kube-apiserver", &self.command)?;
        Ok(())
    }

    /// Kills etcd and starts it again. Its data survives, because a killed process loses nothing that it has written.
    pub(super) fn restart_etcd(&self, dir: &Path) -> Result<()> {
        let mut etcd = locked(&self.etcd);
        etcd.stop();
        *etcd = Process::spawn(dir, "etcd", &self.etcd_command)?;
        Ok(())
    }

    pub(super) fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    pub(super) async fn wait_ready(&self, client: &Client, dir: &Path, limit: Duration) -> Result<()> {
        let log = |name| process::log_tail(dir, name);
        let begin = Instant::now();
        loop {
            for (name, process) in [("etcd", &self.etcd), ("kube-apiserver", &self.apiserver)] {
                if let Some(status) = locked(process).exited()? {
                    bail!("{name} ended with {status} while starting; its log ends with:\n{}", log(name));
                }
            }
            let request = http::Request::get("/readyz").body(Vec::new())?;
            let problem = match tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer within 5 s".to_owned(),
            };
            if begin.elapsed() > limit {
                bail!(
                    "kube-apiserver not ready after {limit:?} ({problem}); its log ends with:\n{}\netcd's log ends with:\n{}",
                    log("kube-apiserver"),
                    log("etcd")
                );
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

fn etcd_command(binaries: &Path, dir: &Path, client_port: u16, peer_port: u16) -> Vec<String> {
    let (client, peer) = (format!("http://127.0.0.1:{client_port}"), format!("http://127.0.0.1:{peer_port}"));
    vec![
        binaries.join("etcd").display().to_string(),
        format!("--data-dir={}", dir.join("etcd-data").display()),
        "--unsafe-no-fsync".to_owned(), // the data need not survive a power failure
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--log-level=warn".to_owned(),
    ]
}

fn apiserver_command(binaries: &Path, dir: &Path, etcd_port: u16, port: u16) -> Vec<String> {
    let at = |name: &str| dir.join(name).display().to_string();
    vec![
        binaries.join("kube-apiserver").display().to_string(),
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        "--endpoint-reconciler-type=none".to_owned(), // the default reconciler refuses a loopback address
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        format!("--tls-cert-file={}", at("server.crt")),
        format!("--tls-private-key-file={}", at("server.key")),
        format!("--cert-dir={}", at("certs")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", at("sa.pub")),
        format!("--service-account-signing-key-file={}", at("sa.key")),
        format!("--token-auth-file={}", at("tokens.csv")),
        // This admission plugin requires `default` service accounts, which no controller creates here.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        format!("--audit-policy-file={}", at(audit::POLICY_FILE)),
        format!("--audit-log-path={}", at(audit::LOG_FILE)),
        "--audit-log-mode=blocking".to_owned(), // tests read the log right after a request, so no batching
        "--audit-log-maxsize=2000".to_owned(),  // megabytes: large enough that the log is never rotated during a test
    ]
}

fn manager_command(binaries: &Path, kubeconfig: &Path) -> Vec<String> {
    vec![
        binaries.join("kube-controller-manager").display().to_string(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--controllers={CONTROLLERS}"),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(), // no server: no component calls it
        // A quota refuses all creates until its usage was counted, so new quotas must be found quickly.
        "--resource-quota-sync-period=1s".to_owned(),
    ]
}
