//! etcd and kube-apiserver as processes, with a kube-controller-manager where one is wanted.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use kube::Client;

use super::process::Process;
use super::{POLL, audit, locked, process};

/// What a controller manager does here. Of these a bare API server does nothing: it counts no quota, deletes nothing
/// because its owner is gone, and leaves deleted namespaces as they are.
const CONTROLLERS: &str = "resourcequota-controller,garbage-collector-controller,namespace-controller";

/// The processes of one control plane.
#[derive(Debug)]
pub(super) struct Real {
    manager: Option<Process>,
    apiserver: Mutex<Process>,
    etcd: Mutex<Process>,
    command: Vec<String>,
}

/// Free ports of this machine, for as long as nobody else takes them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub etcd: u16,
    pub peer: u16,
    pub api: u16,
}

impl Real {
    pub(super) fn start(binaries: &Path, dir: &Path, ports: Ports, flags: &[String]) -> Result<Self> {
        let etcd = Process::spawn(dir, "etcd", &etcd_command(binaries, dir, ports.etcd, ports.peer))?;
        let command = apiserver_command(binaries, dir, ports.etcd, ports.api, flags);
        let apiserver = Process::spawn(dir, "kube-apiserver", &command)?;
        Ok(Self { manager: None, apiserver: apiserver.into(), etcd: etcd.into(), command })
    }

    /// Starts the controllers; they wait for the API server by themselves whenever it is away.
    pub(super) fn control(&mut self, binaries: &Path, dir: &Path, kubeconfig: &Path) -> Result<()> {
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
            tokio::time::sleep(POLL).await;
        }
    }
}

fn etcd_command(binaries: &Path, dir: &Path, client_port: u16, peer_port: u16) -> Vec<String> {
    let (client, peer) = (format!("http://127.0.0.1:{client_port}"), format!("http://127.0.0.1:{peer_port}"));
    vec![
        binaries.join("etcd").display().to_string(),
        format!("--data-dir={}", dir.join("etcd-data").display()),
        "--unsafe-no-fsync".to_owned(), // nothing here outlives a power cut
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--log-level=warn".to_owned(),
    ]
}

fn apiserver_command(binaries: &Path, dir: &Path, etcd_port: u16, port: u16, more: &[String]) -> Vec<String> {
    let at = |name: &str| dir.join(name).display().to_string();
    let mut command = vec![
        binaries.join("kube-apiserver").display().to_string(),
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        "--endpoint-reconciler-type=none".to_owned(), // refuses a loopback address otherwise
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        format!("--tls-cert-file={}", at("server.crt")),
        format!("--tls-private-key-file={}", at("server.key")),
        format!("--cert-dir={}", at("certs")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", at("sa.pub")),
        format!("--service-account-signing-key-file={}", at("sa.key")),
        format!("--token-auth-file={}", at("tokens.csv")),
        "--authorization-mode=AlwaysAllow".to_owned(),
        // No controller makes the `default` service accounts that this plugin insists on.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        format!("--audit-policy-file={}", at(audit::POLICY_FILE)),
        format!("--audit-log-path={}", at(audit::LOG_FILE)),
        "--audit-log-mode=blocking".to_owned(), // counted right after the request, so never held back in a batch
        "--audit-log-maxsize=2000".to_owned(),  // megabytes: never rotated while a test reads it
    ];
    command.extend_from_slice(more);
    command
}

fn manager_command(binaries: &Path, kubeconfig: &Path) -> Vec<String> {
    vec![
        binaries.join("kube-controller-manager").display().to_string(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--controllers={CONTROLLERS}"),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(), // nobody asks it anything
        // A quota that nobody has counted yet refuses everything, so a new one is looked for often.
        "--resource-quota-sync-period=1s".to_owned(),
    ]
}
