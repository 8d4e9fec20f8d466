//! The simulated events service and cache service.

use std::time::Duration;

use aileron_executor::services::cache::{
    CacheKey, CacheMetadata, CachedOutputs, CatalogClient, CatalogError, Reservation,
};
use aileron_executor::services::connect::{Code, ConnectError};
use aileron_executor::services::events::{EventError, EventSink};
use aileron_idl::flyteidl2::core::{Literal, LiteralMap, TaskExecutionIdentifier};
use aileron_idl::flyteidl2::workflow::ActionEvent;
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::World;
use crate::vectors::messages::{message, message_json};

/// The answers of the cache service. An empty text means the default answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CatalogAnswers {
    /// To a lookup: `hit`, `error`; by default a miss.
    pub get: String,
    /// To a reservation request: the owner, or `error`; `self` and the default mean the caller.
    pub reservation: String,
    /// To storing outputs: `exists`, `error`; by default they are stored.
    pub put: String,
    /// To releasing a reservation: `error`; by default it is released.
    pub release: String,
}

#[async_trait]
impl CatalogClient for World {
    async fn lookup(&self, key: &CacheKey) -> Result<Option<CachedOutputs>, CatalogError> {
        let answer = self.record_call(key, json!({"verb": "get"})).get;
        match answer.as_str() {
            "hit" => Ok(Some(CachedOutputs {
                outputs: cached_outputs(),
                output_uri: None,
                dataset: key.identifier().clone(),
                source: TaskExecutionIdentifier::default(),
            })),
            "error" => Err(refusal("lookup", Code::Unavailable)),
            _ => Ok(None),
        }
    }

    async fn reserve(&self, key: &CacheKey, owner: &str, heartbeat: Duration) -> Result<Reservation, CatalogError> {
        let call = json!({
            "verb": "getOrExtendReservation", "ownerId": owner, "heartbeatSeconds": heartbeat.as_secs(),
        });
        let answer = self.record_call(key, call).reservation;
        match answer.as_str() {
            "error" => Err(refusal("reserve", Code::Unavailable)),
            "" | "self" => Ok(Reservation { owner_id: owner.into(), expires_at: None, heartbeat: None }),
            other => Ok(Reservation { owner_id: other.into(), expires_at: None, heartbeat: None }),
        }
    }

    async fn put(&self, key: &CacheKey, _: &str, _: &CacheMetadata, _: bool) -> Result<(), CatalogError> {
        match self.record_call(key, json!({"verb": "put"})).put.as_str() {
            "exists" => Err(refusal("put", Code::AlreadyExists)),
            "error" => Err(refusal("put", Code::Unavailable)),
            _ => Ok(()),
        }
    }

    async fn release(&self, key: &CacheKey, owner: &str) -> Result<(), CatalogError> {
        match self.record_call(key, json!({"verb": "releaseReservation", "ownerId": owner})).release.as_str() {
            "error" => Err(refusal("release", Code::Unavailable)),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl EventSink for World {
    async fn record_all(&self, events: Vec<ActionEvent>) -> Result<(), EventError> {
        let mut state = self.state();
        if state.events_down {
            let last = ConnectError { code: Code::Unavailable, message: "down".into() };
            return Err(EventError::GaveUp { after: Duration::ZERO, last: Some(last) });
        }
        state.action_events.extend(events.iter().map(|event| message_json(event).unwrap_or_default()));
        Ok(())
    }
}

impl World {
    /// Records a call to the cache service and returns the current answers.
    fn record_call(&self, key: &CacheKey, mut call: Value) -> CatalogAnswers {
        call["identifier"] = message_json(key.identifier()).unwrap_or_default();
        call["cacheVersion"] = key.cache_version().into();
        call["ignoreInputVars"] = json!(key.ignore_input_vars());
        let mut state = self.state();
        state.catalog_calls.push(call);
        state.catalog.clone()
    }
}

/// The outputs of every hit: `o0 = 7`.
fn cached_outputs() -> LiteralMap {
    let seven: Literal = message(&json!({"scalar": {"primitive": {"integer": "7"}}})).unwrap_or_default();
    LiteralMap { literals: [("o0".to_owned(), seven)].into() }
}

fn refusal(call: &'static str, code: Code) -> CatalogError {
    CatalogError::Service { call, source: ConnectError { code, message: "down".into() } }
}
