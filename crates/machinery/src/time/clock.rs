//! The time, as a value that tests can set.

use std::time::Instant;

use jiff::Timestamp;

/// Tells the time.
///
/// ```
/// use std::time::Instant;
/// use aileron_machinery::jiff::Timestamp;
/// use aileron_machinery::time::clock::Clock;
///
/// /// A clock that stands still.
/// struct Stopped(Timestamp);
///
/// impl Clock for Stopped {
///     fn now(&self) -> Timestamp {
///         self.0
///     }
/// }
/// assert_eq!(Stopped(Timestamp::UNIX_EPOCH).now(), Timestamp::UNIX_EPOCH);
/// assert!(Stopped(Timestamp::UNIX_EPOCH).instant() <= Instant::now(), "timers still run");
/// ```
pub trait Clock: Send + Sync {
    /// The time of day.
    fn now(&self) -> Timestamp;

    /// The monotonic time, for timers inside this process. It does not jump when the time of day is corrected.
    fn instant(&self) -> Instant {
        Instant::now()
    }
}

/// The machine's own clock.
///
/// ```
/// use aileron_machinery::time::clock::{Clock, SystemClock};
///
/// let clock: &dyn Clock = &SystemClock;
/// assert!(clock.now().as_second() > 1_700_000_000);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
