//! The state of both services, and the answer to one call.

use axum::body::Bytes;
use http::HeaderMap;
use jiff::Timestamp;

use crate::cache::Cache;
use crate::connect::{Code, Refusal, check_headers};
use crate::events::{self, EventStore};

const RECORD: &str = "flyteidl2.workflow.EventsProxyService/Record";
const CACHE_SERVICE: &str = "flyteidl2.cacheservice.v2.CacheService/";

/// One call of a client.
#[derive(Debug, Clone)]
pub struct Call {
    /// The service and its method: `flyteidl2.workflow.EventsProxyService/Record`.
    pub procedure: String,
    /// The headers of the HTTP request.
    pub headers: HeaderMap,
    /// The encoded message.
    pub body: Bytes,
}

/// The events service and the cache service.
#[derive(Debug, Default)]
pub struct Services<E> {
    /// Where events go.
    pub events: E,
    /// The task cache.
    pub cache: Cache,
}

impl Call {
    /// True for a request that records events.
    #[must_use]
    pub fn records_events(&self) -> bool {
        self.procedure == RECORD
    }
}

impl<E: EventStore> Services<E> {
    /// Services with an empty cache.
    pub fn new(events: E) -> Self {
        Self { events, cache: Cache::default() }
    }

    /// Carries out a call that arrived at `now`, and returns the encoded answer.
    ///
    /// # Errors
    /// The service refuses the call, or it has no such method.
    pub fn answer(&mut self, call: &Call, now: Timestamp) -> Result<Bytes, Refusal> {
        check_headers(&call.headers)?;
        match call.procedure.strip_prefix(CACHE_SERVICE) {
            Some(method) => self.cache.call(method, &call.body, now),
            None if call.records_events() => events::record(&mut self.events, &call.body, now),
            None => Err(Code::Unimplemented.with_message(&call.procedure)),
        }
    }
}
