//! The client of the cache service.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aileron_idl::flyteidl2::cacheservice::v2;
use aileron_idl::flyteidl2::cacheservice::{self as v1, CachedOutput, Metadata, cached_output};
use aileron_idl::flyteidl2::core::{
    Identifier, NodeExecutionIdentifier, TaskExecutionIdentifier, WorkflowExecutionIdentifier,
};
use aileron_machinery::time::clock::Clock;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use super::{CacheKey, CacheMetadata, CachedOutputs, CatalogClient, CatalogError, Reservation};
use crate::services::connect::{Code, ConnectClient};
use crate::storage::BlobStore;
use crate::storage::outputs::read_cached;

/// Names of the values that say which execution created an entry (`cache_service/metadata_keys.go`).
const TASK_VERSION: &str = "task-version";
const EXECUTION_NAME: &str = "execution-name";
const EXECUTION_DOMAIN: &str = "exec-domain";
const EXECUTION_PROJECT: &str = "exec-project";
const EXECUTION_NODE: &str = "exec-node";
const EXECUTION_ATTEMPT: &str = "exec-attempt";
const EXECUTION_ORG: &str = "exec-org";

/// The value for parts of the source that an entry does not name, as upstream has it.
const NOT_RECORDED: &str = "unknown";

/// The name of the service, without a method.
const SERVICE: &str = "flyteidl2.cacheservice.v2.CacheService";

/// The cache service over Connect. Mirrors `cache_service.Client`.
pub struct CacheServiceClient {
    service: ConnectClient,
    store: Arc<dyn BlobStore>,
    max_age: Option<Duration>,
    clock: Arc<dyn Clock>,
}

impl CacheServiceClient {
    /// A client of `service` that reads inputs and cached outputs from `store`. Entries older than `max_age` are
    /// ignored; `None` means any age.
    pub fn new(
        service: ConnectClient,
        store: Arc<dyn BlobStore>,
        max_age: Option<Duration>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { service, store, max_age: max_age.filter(|age| !age.is_zero()), clock }
    }

    async fn call<Q: prost::Message, A: prost::Message + Default>(
        &self,
        call: &'static str,
        request: &Q,
    ) -> Result<A, CatalogError> {
        let answer = self.service.call(&format!("{SERVICE}/{call}"), request).await;
        answer.map_err(|source| CatalogError::Service { call, source })
    }

    async fn text(&self, key: &CacheKey) -> Result<String, CatalogError> {
        key.text(self.store.as_ref()).await.map(str::to_owned)
    }
}

#[async_trait]
impl CatalogClient for CacheServiceClient {
    async fn lookup(&self, key: &CacheKey) -> Result<Option<CachedOutputs>, CatalogError> {
        let request = v2::GetCacheRequest {
            base_request: Some(v1::GetCacheRequest { key: self.text(key).await? }),
            identifier: Some(scope(key.identifier())),
        };
        let answer: v1::GetCacheResponse = match self.call("Get", &request).await {
            Err(CatalogError::Service { source, .. }) if source.code == Code::NotFound => return Ok(None),
            other => other?,
        };
        let Some(CachedOutput { output: Some(output), metadata: Some(metadata) }) = answer.output else {
            return Err(CatalogError::Malformed("no output or no metadata"));
        };
        if let Some(max_age) = self.max_age {
            let updated = metadata.last_updated_at.ok_or(CatalogError::Malformed("no last_updated_at"))?;
            if is_older(updated, max_age, self.clock.now()) {
                return Ok(None);
            }
        }
        let (dataset, source) = source_of(&metadata).ok_or(CatalogError::Malformed("no source identifier"))?;
        match output {
            cached_output::Output::OutputLiterals(outputs) => {
                Ok(Some(CachedOutputs { outputs, output_uri: None, dataset, source }))
            }
            cached_output::Output::OutputUri(uri) => match read_cached(self.store.as_ref(), &uri).await {
                Ok(outputs) => Ok(Some(CachedOutputs { outputs, output_uri: Some(uri), dataset, source })),
                Err(source) => Err(CatalogError::CachedOutputs { uri, source }),
            },
        }
    }

    async fn reserve(&self, key: &CacheKey, owner: &str, heartbeat: Duration) -> Result<Reservation, CatalogError> {
        let interval = prost_types::Duration::try_from(heartbeat).ok();
        let request = v2::GetOrExtendReservationRequest {
            base_request: Some(v1::GetOrExtendReservationRequest {
                key: self.text(key).await?,
                owner_id: owner.to_owned(),
                heartbeat_interval: interval,
            }),
            identifier: Some(scope(key.identifier())),
        };
        let answer: v1::GetOrExtendReservationResponse = self.call("GetOrExtendReservation", &request).await?;
        // Without a reservation in the answer there is no owner, so the caller is not the owner either.
        let v1::Reservation { owner_id, heartbeat_interval, expires_at, .. } = answer.reservation.unwrap_or_default();
        Ok(Reservation {
            owner_id,
            expires_at: expires_at.and_then(|time| Timestamp::new(time.seconds, time.nanos).ok()),
            heartbeat: heartbeat_interval.and_then(|interval| Duration::try_from(interval).ok()),
        })
    }

    async fn put(
        &self,
        key: &CacheKey,
        outputs_uri: &str,
        metadata: &CacheMetadata,
        overwrite: bool,
    ) -> Result<(), CatalogError> {
        let text = self.text(key).await?;
        if !self.store.exists(outputs_uri).await.map_err(CatalogError::Storage)? {
            return Err(CatalogError::NoOutputs { task: key.to_string(), uri: outputs_uri.to_owned() });
        }
        let request = v2::PutCacheRequest {
            base_request: Some(v1::PutCacheRequest {
                key: text,
                output: Some(CachedOutput {
                    output: Some(cached_output::Output::OutputUri(outputs_uri.to_owned())),
                    metadata: Some(entry_metadata(key.identifier(), metadata)),
                }),
                overwrite: Some(v1::OverwriteOutput { overwrite, ..v1::OverwriteOutput::default() }),
            }),
            identifier: Some(scope(key.identifier())),
        };
        self.call::<_, v1::PutCacheResponse>("Put", &request).await.map(drop)
    }

    async fn release(&self, key: &CacheKey, owner: &str) -> Result<(), CatalogError> {
        let request = v2::ReleaseReservationRequest {
            base_request: Some(v1::ReleaseReservationRequest {
                key: self.text(key).await?,
                owner_id: owner.to_owned(),
            }),
            identifier: Some(scope(key.identifier())),
        };
        self.call::<_, v1::ReleaseReservationResponse>("ReleaseReservation", &request).await.map(drop)
    }
}

fn scope(task: &Identifier) -> v2::Identifier {
    v2::Identifier { org: task.org.clone(), project: task.project.clone(), domain: task.domain.clone() }
}

fn is_older(updated: prost_types::Timestamp, max_age: Duration, now: Timestamp) -> bool {
    match (Timestamp::new(updated.seconds, updated.nanos), SignedDuration::try_from(max_age)) {
        (Ok(updated), Ok(max_age)) => now.duration_since(updated) > max_age,
        // A time that is out of range is not valid, so the entry is not used. An age that is out of range never passes.
        (Err(_), _) => true,
        (_, Err(_)) => false,
    }
}

/// Mirrors `newCacheMetadata`.
fn entry_metadata(task: &Identifier, metadata: &CacheMetadata) -> Metadata {
    let values = metadata.execution.as_ref().map(|execution| {
        let node = execution.node_execution_id.clone().unwrap_or_default();
        let run = node.execution_id.unwrap_or_default();
        let version = execution.task_id.as_ref().map(|task| task.version.clone()).unwrap_or_default();
        let pairs = [
            (TASK_VERSION, version),
            (EXECUTION_PROJECT, run.project),
            (EXECUTION_DOMAIN, run.domain),
            (EXECUTION_NAME, run.name),
            (EXECUTION_NODE, node.node_id),
            (EXECUTION_ATTEMPT, execution.retry_attempt.to_string()),
            (EXECUTION_ORG, run.org),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    });
    Metadata {
        source_identifier: Some(task.clone()),
        key_map: values.map(|values| v1::KeyMapMetadata { values }),
        created_at: Some(prost_types::Timestamp {
            seconds: metadata.created_at.as_second(),
            nanos: metadata.created_at.subsec_nanosecond(),
        }),
        last_updated_at: None,
    }
}

/// The task and the execution that created an entry. Mirrors `getSourceFromMetadata`.
fn source_of(metadata: &Metadata) -> Option<(Identifier, TaskExecutionIdentifier)> {
    let task = metadata.source_identifier.clone()?;
    let none = BTreeMap::new();
    let values = metadata.key_map.as_ref().map_or(&none, |map| &map.values);
    let value = |name: &str, otherwise: &str| {
        values.get(name).filter(|value| !value.is_empty()).map_or_else(|| otherwise.to_owned(), Clone::clone)
    };
    let source = TaskExecutionIdentifier {
        task_id: Some(Identifier { version: value(TASK_VERSION, NOT_RECORDED), ..task.clone() }),
        retry_attempt: value(EXECUTION_ATTEMPT, "0").parse().unwrap_or_default(),
        node_execution_id: Some(NodeExecutionIdentifier {
            node_id: value(EXECUTION_NODE, NOT_RECORDED),
            execution_id: Some(WorkflowExecutionIdentifier {
                project: value(EXECUTION_PROJECT, &task.project),
                domain: value(EXECUTION_DOMAIN, &task.domain),
                name: value(EXECUTION_NAME, NOT_RECORDED),
                org: value(EXECUTION_ORG, &task.org),
            }),
        }),
    };
    Some((task, source))
}
