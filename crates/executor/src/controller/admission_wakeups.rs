//! The timers of the launch gate: wakes actions whose back-off or settle time has passed, and calls its maintenance.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aileron_admission::gate::Gate;
use aileron_machinery::time::clock::Clock;
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
        let now = clock.instant();
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
        gate.maintain(clock.instant());
    }
}

/// How long to sleep until the next wake-up. A wake-up in the past needs no sleep but the margin.
fn sleep_time(next_wake: Option<Instant>, now: Instant) -> Duration {
    next_wake.map_or(LONGEST_SLEEP, |next| next.saturating_duration_since(now)) + SLEEP_MARGIN
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use aileron_admission::create_request::CreateRequest;
    use aileron_admission::gate::{Admission, GateSettings};
    use aileron_admission::waker::ActionWaker;
    use aileron_kubekit::ApiError;
    use aileron_machinery::{ActionKey, ResourceKind};
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Pod;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;

    /// A clock whose time of day jumps by a day, forwards and backwards in turn, each time it is read.
    #[derive(Default)]
    struct JumpingClock(AtomicI64);

    impl Clock for JumpingClock {
        fn now(&self) -> Timestamp {
            let reads = self.0.fetch_add(1, Ordering::SeqCst);
            Timestamp::from_second(1_000_000 + 86_400 * (reads % 2)).unwrap_or_default()
        }

        fn instant(&self) -> Instant {
            tokio::time::Instant::now().into_std()
        }
    }

    /// A waker that sends the woken actions to a channel.
    struct ChannelWaker(UnboundedSender<ActionKey>);

    impl ActionWaker for ChannelWaker {
        fn wake(&self, key: &ActionKey) {
            let _ = self.0.send(key.clone());
        }

        fn created_at(&self, _: &ActionKey) -> Option<Timestamp> {
            Some(Timestamp::UNIX_EPOCH)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_jump_of_the_time_of_day_neither_lengthens_nor_shortens_a_back_off() {
        let (sender, mut woken) = unbounded_channel();
        let clock: Arc<dyn Clock> = Arc::new(JumpingClock::default());
        let gate = Gate::new(GateSettings::default(), Box::new(ChannelWaker(sender)), Arc::clone(&clock));
        let key = ActionKey::new("ns", "a");
        let kind = ResourceKind::of::<Pod>();
        let request = CreateRequest { kind, amounts: Default::default(), pod_traits: None };
        let Admission::Permit(permit) = gate.request_permit(&key, request, clock.instant()) else {
            unreachable!("nothing was refused yet")
        };
        // The first back-off period lasts a second, and with this random number it has no jitter.
        let overload = ApiError { code: 503, ..ApiError::default() };
        let _ = permit.refused(&overload, clock.instant(), 0.0);
        let start = tokio::time::Instant::now();
        let cancel = CancellationToken::new();
        tokio::spawn(run(Arc::new(gate), clock, cancel.clone()));
        assert_eq!(woken.recv().await, Some(key));
        let paused = start.elapsed();
        assert!(paused >= Duration::from_secs(1) && paused < Duration::from_millis(1100), "{paused:?}");
        cancel.cancel();
    }

    #[test]
    fn the_sleep_ends_just_after_the_next_wake_up() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(sleep_time(Some(at(1500)), at(1000)), Duration::from_millis(501));
        assert_eq!(sleep_time(Some(at(500)), at(1000)), Duration::from_millis(1));
        assert_eq!(sleep_time(None, at(1000)), LONGEST_SLEEP + SLEEP_MARGIN);
    }
}
