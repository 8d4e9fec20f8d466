//! The replicas of the executor: each starts again when its process has ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aileron_config::Config;
use aileron_executor::assembly::{RunOptions, run_with};
use aileron_executor::caches::readiness::Readiness;
use aileron_machinery::PluginSet;
use anyhow::{Context, Result};
use tokio::time::{Instant, sleep};

use super::clock::SimulatedClock;
use super::faults::Cut;
use super::history::What;
use super::network::{Network, Shared};
use super::process::Process;
use super::random::Random;
use super::services::Services;

/// From the end of a process to its next start, in milliseconds, as a kubelet restarts a container.
const RESTART_MS: (u64, u64) = (200, 4_000);

/// Configuration and plugins of a process that starts now.
pub type Configure = dyn Fn() -> Result<(Config, PluginSet)> + Send + Sync;

/// All executors of a run.
pub struct Executors {
    shared: Arc<Shared>,
    services: Services,
    clock: SimulatedClock,
    random: Random,
    configure: Box<Configure>,
    current: Vec<Mutex<Option<Arc<Process>>>>,
}

impl Executors {
    /// `count` replicas, not started.
    #[must_use]
    pub fn new(
        shared: Arc<Shared>,
        services: Services,
        clock: SimulatedClock,
        random: Random,
        count: usize,
        configure: Box<Configure>,
    ) -> Self {
        let current = (0..count).map(|_| Mutex::default()).collect();
        Self { shared, services, clock, random, configure, current }
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
        let (config, plugins) = (self.configure)()?;
        let options = RunOptions {
            config,
            plugins,
            client: Network::of_executor(&self.shared, process),
            namespace: "flyte".to_owned(),
            identity: process.name.to_string(),
            readiness: Readiness::new(),
            memory: process.memory.clone(),
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
                process.ended();
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

    /// The processes that live now.
    #[must_use]
    pub fn alive(&self) -> Vec<Arc<Process>> {
        (0..self.current.len()).filter_map(|slot| self.current(slot)).filter(|process| process.is_alive()).collect()
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

    /// Ends all replicas in good order.
    pub fn stop_all(&self) {
        (0..self.current.len()).for_each(|slot| self.stop(slot));
    }

    /// Pauses a replica.
    pub async fn pause(&self, slot: usize, span: Duration) {
        let Some(process) = self.current(slot) else { return };
        self.shared.history.add(What::Process { process: process.name.clone(), text: format!("pauses for {span:?}") });
        process.set_paused(true);
        sleep(span).await;
        process.set_paused(false);
        self.shared.history.add(What::Process { process: process.name.clone(), text: "runs again".into() });
    }

    /// Cuts a part of the traffic of a replica.
    pub fn partition(&self, slot: usize, cut: Cut, span: Duration) {
        let Some(process) = self.current(slot) else { return };
        let text = format!("does not get through for {span:?}: {cut:?}");
        self.shared.history.add(What::Process { process: process.name.clone(), text });
        process.cut_off(cut, Instant::now() + span);
    }

    /// Makes the clock of a replica wrong.
    pub fn jump(&self, slot: usize, seconds: i64) {
        let Some(process) = self.current(slot) else { return };
        self.shared.history.note(format!("the clock of {} is wrong by {seconds} s", process.name));
        process.clock.jump(jiff::SignedDuration::from_secs(seconds));
    }

    /// Sets the clocks of all replicas right. A task that waits for a time of day would wait longer otherwise.
    pub fn correct_clocks(&self) {
        for process in self.alive() {
            process.clock.jump(jiff::SignedDuration::ZERO);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
