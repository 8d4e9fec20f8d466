//! What every write of a replica passes: open while the replica leads, closed otherwise.
//!
//! The fence does not wait to be told that the lease is lost. Each renewal opens it until a certain time, which is before
//! the time at which another replica may take the lease. A process that was paused beyond that time finds it closed.
//!
//! ```text
//!   closed --- the lease is taken or renewed ---> open until T --- T has passed ---> closed
//!                                                   |    ^
//!                                                   +----+ renewed: a later T
//! ```

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

/// Whether this process may write. Clones are the same fence.
#[derive(Clone, Debug)]
pub struct Fence {
    state: Arc<watch::Sender<State>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is no other replica.
    Always,
    Until(Instant),
    Closed,
}

/// The write was not sent, or its answer was not awaited: another replica may lead now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process does not hold the leader lease; another replica may write")]
pub struct NotLeading;

impl Fence {
    /// A fence that is always open, for a process without leader election.
    #[must_use]
    pub fn always_open() -> Self {
        Self::new(State::Always)
    }

    /// A fence that is closed until [`Fence::open_until`].
    #[must_use]
    pub fn closed() -> Self {
        Self::new(State::Closed)
    }

    fn new(state: State) -> Self {
        Self { state: Arc::new(watch::Sender::new(state)) }
    }

    /// Opens the fence until this time.
    pub fn open_until(&self, until: Instant) {
        self.state.send_replace(State::Until(until));
    }

    /// Closes the fence. Work in [`Fence::guard`] ends.
    pub fn close(&self) {
        self.state.send_replace(State::Closed);
    }

    /// Whether a write may be sent now.
    ///
    /// # Errors
    /// The fence is closed.
    pub fn check(&self) -> Result<(), NotLeading> {
        match *self.state.borrow() {
            State::Always => Ok(()),
            State::Until(until) if Instant::now() < until => Ok(()),
            State::Until(_) | State::Closed => Err(NotLeading),
        }
    }

    /// Does work that writes. It is not begun behind a closed fence, and is dropped when the fence closes.
    ///
    /// # Errors
    /// The fence is closed.
    pub async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, NotLeading> {
        self.check()?;
        tokio::select! {
            biased;
            () = self.until_closed() => Err(NotLeading),
            result = work => Ok(result),
        }
    }

    /// Returns when the fence is closed.
    pub async fn until_closed(&self) {
        let mut state = self.state.subscribe();
        loop {
            let now = *state.borrow_and_update();
            let timeout = async {
                match now {
                    State::Always => std::future::pending().await,
                    State::Until(until) => tokio::time::sleep_until(until).await,
                    State::Closed => {}
                }
            };
            tokio::select! {
                biased;
                // `self` owns the sender, so it is never gone.
                _ = state.changed() => {}
                () = timeout => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]

    use std::time::Duration;

    use super::*;

    const TEN_SECONDS: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn it_closes_by_itself_when_nobody_renews() {
        let fence = Fence::closed();
        assert_eq!(fence.check(), Err(NotLeading));
        fence.open_until(Instant::now() + TEN_SECONDS);
        assert_eq!(fence.check(), Ok(()));
        tokio::time::advance(TEN_SECONDS).await;
        assert_eq!(fence.check(), Err(NotLeading), "although no task has run meanwhile");
    }

    #[tokio::test(start_paused = true)]
    async fn work_under_way_ends_with_the_lease_and_goes_on_with_a_renewal() {
        let fence = Fence::closed();
        fence.open_until(Instant::now() + TEN_SECONDS);
        let (renewed, began) = (fence.clone(), Instant::now());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            renewed.open_until(Instant::now() + TEN_SECONDS);
        });
        assert_eq!(fence.guard(std::future::pending::<()>()).await, Err(NotLeading));
        assert_eq!(began.elapsed(), Duration::from_secs(15));
        assert_eq!(fence.guard(async { panic!("begun behind a closed fence") }).await, Err::<(), _>(NotLeading));
    }

    #[tokio::test(start_paused = true)]
    async fn without_election_it_is_always_open() {
        let fence = Fence::always_open();
        tokio::time::advance(TEN_SECONDS * 1_000).await;
        assert_eq!(fence.guard(async { 7 }).await, Ok(7));
        fence.close();
        assert_eq!(fence.check(), Err(NotLeading));
    }
}
