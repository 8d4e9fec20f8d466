//! Sends action events to the control plane.
//!
//! The control plane reads outputs and errors of a run from its events. So an event is recorded before the status that
//! belongs to it: the status is written only after the events service has accepted the event.

mod backoff;
mod batcher;
mod client;
mod dispatch;
mod queue;
#[cfg(test)]
mod tests;

use std::time::Duration;

use aileron_idl::flyteidl2::workflow::ActionEvent;
use async_trait::async_trait;

use crate::services::connect::ConnectError;

pub use batcher::{BatcherOptions, EventBatcher};
pub use client::{EventTransport, EventsClient};

/// Records action events.
#[async_trait]
pub trait EventSink: Send + Sync {
    /// Records an event. Returns when the events service has accepted it.
    ///
    /// Events of one action arrive in the order of the calls. Delivery is at least once: after an error the service may
    /// still have the event.
    async fn record(&self, event: ActionEvent) -> Result<(), EventError> {
        self.record_all(vec![event]).await
    }

    /// Records several events of one action in this order and in one call, so that readers see all of them or none.
    async fn record_all(&self, events: Vec<ActionEvent>) -> Result<(), EventError>;

    /// Why the last call to the service failed, unless a later one succeeded.
    fn last_error(&self) -> Option<ConnectError> {
        None
    }
}

/// Why an event was not recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// The event is incomplete. The service would refuse it.
    #[error("action event is not valid: {0}")]
    Invalid(&'static str),
    /// The service refuses this event, and would refuse it again.
    #[error("the events service refused the event")]
    Rejected(#[source] ConnectError),
    /// The service did not accept the event in time. The caller records it again later.
    #[error("the events service did not accept the event within {after:?}")]
    GaveUp {
        /// How long recording was tried.
        after: Duration,
        /// The last failure of the service, if there was one.
        #[source]
        last: Option<ConnectError>,
    },
    /// This process is shutting down.
    #[error("events are no longer accepted: shutting down")]
    Closed,
}

/// Checks the fields that the service requires (`ActionEvent` in `run_definition.proto`), so that an incomplete event
/// costs no call.
fn validate(event: &ActionEvent) -> Result<(), EventError> {
    let id = event.id.as_ref().ok_or(EventError::Invalid("id is missing"))?;
    if id.run.is_none() {
        return Err(EventError::Invalid("id.run is missing"));
    }
    if id.name.is_empty() {
        return Err(EventError::Invalid("id.name is empty"));
    }
    if event.attempt == 0 {
        return Err(EventError::Invalid("attempt must be at least 1"));
    }
    Ok(())
}
