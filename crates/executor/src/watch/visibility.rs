//! Whether a watch shows the cluster. A single interruption is normal; errors over a longer time mean that the executor
//! does not see what happens, and then it is not ready.

use std::time::Duration;

use tokio::time::Instant;

use super::reconnect;

/// For how long errors must follow one another before the watch counts as blind. An API server restarts faster.
const BLIND_AFTER: Duration = Duration::from_secs(45);

/// The longest that a try takes that is not answered: the timeout of requests.
const TRY: Duration = Duration::from_secs(30);

/// After this long without a further error the watch works again, even if nothing has changed in the cluster. Longer than
/// the longest pause between two tries and a try together.
const WORKS_AFTER: Duration = reconnect::LONGEST.saturating_add(TRY).saturating_add(Duration::from_secs(5));

/// What is known about the errors of a watch.
#[derive(Debug, Default)]
pub(super) struct Visibility {
    errors: Option<(Instant, Instant)>,
    blind: bool,
}

/// The watch has become blind, or shows the cluster again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Blind,
    Visible,
}

impl Visibility {
    /// The watch failed to start or was interrupted.
    pub(super) fn error(&mut self, now: Instant) -> Option<Change> {
        let (first, _) = self.errors.unwrap_or((now, now));
        self.errors = Some((first, now));
        let turns_blind = !self.blind && now.duration_since(first) >= BLIND_AFTER;
        self.blind |= turns_blind;
        turns_blind.then_some(Change::Blind)
    }

    /// The watch showed something, or its quiet time is over.
    pub(super) fn works(&mut self) -> Option<Change> {
        self.errors = None;
        std::mem::take(&mut self.blind).then_some(Change::Visible)
    }

    /// Returns when no error has come for long enough; never if there was none.
    pub(super) async fn quiet(&self) {
        match self.errors {
            Some((_, last)) => tokio::time::sleep_until(last + WORKS_AFTER).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn single_interruptions_are_normal_and_lasting_errors_make_a_watch_blind_once() {
        let (mut visibility, start) = (Visibility::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(visibility.error(at(0)), None);
        assert_eq!(visibility.works(), None);
        assert_eq!(visibility.error(at(40)), None);
        assert_eq!(visibility.error(at(60)), None, "the earlier error does not count");
        assert_eq!(visibility.error(at(85)), Some(Change::Blind));
        assert_eq!(visibility.error(at(90)), None);
        assert_eq!(visibility.works(), Some(Change::Visible));
        assert_eq!(visibility.works(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_cluster_counts_as_visible_again() {
        let (mut visibility, start) = (Visibility::default(), Instant::now());
        visibility.error(start);
        visibility.quiet().await;
        assert_eq!(start.elapsed(), WORKS_AFTER);
    }
}
