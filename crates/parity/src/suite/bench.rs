//! Everything around an executor: control plane, kubelet, services, storage.

use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use super::{Executor, Settings, Space, script};
use crate::cluster::{Cluster, Options, User, install_crd};
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

/// What most suites share. Its parts belong to a runtime of their own, because each test's runtime ends with the test.
struct Shared {
    bench: Bench,
    _executor: Executor,
    _runtime: Runtime,
}

impl Bench {
    /// Starts all of it, but no executor.
    ///
    /// # Errors
    /// One of the parts did not start.
    pub async fn start() -> Result<Self> {
        let cluster = Cluster::start(Options::default()).await?;
        let crd = aileron_executor::action::crd::crd()?;
        install_crd(&cluster.client(User::Admin).await?, &crd).await?;
        let data = cluster.dir().join("data");
        let settings = kubelet::Settings::default().decide(script).store(Store::Local(data));
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

/// The bench that most suites share, with one executor on it.
///
/// # Errors
/// It did not start.
pub async fn shared() -> Result<&'static Bench> {
    static SHARED: OnceLock<Result<Shared, String>> = OnceLock::new();
    let start = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let (bench, executor) = runtime.block_on(async {
            let bench = Bench::start().await?;
            let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
            anyhow::Ok((bench, executor))
        })?;
        anyhow::Ok(Shared { bench, _executor: executor, _runtime: runtime })
    };
    let wait = move || SHARED.get_or_init(|| start().map_err(|error| format!("{error:#}")));
    let shared = tokio::task::spawn_blocking(wait).await.context("starting the shared bench")?;
    shared.as_ref().map(|shared| &shared.bench).map_err(|error| anyhow::Error::msg(error.clone()))
}
