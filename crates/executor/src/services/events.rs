//! Action events on their way to the control plane.
//!
//! Outputs and errors of a run are read from its events, so an event is recorded before the status that follows from
//! it, and a status is written only when the event is durable.

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

/// Where events go.
#[async_trait]
pub trait EventSink: Send + Sync {
    /// Records an event; returns when the control plane has it for good.
    ///
    /// Events of one action arrive in the order of the calls. An error does not say that the event is unknown to the
    /// service: recording is at least once.
    async fn record(&self, event: ActionEvent) -> Result<(), EventError> {
        self.record_all(vec![event]).await
    }

    /// Records events of one action that belong together, in this order and in one call: whoever follows the action
    /// sees all of them or none.
    async fn record_all(&self, events: Vec<ActionEvent>) -> Result<(), EventError>;
}

/// Why an event was not recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// The event is incomplete; the service would refuse it.
    #[error("action event is not valid: {0}")]
    Invalid(&'static str),
    /// The service refuses this event, and would refuse it again.
    #[error("the events service refused the event")]
    Rejected(#[source] ConnectError),
    /// The service did not accept the event in time; record it again later.
    #[error("the events service did not accept the event within {after:?}")]
    GaveUp {
        /// How long it was tried.
        after: Duration,
        /// The last failure of the service, if there was one.
        #[source]
        last: Option<ConnectError>,
    },
    /// This process is shutting down.
    #[error("events are no longer accepted: shutting down")]
    Closed,
}

/// Checks what the service insists on (`ActionEvent` in `run_definition.proto`), so that one incomplete event does not
/// cost a call.
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
