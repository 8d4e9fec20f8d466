//! The time of day of a server.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// Tells the server the time of day, which it writes into objects. Deadlines and delays follow the clock of the tokio
/// runtime instead, which tests can pause.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Clock {
    /// A clock that calls this function whenever the server needs the time of day.
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { now: Arc::new(now) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.now)()
    }
}

impl Default for Clock {
    /// The clock of the operating system.
    fn default() -> Self {
        Self::from_fn(Timestamp::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}
