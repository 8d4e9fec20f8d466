//! Times for tests, counted from a fixed start.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// The start. It lies ahead of the real time, so that a test can also use times before it.
static START: LazyLock<Instant> = LazyLock::new(|| Instant::now() + Duration::from_secs(3600));

/// The monotonic time this many milliseconds after the start.
pub fn at_milli(millis: i64) -> Instant {
    let distance = Duration::from_millis(millis.unsigned_abs());
    if millis < 0 { *START - distance } else { *START + distance }
}

/// The monotonic time this many seconds after the start.
pub fn at_second(second: i64) -> Instant {
    at_milli(second * 1000)
}

/// The date this many seconds after 1970.
pub fn date(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or_default()
}
