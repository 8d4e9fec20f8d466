//! The environment of an executor: control plane, kubelet, services, storage.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use super::{Executor, Program, Recording, Settings, Space, script};
use crate::cluster::{self, Authorization, Cluster, Server, User, install_crd};
use crate::events_stub::EventsStub;
use crate::kubelet::{self, Kubelet, Store};
use crate::manifests::{Grants, apply, executor_roles};
use crate::recorder::Recorder;

/// A cluster with the definition of TaskAction, a kubelet for all pods, the services, and a directory for files.
#[derive(Debug)]
pub struct Bench {
    /// Simulates nodes and tasks.
    pub kubelet: Kubelet,
    /// The events service and the cache service.
    pub stub: EventsStub,
    /// The control plane. It is the last field, so that it is dropped after its clients.
    pub cluster: Cluster,
}

/// Options of a bench.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The API server.
    pub server: Server,
    /// Whether quota is counted and garbage is collected, as in a complete cluster.
    pub controllers: bool,
    /// Which requests a real API server allows.
    pub authorization: Authorization,
    /// Users whose requests are recorded, beside those of every cluster.
    pub audited: Vec<User>,
    /// Additional flags for a real API server.
    pub apiserver_flags: Vec<String>,
    /// Whether a [`Recorder`](crate::recorder::Recorder) can follow the bench.
    pub recorded: bool,
    /// Changes the kubelet's settings, such as how long containers take to stop.
    pub kubelet: fn(kubelet::Settings) -> kubelet::Settings,
}

/// The bench and the executor that most suites share. A real API server checks the permissions of the executor, which has the
/// roles of `deploy/`. They have their own runtime, because the runtime of a test ends with
/// the test.
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
            authorization: Authorization::default(),
            audited: Vec::new(),
            apiserver_flags: Vec::new(),
            recorded: false,
            kubelet: std::convert::identity,
        }
    }
}

impl Bench {
    /// Starts all parts except an executor.
    ///
    /// # Errors
    /// A part did not start.
    pub async fn start(options: BenchOptions) -> Result<Self> {
        let BenchOptions { server, controllers, authorization, audited, apiserver_flags, recorded, kubelet } = options;
        let mut options = cluster::Options {
            server,
            controllers,
            authorization,
            apiserver_flags,
            recorded,
            ..cluster::Options::default()
        };
        options.audited.extend(audited);
        let cluster = Cluster::start(options).await?;
        let crd = aileron_action::crd::crd()?;
        install_crd(&cluster.client(User::Admin).await?, &crd).await?;
        let data = cluster.dir().join("data");
        let settings = kubelet(kubelet::Settings::default().decide(script).store(Store::Local(data)));
        let kubelet = Kubelet::start(cluster.client(User::Sim).await?, settings);
        Ok(Self { kubelet, stub: EventsStub::start().await?, cluster })
    }

    /// The directory of inputs and outputs. It is removed with the cluster.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.cluster.dir().join("data")
    }

    /// The configuration for an executor on this bench.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings::new(&self.stub.url(), &self.data())
    }

    /// Starts the real program so that the recorder knows its requests and events. `name` must be new, and two programs that
    /// run at the same time need different users. Programs of one user share a log.
    ///
    /// # Errors
    /// The program cannot be built or started.
    pub async fn recorded_program(
        &self,
        recorder: &Arc<Recorder>,
        settings: &Settings,
        user: User,
        name: &str,
    ) -> Result<Program> {
        let recording = Recording { recorder, stub: &self.stub, user };
        let (kubeconfig, log) = (self.cluster.kubeconfig(user), format!("{user:?}"));
        Program::start_recorded(&self.cluster, &kubeconfig, settings, (name, &log), &recording).await
    }

    /// Grants [`User::Executor`] the roles of `deploy/`, and waits until the API server knows them.
    ///
    /// # Errors
    /// The API server refuses a role.
    pub async fn grant_executor_roles(&self) -> Result<()> {
        let roles = executor_roles(&["executor"])?;
        let admin = self.cluster.client(User::Admin).await?;
        apply(&admin, &roles).await?;
        Grants::of(&roles, User::Executor)?.until_known(&admin, User::Executor).await
    }

    /// Creates a namespace for one suite.
    ///
    /// # Errors
    /// The API server refuses the namespace.
    pub async fn space(&self, namespace: &str) -> Result<Space<'_>> {
        Space::new(self, namespace).await
    }
}

impl Server {
    /// Starts a new bench on this kind of server.
    ///
    /// # Errors
    /// The bench did not start.
    pub async fn bench(self) -> Result<Bench> {
        Bench::start(BenchOptions { server: self, ..BenchOptions::default() }).await
    }

    /// Starts a new bench on this kind of server, and a recorder that follows it.
    ///
    /// # Errors
    /// The bench did not start.
    pub async fn recorded_bench(self) -> Result<(Bench, Arc<Recorder>)> {
        let bench = Bench::start(BenchOptions { server: self, recorded: true, ..BenchOptions::default() }).await?;
        let recorder = Recorder::start(&bench.cluster, &bench.stub).await?;
        Ok((bench, Arc::new(recorder)))
    }

    /// The bench that most suites share, with one executor on it.
    ///
    /// # Errors
    /// The bench did not start.
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

/// A value that tests share. The first caller starts it, on a thread that may block; all callers get the same result.
///
/// # Errors
/// The start failed.
pub async fn started_once<T: Send + Sync>(
    place: &'static OnceLock<Result<T, String>>,
    start: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<&'static T> {
    let start = move || place.get_or_init(|| start().map_err(|error| format!("{error:#}")));
    let shared = tokio::task::spawn_blocking(start).await.context("starting the shared bench")?;
    shared.as_ref().map_err(|error| anyhow::Error::msg(error.clone()))
}

impl Shared {
    fn start(server: Server) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let (bench, executor) = runtime.block_on(async {
            let authorization = Authorization::Rbac;
            let bench = Bench::start(BenchOptions { server, authorization, ..BenchOptions::default() }).await?;
            if server == Server::Real {
                bench.grant_executor_roles().await?;
            }
            let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
            anyhow::Ok((bench, executor))
        })?;
        Ok(Self { bench, _executor: executor, _runtime: runtime })
    }
}
