//! A Kubernetes API server on loopback that runs until [`Cluster`] is dropped: kube-apiserver with etcd, or the sandbox's.
//!
//! It has no scheduler and no node: [`crate::kubelet`] simulates both. Quota is counted and garbage is collected only
//! with [`Options::controllers`].

mod audit;
mod binaries;
mod candidate;
mod certs;
mod crd;
mod journal;
mod process;
mod proxy;
mod real;
mod sandbox;
mod wire;

use std::borrow::Cow;
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

pub use self::audit::{AuditRecord, RequestReader, TimedRequest};
pub use self::candidate::Candidate;
pub use self::crd::install_crd;
pub use self::proxy::{FaultyAnswer, ProxiedRequest, Proxy, RefusalRule};
pub use self::wire::Wire;

/// How often a starting server is polled. A start takes two to three seconds.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// A free port is chosen, released, and then bound by the child process. Another program may take it in between.
const START_ATTEMPTS: usize = 3;

/// How to start a [`Cluster`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Which API server to start.
    pub server: Server,
    /// Give up, with the logs in the error, when the API server is not ready after this long.
    pub ready_timeout: Duration,
    /// Namespaces to create before `start` returns.
    pub namespaces: Vec<String>,
    /// The users whose requests [`Cluster::requests`] can return.
    pub audited: Vec<User>,
    /// Which requests a real API server allows. The sandbox allows all.
    pub authorization: Authorization,
    /// Additional kube-apiserver flags, each as `--name=value`. The sandbox ignores them.
    pub apiserver_flags: Vec<String>,
    /// Whether quota is counted, garbage is collected and deleted namespaces are emptied. A kube-controller-manager does
    /// this for the real server; the sandbox does it itself.
    pub controllers: bool,
    /// Whether [`crate::recorder`] can follow all changes. A real API server then stores all objects as JSON, because the
    /// recorder reads them from etcd.
    pub recorded: bool,
}

/// Which API server a cluster has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Server {
    /// kube-apiserver and etcd, as processes.
    #[default]
    Real,
    /// The API server of `aileron-apiserver`, in this process.
    Sandbox,
}

/// How a real API server decides whether a user may send a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Authorization {
    /// Every user may do everything.
    #[default]
    AlwaysAllow,
    /// A user may do what roles allow. [`User::Admin`] and [`User::Sim`] may do everything, all others nothing at first.
    Rbac,
}

/// The identities that the API server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum User {
    /// The test itself: `system:masters`, exempt from API priority and fairness.
    Admin,
    /// The executor's service account. The API server applies the flow control of an in-cluster controller to it.
    Executor,
    /// The service account of a second executor, so that the requests of two executors can be told apart.
    OtherExecutor,
    /// Simulated nodes and operators: `system:masters` too, but separate from the admin in the audit log.
    Sim,
    /// A service account, by namespace and name. The API server knows it if it is in [`Options::audited`], whether or not an
    /// object `ServiceAccount` exists.
    ServiceAccount(&'static str, &'static str),
}

/// A running control plane. Dropping it stops the processes and removes its files.
#[derive(Debug)]
pub struct Cluster {
    url: String,
    options: Options,
    // Declared before the directory: fields are dropped in order, so processes end before their files are removed.
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
            // A start takes 3 s on an idle machine. A loaded CI machine may need up to twenty times that.
            ready_timeout: Duration::from_secs(180),
            namespaces: vec!["flyte".to_owned()],
            audited: vec![User::Executor, User::OtherExecutor],
            authorization: Authorization::default(),
            apiserver_flags: Vec::new(),
            controllers: false,
            recorded: false,
        }
    }
}

impl Options {
    /// Everybody that the API server knows.
    fn users(&self) -> Vec<User> {
        let more = self.audited.iter().filter(|user| !User::ALL.contains(user));
        User::ALL.iter().chain(more).copied().collect()
    }
}

impl Authorization {
    /// The value of kube-apiserver's flag `--authorization-mode`.
    fn mode(self) -> &'static str {
        match self {
            Self::AlwaysAllow => "AlwaysAllow",
            Self::Rbac => "RBAC",
        }
    }
}

impl User {
    /// The users of every cluster.
    const ALL: [Self; 4] = [Self::Admin, Self::Executor, Self::OtherExecutor, Self::Sim];

    /// The user name that the API server sees.
    #[must_use]
    pub fn username(self) -> Cow<'static, str> {
        match self {
            Self::Admin => "admin".into(),
            Self::Executor => "system:serviceaccount:flyte:executor".into(),
            Self::OtherExecutor => "system:serviceaccount:flyte:other-executor".into(),
            Self::Sim => "sim".into(),
            Self::ServiceAccount(namespace, name) => format!("system:serviceaccount:{namespace}:{name}").into(),
        }
    }

    fn groups(self) -> String {
        let namespace = match self {
            Self::Admin | Self::Sim => return "system:masters".to_owned(),
            Self::Executor | Self::OtherExecutor => "flyte",
            Self::ServiceAccount(namespace, _) => namespace,
        };
        format!("system:serviceaccounts,system:serviceaccounts:{namespace}")
    }

    fn file_stem(self) -> Cow<'static, str> {
        match self {
            Self::Admin => "admin".into(),
            Self::Executor => "executor".into(),
            Self::OtherExecutor => "other-executor".into(),
            Self::Sim => "sim".into(),
            Self::ServiceAccount(namespace, name) => format!("{name}-of-{namespace}").into(),
        }
    }

    /// The server listens on loopback for one test run only, so a token need not be secret, only distinct.
    fn token(self) -> String {
        format!("token-of-{}", self.file_stem())
    }

    /// As in the real program, the clients of executors do not retry, so that the executor sees every refusal.
    fn retries(self) -> bool {
        matches!(self, Self::Admin | Self::Sim)
    }
}

impl Cluster {
    /// Starts the servers and waits until `/readyz` answers; builds missing binaries first.
    ///
    /// # Errors
    /// The binaries cannot be built, or a server did not become ready. The error contains the end of its log.
    pub async fn start(options: Options) -> Result<Self> {
        crate::init();
        let cluster = match options.server {
            Server::Real => Self::start_real(options).await?,
            Server::Sandbox => Self::start_sandbox(options)?,
        };
        cluster.create_namespaces().await?;
        Ok(cluster)
    }

    /// The cluster that the tests of this binary share; the first caller starts it. Each test uses its own namespaces. A
    /// test that restarts the API server or counts requests across namespaces starts its own cluster.
    ///
    /// A static value is never dropped: the processes end, and their files are removed, when the test process ends.
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
        let (servers, manager) =
            tokio::task::spawn_blocking(locate).await.context("locating the control plane binaries")??;
        let mut attempt = 1;
        let mut cluster = loop {
            match Self::start_once(&servers, options.clone()).await {
                Err(error) if attempt < START_ATTEMPTS && may_start_later(&format!("{error:#}")) => {
                    attempt += 1;
                }
                outcome => break outcome?,
            }
        };
        let kubeconfig = cluster.kubeconfig(User::Admin);
        if let (Some(manager), Plane::Real(real)) = (manager, &mut cluster.plane) {
            real.start_controllers(&manager, cluster.dir.path(), &kubeconfig)?;
        }
        Ok(cluster)
    }

    async fn start_once(binaries: &Path, options: Options) -> Result<Self> {
        let dir = directory()?;
        let [etcd, peer, api] = free_ports()?;
        let url = format!("https://127.0.0.1:{api}");
        certs::write(dir.path())?;
        write_tokens(dir.path(), &options.users())?;
        for user in options.users() {
            write_kubeconfig(dir.path(), user, &url, Some(&dir.path().join("ca.crt")))?;
        }
        audit::write_policy(dir.path(), &options.audited)?;
        let mut flags = options.apiserver_flags.clone();
        if options.recorded {
            flags.push("--storage-media-type=application/json".to_owned());
        }
        let ports = Ports { etcd, peer, api };
        let real = Real::start(binaries, dir.path(), ports, options.authorization.mode(), &flags)?;
        let cluster = Self { url, options, plane: Plane::Real(real), dir };
        cluster.wait_ready().await?;
        Ok(cluster)
    }

    fn start_sandbox(options: Options) -> Result<Self> {
        let dir = directory()?;
        let sandbox = Sandbox::start(dir.path(), options.controllers)?;
        let url = sandbox.url();
        for user in User::ALL {
            // `kubectl` sends no credentials without TLS, so the address contains the token too.
            write_kubeconfig(dir.path(), user, &format!("{url}/{}", user.token()), None)?;
        }
        Ok(Self { url, options, plane: Plane::Sandbox(sandbox), dir })
    }

    /// Which API server this cluster has.
    #[must_use]
    pub fn server(&self) -> Server {
        self.options.server
    }

    /// The sandbox's API server, for inspection and fault injection; `None` for a real server.
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

    /// The directory with logs and credentials. It is removed with the cluster.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A kubeconfig that acts as `user`.
    #[must_use]
    pub fn kubeconfig(&self, user: User) -> PathBuf {
        kubeconfig_path(self.dir.path(), user)
    }

    /// A client that acts as `user`. Create one per test: a client belongs to the runtime that created it.
    ///
    /// # Errors
    /// The kubeconfig is unreadable.
    pub async fn client(&self, user: User) -> Result<Client> {
        let path = self.kubeconfig(user);
        let kubeconfig = Kubeconfig::read_from(&path).with_context(|| format!("reading {}", path.display()))?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.default_retry = user.retries();
        Ok(Client::try_from(config)?)
    }

    /// Kills the API server and waits until it has ended. Its address and data stay.
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

    /// Kills etcd without warning and starts it again with the same data. The sandbox has no etcd: its API server is
    /// restarted instead.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn restart_etcd(&self) -> Result<()> {
        match &self.plane {
            Plane::Real(real) => {
                real.restart_etcd(self.dir.path())?;
                self.wait_ready().await
            }
            Plane::Sandbox(_) => self.restart_apiserver().await,
        }
    }

    /// The address of etcd; `None` for the sandbox.
    #[must_use]
    pub fn etcd_url(&self) -> Option<String> {
        match &self.plane {
            Plane::Real(real) => Some(real.etcd_url()),
            Plane::Sandbox(_) => None,
        }
    }

    /// Whether this cluster was started with [`Options::recorded`].
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.options.recorded
    }

    /// Reads the requests of all users in [`Options::audited`], each once, from the first one on.
    #[must_use]
    pub fn follow_requests(&self) -> RequestReader {
        match &self.plane {
            Plane::Real(_) => RequestReader::of_log(self.dir.path(), &self.options.audited),
            Plane::Sandbox(sandbox) => {
                RequestReader::of_journal(std::sync::Arc::clone(sandbox.journal()), &self.options.audited)
            }
        }
    }

    /// The requests of `user` so far, oldest first. A watch is included as soon as it is open. A request is recorded a
    /// moment after its answer, so a test must wait for the last request that it expects.
    ///
    /// # Errors
    /// The user is not in [`Options::audited`], or the audit log is unreadable.
    pub fn requests(&self, user: User) -> Result<Vec<AuditRecord>> {
        if !self.options.audited.contains(&user) {
            bail!("requests of {user:?} are not recorded: add it to Options::audited");
        }
        match &self.plane {
            Plane::Real(_) => audit::read(self.dir.path(), user),
            Plane::Sandbox(sandbox) => Ok(sandbox.journal().of(user)),
        }
    }

    /// The end of the log of `etcd`, `kube-apiserver` or `kube-controller-manager`. For the sandbox it is the list of the
    /// last requests, whatever the name.
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
            // `Sandbox::start` and `resume` return only after the listener is bound.
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

/// Creates a namespace, unless it exists.
///
/// # Errors
/// The API server refuses the request for another reason than an existing namespace.
pub async fn create_namespace(client: &Client, name: &str) -> Result<()> {
    use k8s_openapi::api::core::v1::Namespace;
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    match kube::Api::<Namespace>::all(client.clone()).create(&kube::api::PostParams::default(), &namespace).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        outcome => outcome.map(drop).with_context(|| format!("creating namespace {name}")),
    }
}

/// Locks a mutex, poisoned or not: a panicking test must still be able to stop its servers.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a start failed for a reason that another try may not have: another program has taken a free port, or etcd did not
/// answer within 20 s on a machine that is busy.
fn may_start_later(error: &str) -> bool {
    error.contains("address already in use") || error.contains("context deadline exceeded")
}

fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // All listeners stay bound until all ports are known; otherwise the system could return one port twice.
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
    tempfile::Builder::new().prefix("aileron-cluster-").tempdir().context("creating the directory of the cluster")
}

fn write_tokens(dir: &Path, users: &[User]) -> Result<()> {
    let line =
        |user: &User| format!("{},{},{},\"{}\"\n", user.token(), user.username(), user.file_stem(), user.groups());
    Ok(fs::write(dir.join("tokens.csv"), users.iter().map(line).collect::<String>())?)
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
