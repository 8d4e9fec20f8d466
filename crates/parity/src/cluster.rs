//! A real Kubernetes control plane, etcd and kube-apiserver, on loopback for as long as a value lives.
//!
//! Nobody schedules and nobody runs pods in it: [`crate::kubelet`] plays that part. Nor is there a controller
//! manager, so quota usage and garbage collection by owner reference do not happen by themselves.

mod audit;
mod binaries;
mod certs;
mod crd;
mod process;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use self::process::Process;

pub use self::audit::AuditRecord;
pub use self::crd::install_crd;

/// Between two looks at a server that is starting; small against the two to three seconds a start takes.
const POLL: Duration = Duration::from_millis(50);
/// Ports are chosen, released and then bound by the child, so another program may take one in between.
const START_ATTEMPTS: usize = 3;

/// How to start a [`Cluster`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Give up, with the logs in the error, when the API server is not ready after this long.
    pub ready_timeout: Duration,
    /// Namespaces to create before `start` returns.
    pub namespaces: Vec<String>,
    /// Whose requests [`Cluster::requests`] can count.
    pub audited: Vec<User>,
    /// More kube-apiserver flags, each as `--name=value`.
    pub apiserver_flags: Vec<String>,
}

/// The identities that the API server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum User {
    /// The person at the keyboard: `system:masters`, exempt from priority and fairness.
    Admin,
    /// The executor's service account, so that it gets the flow control an in-cluster controller gets.
    Executor,
    /// Whatever plays nodes and operators: `system:masters` too, but apart from the admin in the audit log.
    Sim,
}

/// A running control plane. Dropping it stops the processes and removes its files.
#[derive(Debug)]
pub struct Cluster {
    url: String,
    options: Options,
    // Declared before the directory: processes end first, then their files go.
    apiserver: Mutex<Process>,
    etcd: Mutex<Process>,
    apiserver_command: Vec<String>,
    dir: TempDir,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            // A start takes 3 s on an idle machine; on a loaded CI machine twenty times that is still no hang.
            ready_timeout: Duration::from_secs(60),
            namespaces: vec!["flyte".to_owned()],
            audited: vec![User::Executor],
            apiserver_flags: Vec::new(),
        }
    }
}

impl User {
    const ALL: [Self; 3] = [Self::Admin, Self::Executor, Self::Sim];

    /// The name that the API server sees.
    #[must_use]
    pub fn username(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Executor => "system:serviceaccount:flyte:executor",
            Self::Sim => "sim",
        }
    }

    fn groups(self) -> &'static str {
        match self {
            Self::Admin | Self::Sim => "system:masters",
            Self::Executor => "system:serviceaccounts,system:serviceaccounts:flyte",
        }
    }

    fn file_stem(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Executor => "executor",
            Self::Sim => "sim",
        }
    }

    /// The server listens on loopback and lives for one test run: a token need not be secret, only distinct.
    fn token(self) -> String {
        format!("token-of-{}", self.file_stem())
    }
}

impl Cluster {
    /// Starts etcd and kube-apiserver and waits until `/readyz` answers; builds the binaries first where they are absent.
    ///
    /// # Errors
    /// No binaries, or a server that did not become ready; the error holds the end of its log.
    pub async fn start(options: Options) -> Result<Self> {
        crate::init();
        let binaries = tokio::task::spawn_blocking(binaries::locate).await.context("looking for the binaries")??;
        let mut attempt = 1;
        let cluster = loop {
            match Self::start_once(&binaries, options.clone()).await {
                Err(error) if attempt < START_ATTEMPTS && format!("{error:#}").contains("address already in use") => {
                    attempt += 1;
                }
                outcome => break outcome?,
            }
        };
        cluster.create_namespaces().await?;
        Ok(cluster)
    }

    /// The one cluster of this test binary, started by whoever asks first. Tests that share it keep to namespaces of
    /// their own; a test that restarts the API server or counts requests across namespaces starts its own.
    ///
    /// A static value is never dropped: the processes end, and their files go, when the test process does.
    ///
    /// # Errors
    /// As [`Cluster::start`]; the next caller tries again.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Cluster> = OnceCell::const_new();
        SHARED.get_or_try_init(|| Self::start(Options::default())).await
    }

    async fn start_once(binaries: &Path, options: Options) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("aileron-cluster-").tempdir().context("creating a directory")?;
        let [etcd_port, peer_port, api_port] = free_ports()?;
        let url = format!("https://127.0.0.1:{api_port}");
        certs::write(dir.path())?;
        write_identities(dir.path(), &url)?;
        audit::write_policy(dir.path(), &options.audited)?;

        let etcd = Process::spawn(dir.path(), "etcd", &etcd_command(binaries, dir.path(), etcd_port, peer_port))?;
        let apiserver_command = apiserver_command(binaries, dir.path(), etcd_port, api_port, &options.apiserver_flags);
        let apiserver = Process::spawn(dir.path(), "kube-apiserver", &apiserver_command)?;
        let cluster = Self { url, options, apiserver: apiserver.into(), etcd: etcd.into(), apiserver_command, dir };
        cluster.wait_ready().await?;
        Ok(cluster)
    }

    /// The address of the API server.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The directory with logs and credentials; it goes with the cluster.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A kubeconfig that acts as `user`.
    #[must_use]
    pub fn kubeconfig(&self, user: User) -> PathBuf {
        kubeconfig_path(self.dir.path(), user)
    }

    /// A client that acts as `user`. Make one per test: a client belongs to the runtime it was made on.
    ///
    /// # Errors
    /// An unreadable kubeconfig.
    pub async fn client(&self, user: User) -> Result<Client> {
        let path = self.kubeconfig(user);
        let kubeconfig = Kubeconfig::read_from(&path).with_context(|| format!("reading {}", path.display()))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// Kills the API server and waits until it is really gone. Its address and data stay.
    pub fn stop_apiserver(&self) {
        locked(&self.apiserver).stop();
    }

    /// Starts the API server again after [`Cluster::stop_apiserver`], on the same port and data.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn start_apiserver(&self) -> Result<()> {
        let process = Process::spawn(self.dir.path(), "kube-apiserver", &self.apiserver_command)?;
        *locked(&self.apiserver) = process;
        self.wait_ready().await
    }

    /// Kills the API server without warning and starts it again: open watches break, no object is lost.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn restart_apiserver(&self) -> Result<()> {
        self.stop_apiserver();
        self.start_apiserver().await
    }

    /// What `user` asked of the API server so far, oldest first, one record per request; a watch counts as soon as it
    /// is open. A request appears a moment after its answer, so wait for the last one that a test expects.
    ///
    /// # Errors
    /// A user that is not in [`Options::audited`], or a broken log.
    pub fn requests(&self, user: User) -> Result<Vec<AuditRecord>> {
        if !self.options.audited.contains(&user) {
            bail!("requests of {user:?} are not recorded: add it to Options::audited");
        }
        audit::read(self.dir.path(), user)
    }

    /// The end of a server's log: `etcd` or `kube-apiserver`.
    #[must_use]
    pub fn log(&self, name: &str) -> String {
        process::log_tail(self.dir.path(), name)
    }

    async fn wait_ready(&self) -> Result<()> {
        let client = self.client(User::Admin).await?;
        let begin = Instant::now();
        loop {
            for (name, process) in [("etcd", &self.etcd), ("kube-apiserver", &self.apiserver)] {
                if let Some(status) = locked(process).exited()? {
                    bail!("{name} ended with {status} while starting; its log ends with:\n{}", self.log(name));
                }
            }
            let request = http::Request::get("/readyz").body(Vec::new())?;
            let problem = match tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer within 5 s".to_owned(),
            };
            if begin.elapsed() > self.options.ready_timeout {
                bail!(
                    "kube-apiserver not ready after {:?} ({problem}); its log ends with:\n{}\netcd's log ends with:\n{}",
                    self.options.ready_timeout,
                    self.log("kube-apiserver"),
                    self.log("etcd")
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn create_namespaces(&self) -> Result<()> {
        let client = self.client(User::Admin).await?;
        for name in &self.options.namespaces {
            create_namespace(&client, name).await?;
        }
        Ok(())
    }
}

/// Creates a namespace; one that exists is fine.
///
/// # Errors
/// Whatever the API server objects to, apart from the name being taken.
pub async fn create_namespace(client: &Client, name: &str) -> Result<()> {
    use k8s_openapi::api::core::v1::Namespace;
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    match kube::Api::<Namespace>::all(client.clone()).create(&kube::api::PostParams::default(), &namespace).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        outcome => outcome.map(drop).with_context(|| format!("creating namespace {name}")),
    }
}

/// A panicking test must still be able to stop its servers, so a poisoned lock is taken as it is.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // All are held until all are known, else the system could hand out one port twice.
    let held = (0..N).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<Vec<_>, _>>()?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

fn kubeconfig_path(dir: &Path, user: User) -> PathBuf {
    dir.join(format!("{}.kubeconfig", user.file_stem()))
}

fn write_identities(dir: &Path, url: &str) -> Result<()> {
    let mut tokens = String::new();
    for user in User::ALL {
        tokens += &format!("{},{},{},\"{}\"\n", user.token(), user.username(), user.file_stem(), user.groups());
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": dir.join("ca.crt")}}],
            "users": [{"name": "test", "user": {"token": user.token()}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        fs::write(kubeconfig_path(dir, user), serde_json::to_vec_pretty(&kubeconfig)?)?;
    }
    fs::write(dir.join("tokens.csv"), tokens)?;
    Ok(())
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
