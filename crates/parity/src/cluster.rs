//! A Kubernetes API server on loopback for as long as a value lives: a real one with its etcd, or the sandbox's.
//!
//! Nobody schedules and nobody runs pods in it: [`crate::kubelet`] plays that part. Nor does anything do what
//! controllers do, count quota and collect garbage, unless [`Options::controllers`] asks for it.

mod audit;
mod binaries;
mod certs;
mod crd;
mod front;
mod journal;
mod process;
mod real;
mod sandbox;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aileron_apiserver::ApiServer;
use anyhow::{Context, Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use self::real::{Ports, Real};
use self::sandbox::Sandbox;

pub use self::audit::AuditRecord;
pub use self::crd::install_crd;
pub use self::front::{Front, Passed, Refuse};

/// Between two looks at a server that is starting; small against the two to three seconds a start takes.
const POLL: Duration = Duration::from_millis(50);
/// Ports are chosen, released and then bound by the child, so another program may take one in between.
const START_ATTEMPTS: usize = 3;

/// How to start a [`Cluster`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Whose API server.
    pub server: Server,
    /// Give up, with the logs in the error, when the API server is not ready after this long.
    pub ready_timeout: Duration,
    /// Namespaces to create before `start` returns.
    pub namespaces: Vec<String>,
    /// Whose requests [`Cluster::requests`] can count.
    pub audited: Vec<User>,
    /// More kube-apiserver flags, each as `--name=value`. The sandbox has none.
    pub apiserver_flags: Vec<String>,
    /// Whether quota is counted, garbage collected and deleted namespaces emptied: by a kube-controller-manager beside
    /// the real server, by the sandbox itself.
    pub controllers: bool,
}

/// Which API server a cluster has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Server {
    /// kube-apiserver and etcd, as processes.
    #[default]
    Real,
    /// The one of `aileron-apiserver`, in this process.
    Sandbox,
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
    plane: Plane,
    dir: TempDir,
}

#[derive(Debug)]
enum Plane {
    Real(Real),
    Sandbox(Sandbox),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            server: Server::Real,
            // A start takes 3 s on an idle machine; on a loaded CI machine twenty times that is still no hang.
            ready_timeout: Duration::from_secs(60),
            namespaces: vec!["flyte".to_owned()],
            audited: vec![User::Executor],
            apiserver_flags: Vec::new(),
            controllers: false,
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
    /// Starts the servers and waits until `/readyz` answers; builds their binaries first where they are absent.
    ///
    /// # Errors
    /// No binaries, or a server that did not become ready; the error holds the end of its log.
    pub async fn start(options: Options) -> Result<Self> {
        crate::init();
        let cluster = match options.server {
            Server::Real => Self::start_real(options).await?,
            Server::Sandbox => Self::start_sandbox(options)?,
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

    async fn start_real(options: Options) -> Result<Self> {
        let controllers = options.controllers;
        let locate = move || anyhow::Ok((binaries::servers()?, controllers.then(binaries::manager).transpose()?));
        let (servers, manager) = tokio::task::spawn_blocking(locate).await.context("looking for the binaries")??;
        let mut attempt = 1;
        let mut cluster = loop {
            match Self::start_once(&servers, options.clone()).await {
                Err(error) if attempt < START_ATTEMPTS && format!("{error:#}").contains("address already in use") => {
                    attempt += 1;
                }
                outcome => break outcome?,
            }
        };
        let kubeconfig = cluster.kubeconfig(User::Admin);
        if let (Some(manager), Plane::Real(real)) = (manager, &mut cluster.plane) {
            real.control(&manager, cluster.dir.path(), &kubeconfig)?;
        }
        Ok(cluster)
    }

    async fn start_once(binaries: &Path, options: Options) -> Result<Self> {
        let dir = directory()?;
        let [etcd, peer, api] = free_ports()?;
        let url = format!("https://127.0.0.1:{api}");
        certs::write(dir.path())?;
        write_tokens(dir.path())?;
        for user in User::ALL {
            write_kubeconfig(dir.path(), user, &url, Some(&dir.path().join("ca.crt")))?;
        }
        audit::write_policy(dir.path(), &options.audited)?;
        let real = Real::start(binaries, dir.path(), Ports { etcd, peer, api }, &options.apiserver_flags)?;
        let cluster = Self { url, options, plane: Plane::Real(real), dir };
        cluster.wait_ready().await?;
        Ok(cluster)
    }

    fn start_sandbox(options: Options) -> Result<Self> {
        let dir = directory()?;
        let sandbox = Sandbox::start(dir.path(), options.controllers)?;
        let url = sandbox.url();
        for user in User::ALL {
            // `kubectl` sends no credentials where there is no TLS, so the address holds them too.
            write_kubeconfig(dir.path(), user, &format!("{url}/{}", user.token()), None)?;
        }
        Ok(Self { url, options, plane: Plane::Sandbox(sandbox), dir })
    }

    /// Which API server it is.
    #[must_use]
    pub fn server(&self) -> Server {
        self.options.server
    }

    /// The sandbox's server, which can be looked into and told to misbehave; none where the server is real.
    #[must_use]
    pub fn sandbox(&self) -> Option<&ApiServer> {
        match &self.plane {
            Plane::Real(_) => None,
            Plane::Sandbox(sandbox) => Some(sandbox.server()),
        }
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
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // As the program has it: an executor hears of every refusal.
        config.default_retry = user != User::Executor;
        Ok(Client::try_from(config)?)
    }

    /// Kills the API server and waits until it is really gone. Its address and data stay.
    pub fn stop_apiserver(&self) {
        match &self.plane {
            Plane::Real(real) => real.stop_apiserver(),
            Plane::Sandbox(sandbox) => sandbox.stop(),
        }
    }

    /// Starts the API server again after [`Cluster::stop_apiserver`], on the same port and data.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn start_apiserver(&self) -> Result<()> {
        match &self.plane {
            Plane::Real(real) => real.start_apiserver(self.dir.path())?,
            Plane::Sandbox(sandbox) => sandbox.resume().await?,
        }
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
        match &self.plane {
            Plane::Real(_) => audit::read(self.dir.path(), user),
            Plane::Sandbox(sandbox) => Ok(sandbox.journal().of(user)),
        }
    }

    /// The end of a server's log: `etcd`, `kube-apiserver` or `kube-controller-manager`. The sandbox's server is
    /// `kube-apiserver`, and its log is what it was asked last.
    #[must_use]
    pub fn log(&self, name: &str) -> String {
        match &self.plane {
            Plane::Real(_) => process::log_tail(self.dir.path(), name),
            Plane::Sandbox(sandbox) => sandbox.journal().tail(),
        }
    }

    async fn wait_ready(&self) -> Result<()> {
        match &self.plane {
            Plane::Real(real) => {
                let client = self.client(User::Admin).await?;
                real.wait_ready(&client, self.dir.path(), self.options.ready_timeout).await
            }
            // It listens before it is there at all.
            Plane::Sandbox(_) => Ok(()),
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

fn directory() -> Result<TempDir> {
    tempfile::Builder::new().prefix("aileron-cluster-").tempdir().context("creating a directory")
}

fn write_tokens(dir: &Path) -> Result<()> {
    let line =
        |user: User| format!("{},{},{},\"{}\"\n", user.token(), user.username(), user.file_stem(), user.groups());
    Ok(fs::write(dir.join("tokens.csv"), User::ALL.map(line).concat())?)
}

fn write_kubeconfig(dir: &Path, user: User, url: &str, authority: Option<&Path>) -> Result<()> {
    let mut cluster = serde_json::json!({"server": url});
    if let Some(authority) = authority {
        cluster["certificate-authority"] = authority.display().to_string().into();
    }
    let kubeconfig = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": user.token()}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    });
    Ok(fs::write(kubeconfig_path(dir, user), serde_json::to_vec_pretty(&kubeconfig)?)?)
}
