//! The time of day in a simulation.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aileron_machinery::time::clock::Clock;
use jiff::{SignedDuration, Timestamp};

/// The time of day at which every run starts.
pub const START: &str = "2026-01-01T00:00:00Z";

/// The time of day in the simulation: it follows the paused clock of the runtime. Each process has a clock of its own,
/// which can be wrong.
#[derive(Clone, Debug)]
pub struct SimulatedClock {
    began: tokio::time::Instant,
    start: Timestamp,
    /// How far this clock is from the true time.
    error: Arc<Mutex<SignedDuration>>,
}

impl SimulatedClock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        let start = START.parse().unwrap_or(Timestamp::UNIX_EPOCH);
        Self { began: tokio::time::Instant::now(), start, error: Arc::default() }
    }

    /// The clock of another process of the same world.
    #[must_use]
    pub fn of_process(&self) -> Self {
        Self { error: Arc::default(), ..self.clone() }
    }

    /// Moves this clock away from the true time.
    pub fn jump(&self, error: SignedDuration) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// The time since the start of the run.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let error = *self.error.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = SignedDuration::try_from(self.began.elapsed()).unwrap_or_default();
        self.start.saturating_add(elapsed + error).unwrap_or(self.start)
    }

    fn instant(&self) -> std::time::Instant {
        tokio::time::Instant::now().into_std()
    }
}
