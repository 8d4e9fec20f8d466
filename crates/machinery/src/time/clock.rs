//! The time, as a value that tests can set.

use std::time::Instant;

use jiff::Timestamp;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The time of day.
    fn now(&self) -> Timestamp;

    /// The monotonic time, for timers inside this process. It does not jump when the time of day is corrected.
    fn instant(&self) -> Instant {
        Instant::now()
    }
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
