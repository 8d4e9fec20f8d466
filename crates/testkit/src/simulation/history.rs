//! The history of a simulated run: its times are those of the simulated clock.

use std::sync::{Arc, Mutex, PoisonError};

use aileron_apiserver::ApiServer;

pub use aileron_history::history::{ActionEvent, Change, Entry, History, RequestLine, STALE_ANSWER, What};

use super::clock::SimulatedClock;

/// How the revisions of the API server went backwards. Histories go on with growing revisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renumbering {
    /// What is added to revisions of the API server in the history.
    pub offset: u64,
    /// The revision of the API server after the last renumbering.
    pub first: u64,
}

/// An empty history.
#[must_use]
pub fn empty(clock: SimulatedClock, server: ApiServer, renumbering: Arc<Mutex<Renumbering>>) -> History {
    let offset = move || renumbering.lock().unwrap_or_else(PoisonError::into_inner).offset;
    History::new(move || (clock.elapsed(), server.store().revision() + offset()))
}
