//! Executor processes: they start, are killed or paused, and start again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aileron_config::{Config, Sources};
use aileron_executor::assembly::{RunOptions, run_with};
use aileron_executor::caches::readiness::Readiness;
use aileron_machinery::PluginSet;
use anyhow::{Context, Result};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::determinism::{Random, SimulatedClock};
use crate::faults::Cut;
use crate::history::{History, RequestLine, What};
use crate::network::{Network, Shared};
use crate::operator::SimJobs;
use crate::services::Services;

/// From the end of a process to its next start, in milliseconds, as a kubelet restarts a container.
const RESTART_MS: (u64, u64) = (200, 4_000);

/// One life of an executor process.
#[derive(Debug)]
pub struct Process {
    /// Name in the lease and in the history. Every life has its own.
    pub name: Arc<str>,
    /// The clock of the process.
    pub clock: SimulatedClock,
    life: watch::Sender<Life>,
    partition: Mutex<Option<(Cut, Instant)>>,
    cancel: CancellationToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Running,
    Paused,
    Dead,
}

impl Process {
    fn new(name: String, clock: SimulatedClock) -> Self {
        Self {
            name: name.into(),
            clock,
            life: watch::Sender::new(Life::Running),
            partition: Mutex::default(),
            cancel: CancellationToken::new(),
        }
    }

    /// Returns when the process runs. Nothing that a dead process does has any effect, so this never returns for one.
    pub async fn running(&self) {
        let mut life = self.life.subscribe();
        let _ = life.wait_for(|life| *life == Life::Running).await;
        if *life.borrow() != Life::Running {
            std::future::pending::<()>().await;
        }
    }

    /// Whether the process itself would still send this write, after a pause.
    #[must_use]
    pub fn may_write(&self, _line: &RequestLine) -> bool {
        true
    }

    /// Ends the process at once.
    pub fn kill(&self, history: &History) {
        if self.life.send_replace(Life::Dead) != Life::Dead {
            history.add(What::Process { process: self.name.clone(), text: "is killed".into() });
        }
    }

    /// The part of the traffic that does not get through, and until when.
    #[must_use]
    pub fn partition(&self) -> Option<(Cut, Instant)> {
        *lock(&self.partition)
    }

    async fn dead(&self) {
        let _ = self.life.subscribe().wait_for(|life| *life == Life::Dead).await;
    }
}

/// All executors of a run.
pub struct Executors {
    shared: Arc<Shared>,
    services: Services,
    clock: SimulatedClock,
    random: Random,
    current: Vec<Mutex<Option<Arc<Process>>>>,
}

impl Executors {
    /// `count` replicas, not started.
    #[must_use]
    pub fn new(shared: Arc<Shared>, services: Services, clock: SimulatedClock, random: Random, count: usize) -> Self {
        Self { shared, services, clock, random, current: (0..count).map(|_| Mutex::default()).collect() }
    }

    /// Starts all replicas. Each starts again when it has ended.
    pub fn start(self: &Arc<Self>) {
        for slot in 0..self.current.len() {
            let executors = Arc::clone(self);
            tokio::spawn(async move { executors.keep_running(slot).await });
        }
    }

    async fn keep_running(&self, slot: usize) {
        for life in 0.. {
            let process = Arc::new(Process::new(format!("executor-{slot}.{life}"), self.clock.of_process()));
            if let Some(current) = self.current.get(slot) {
                *lock(current) = Some(Arc::clone(&process));
            }
            let text = match self.live(&process).await {
                Ok(end) => end,
                Err(error) => format!("ended: {error:#}"),
            };
            self.shared.history.add(What::Process { process: process.name.clone(), text });
            sleep(self.random.millis(RESTART_MS.0, RESTART_MS.1)).await;
        }
    }

    /// One life, until it ends or is killed.
    async fn live(&self, process: &Arc<Process>) -> Result<String> {
        self.shared.history.add(What::Process { process: process.name.clone(), text: "starts".into() });
        let config = config()?;
        let plugins = plugins(&config)?;
        let options = RunOptions {
            config,
            plugins,
            client: Network::of_executor(&self.shared, process),
            namespace: "flyte".to_owned(),
            identity: process.name.to_string(),
            readiness: Readiness::new(),
        };
        let services = self.services.of_process(process);
        let mut task = tokio::spawn(run_with(options, services, process.cancel.clone()));
        tokio::select! {
            biased;
            () = process.dead() => {
                // What the process started lives on without any effect, see [`Process::running`].
                task.abort();
                Ok("is dead".to_owned())
            }
            end = &mut task => {
                process.life.send_replace(Life::Dead);
                Ok(match end.context("the executor panicked")? {
                    Ok(()) => "ended in good order".to_owned(),
                    Err(error) => format!("ended: {error}"),
                })
            }
        }
    }

    fn current(&self, slot: usize) -> Option<Arc<Process>> {
        lock(self.current.get(slot)?).clone()
    }

    /// Kills a replica.
    pub fn kill(&self, slot: usize) {
        if let Some(process) = self.current(slot) {
            process.kill(&self.shared.history);
        }
    }

    /// Ends a replica in good order.
    pub fn stop(&self, slot: usize) {
        if let Some(process) = self.current(slot) {
            self.shared.history.add(What::Process { process: process.name.clone(), text: "is asked to stop".into() });
            process.cancel.cancel();
        }
    }

    /// Pauses a replica.
    pub async fn pause(&self, slot: usize, span: Duration) {
        let Some(process) = self.current(slot) else { return };
        self.shared.history.add(What::Process { process: process.name.clone(), text: format!("pauses for {span:?}") });
        process.life.send_if_modified(|life| {
            std::mem::replace(life, if *life == Life::Dead { Life::Dead } else { Life::Paused }) == Life::Running
        });
        sleep(span).await;
        process.life.send_if_modified(|life| {
            let was_paused = *life == Life::Paused;
            if was_paused {
                *life = Life::Running;
            }
            was_paused
        });
        self.shared.history.add(What::Process { process: process.name.clone(), text: "runs again".into() });
    }

    /// Cuts a part of the traffic of a replica.
    pub fn partition(&self, slot: usize, cut: Cut, span: Duration) {
        let Some(process) = self.current(slot) else { return };
        let text = format!("does not get through for {span:?}: {cut:?}");
        self.shared.history.add(What::Process { process: process.name.clone(), text });
        *lock(&process.partition) = Some((cut, Instant::now() + span));
    }

    /// Makes the clock of a replica wrong.
    pub fn jump(&self, slot: usize, seconds: i64) {
        let Some(process) = self.current(slot) else { return };
        self.shared.history.note(format!("the clock of {} is wrong by {seconds} s", process.name));
        process.clock.jump(jiff::SignedDuration::from_secs(seconds));
    }
}

fn config() -> Result<Config> {
    let text = json!({
        "executor": {
            "leaderElect": true,
            "cluster": "simulation",
            "requeueDuration": "1s",
            "missingKindTimeout": "0s",
            "healthProbeBindAddress": "0",
            "metricsBindAddress": "0",
            "EventsServiceURL": "http://events.invalid",
            "cacheServiceURL": "http://cache.invalid",
        },
        "storage": {"type": "mem", "container": "data"},
        "plugins": {"k8s": {"inject-finalizer": true}},
        "tasks": {"pools": {"licences": {"quota": 1, "task-types": ["licensed"]}}},
    });
    Config::load(&Sources::file("simulation.yaml", &text.to_string())).context("the configuration of the simulation")
}

fn plugins(config: &Config) -> Result<PluginSet> {
    let plugins = aileron_plugins::builtin().build(&config.plugins.section_values())?;
    Ok(plugins.with_object_plugin(Arc::new(SimJobs)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
