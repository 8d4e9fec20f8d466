//! The timers of the launch gate: wakes actions when their turn has come by time alone, and keeps the gate's state tidy.

use std::sync::Arc;
use std::time::Duration;

use aileron_admission::gate::Gate;
use aileron_machinery::time::clock::Clock;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

/// How often [`Gate::maintain`] is called. It publishes gauges, which are scraped about as often.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(10);

/// How long to sleep when the gate expects no wake-up. A change of the gate ends the sleep, so this only bounds it.
const LONGEST_SLEEP: Duration = Duration::from_secs(120);

/// Added to each sleep, because the clock could otherwise still be a fraction of a millisecond before the wake-up.
const SLEEP_MARGIN: Duration = Duration::from_millis(1);

/// Runs both timers until cancelled.
pub async fn run(gate: Arc<Gate>, clock: Arc<dyn Clock>, cancel: CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => {}
        () = wake_due_actions(&gate, clock.as_ref()) => {}
        () = maintain(&gate, clock.as_ref()) => {}
    }
}

async fn wake_due_actions(gate: &Gate, clock: &dyn Clock) {
    loop {
        let now = clock.now();
        let next_wake = gate.wake_due(now);
        tokio::select! {
            () = gate.wait_for_change() => {}
            () = tokio::time::sleep(sleep_time(next_wake, now)) => {}
        }
    }
}

async fn maintain(gate: &Gate, clock: &dyn Clock) {
    loop {
        tokio::time::sleep(MAINTENANCE_INTERVAL).await;
        gate.maintain(clock.now());
    }
}

/// How long to sleep until the next wake-up. A wake-up in the past needs no sleep but the margin.
fn sleep_time(next_wake: Option<Timestamp>, now: Timestamp) -> Duration {
    let until = |next: Timestamp| Duration::try_from(next.duration_since(now)).unwrap_or_default();
    next_wake.map_or(LONGEST_SLEEP, until) + SLEEP_MARGIN
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_sleep_ends_just_after_the_next_wake_up() {
        let at = |millis: i64| Timestamp::from_millisecond(millis).unwrap();
        assert_eq!(sleep_time(Some(at(1500)), at(1000)), Duration::from_millis(501));
        assert_eq!(sleep_time(Some(at(500)), at(1000)), Duration::from_millis(1));
        assert_eq!(sleep_time(None, at(1000)), LONGEST_SLEEP + SLEEP_MARGIN);
    }
}
