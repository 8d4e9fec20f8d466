//! One life of an executor process, as the outside world can influence it.

use std::sync::{Arc, Mutex, PoisonError};

use aileron_executor::caches::memory::MemoryCounts;
use aileron_lease::LEASE_NAME;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::clock::SimulatedClock;
use super::faults::Cut;
use super::history::{History, RequestLine, What};

/// One life of an executor process.
#[derive(Debug)]
pub struct Process {
    /// Name in the lease and in the history. Every life has its own.
    pub name: Arc<str>,
    /// The clock of the process.
    pub clock: SimulatedClock,
    life: watch::Sender<Life>,
    partition: Mutex<Option<(Cut, Instant)>>,
    /// Asks the process to end in good order.
    pub cancel: CancellationToken,
    /// What the process keeps in memory.
    pub memory: MemoryCounts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Running,
    Paused,
    Dead,
}

impl Process {
    /// A process that runs.
    #[must_use]
    pub fn new(name: String, clock: SimulatedClock) -> Self {
        Self {
            name: name.into(),
            clock,
            life: watch::Sender::new(Life::Running),
            partition: Mutex::default(),
            cancel: CancellationToken::new(),
            memory: MemoryCounts::default(),
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

    /// Ends the process at once.
    pub fn kill(&self, history: &History) {
        if self.life.send_replace(Life::Dead) != Life::Dead {
            history.add(What::Process { process: self.name.clone(), text: "is killed".into() });
        }
    }

    /// The part of the traffic that does not get through, and until when.
    #[must_use]
    pub fn partition(&self) -> Option<(Cut, Instant)> {
        *self.partition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts a part of the traffic until this time.
    pub fn cut_off(&self, cut: Cut, until: Instant) {
        *self.partition.lock().unwrap_or_else(PoisonError::into_inner) = Some((cut, until));
    }

    /// The process has ended by itself.
    pub fn ended(&self) {
        self.life.send_replace(Life::Dead);
    }

    /// Pauses the process, or lets it run again. A dead process stays dead.
    pub fn set_paused(&self, paused: bool) {
        let (from, to) = if paused { (Life::Running, Life::Paused) } else { (Life::Paused, Life::Running) };
        self.life.send_if_modified(|life| {
            let changes = *life == from;
            if changes {
                *life = to;
            }
            changes
        });
    }

    /// Whether the process has neither ended nor been killed.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        *self.life.borrow() != Life::Dead
    }

    /// Returns when the process is dead.
    pub async fn dead(&self) {
        let _ = self.life.subscribe().wait_for(|life| *life == Life::Dead).await;
    }

    /// Whether a partition stops this request.
    pub fn is_cut(&self, line: &RequestLine) -> Option<Instant> {
        let (cut, until) = self.partition()?;
        let is_lease = line.resource == "leases" && line.name == LEASE_NAME;
        let hit = match cut {
            Cut::All => true,
            Cut::Lease => is_lease,
            Cut::Watches => line.verb == "watch",
            Cut::Writes => line.is_write() && !is_lease,
        };
        (hit && until > Instant::now()).then_some(until)
    }

    /// Waits until no partition stops this request.
    pub async fn until_reachable(&self, line: &RequestLine) {
        while let Some(until) = self.is_cut(line) {
            tokio::time::sleep_until(until).await;
        }
    }
}
