//! The history of a simulated run: its times are those of the simulated clock.

use aileron_apiserver::ApiServer;

pub use aileron_history::history::{ActionEvent, Change, Entry, History, RequestLine, STALE_ANSWER, What};

use crate::determinism::SimulatedClock;

/// An empty history.
#[must_use]
pub fn empty(clock: SimulatedClock, server: ApiServer) -> History {
    History::new(move || (clock.elapsed(), server.store().revision()))
}
