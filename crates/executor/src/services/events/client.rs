//! The events service over Connect.

use aileron_idl::flyteidl2::workflow::{ActionEvent, RecordRequest, RecordResponse};
use async_trait::async_trait;

use crate::services::connect::{ConnectClient, ConnectError};

/// Sends a batch of events to the service.
#[async_trait]
pub trait EventTransport: Send + Sync {
    /// Records all of `events` in one call.
    async fn record(&self, events: Vec<ActionEvent>) -> Result<(), ConnectError>;
}

/// `flyteidl2.workflow.EventsProxyService`.
#[derive(Debug, Clone)]
pub struct EventsClient(ConnectClient);

impl EventsClient {
    /// A client of the service behind `client`.
    pub fn new(client: ConnectClient) -> Self {
        Self(client)
    }
}

#[async_trait]
impl EventTransport for EventsClient {
    async fn record(&self, events: Vec<ActionEvent>) -> Result<(), ConnectError> {
        let request = RecordRequest { events };
        let answer = self.0.call("flyteidl2.workflow.EventsProxyService/Record", &request).await;
        answer.map(|RecordResponse {}| ())
    }
}
