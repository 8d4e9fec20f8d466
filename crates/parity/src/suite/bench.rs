//! Everything around an executor: control plane, kubelet, services, storage.

use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use super::{Executor, Settings, Space, script};
use crate::cluster::{self, Cluster, Server, User, install_crd};
use crate::events_stub::EventsStub;
use crate::kubelet::{self, Kubelet, Store};

/// A cluster with the definition of TaskAction, a kubelet for all pods, the services, and a place for files.
#[derive(Debug)]
pub struct Bench {
    /// Plays nodes and tasks.
    pub kubelet: Kubelet,
    /// Takes events and keeps the cache.
    pub stub: EventsStub,
    /// The control plane; last, because everything above uses it.
    pub cluster: Cluster,
}

/// What a bench is like.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The API server.
    pub server: Server,
    /// Whether quota is counted and garbage collected, as in a whole cluster.
    pub controllers: bool,
    /// More flags for a real API server.
    pub apiserver_flags: Vec<String>,
    /// Changes what the kubelet is like: how long containers take to stop, whether deletions are finished.
    pub kubelet: fn(kubelet::Settings) -> kubelet::Settings,
}

/// What most suites share. Its parts belong to a runtime of their own, because each test's runtime ends with the test.
struct Shared {
    bench: Bench,
    _executor: Executor,
    _runtime: Runtime,
}

impl Default for BenchOptions {
    fn default() -> Self {
        Self {
            server: Server::default(),
            controllers: false,
            apiserver_flags: Vec::new(),
            kubelet: std::convert::identity,
        }
    }
}

impl Bench {
    /// Starts all of it, but no executor.
    ///
    /// # Errors
    /// One of the parts did not start.
    pub async fn start(options: BenchOptions) -> Result<Self> {
        let BenchOptions { server, controllers, apiserver_flags, kubelet } = options;
        let options = cluster::Options { server, controllers, apiserver_flags, ..cluster::Options::default() };
        let cluster = Cluster::start(options).await?;
        let crd = aileron_action::crd::crd()?;
        install_crd(&cluster.client(User::Admin).await?, &crd).await?;
        let data = cluster.dir().join("data");
        let settings = kubelet(kubelet::Settings::default().decide(script).store(Store::Local(data)));
        let kubelet = Kubelet::start(cluster.client(User::Sim).await?, settings);
        Ok(Self { kubelet, stub: EventsStub::start().await?, cluster })
    }

    /// Where inputs and outputs are; it goes with the cluster.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.cluster.dir().join("data")
    }

    /// What an executor on this bench is configured with.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings::new(&self.stub.url(), &self.data())
    }

    /// A namespace of one's own.
    ///
    /// # Errors
    /// It cannot be made.
    pub async fn space(&self, namespace: &str) -> Result<Space<'_>> {
        Space::new(self, namespace).await
    }
}

impl Server {
    /// A bench of one's own on this kind of server.
    ///
    /// # Errors
    /// It did not start.
    pub async fn bench(self) -> Result<Bench> {
        Bench::start(BenchOptions { server: self, ..BenchOptions::default() }).await
    }

    /// The bench that most suites share, with one executor on it.
    ///
    /// # Errors
    /// It did not start.
    pub async fn shared(self) -> Result<&'static Bench> {
        static REAL: OnceLock<Result<Shared, String>> = OnceLock::new();
        static SANDBOX: OnceLock<Result<Shared, String>> = OnceLock::new();
        let place = match self {
            Self::Real => &REAL,
            Self::Sandbox => &SANDBOX,
        };
        started_once(place, move || Shared::start(self)).await.map(|shared| &shared.bench)
    }
}

/// What tests share: whoever comes first starts it, on a thread where it may block, and all see how that went.
///
/// # Errors
/// It did not start.
pub async fn started_once<T: Send + Sync>(
    place: &'static OnceLock<Result<T, String>>,
    start: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<&'static T> {
    let start = move || place.get_or_init(|| start().map_err(|error| format!("{error:#}")));
    let shared = tokio::task::spawn_blocking(start).await.context("starting what tests share")?;
    shared.as_ref().map_err(|error| anyhow::Error::msg(error.clone()))
}

impl Shared {
    fn start(server: Server) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let (bench, executor) = runtime.block_on(async {
            let bench = server.bench().await?;
            let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
            anyhow::Ok((bench, executor))
        })?;
        Ok(Self { bench, _executor: executor, _runtime: runtime })
    }
}
