//! The cache service in memory. Mirrors `cache_service/manager.Manager`.

use std::collections::HashMap;

use aileron_idl::flyteidl2::cacheservice::{
    CachedOutput, GetCacheResponse, GetOrExtendReservationResponse, OverwriteOutput, PutCacheResponse,
    ReleaseReservationResponse, Reservation, cached_output, v2,
};
use axum::body::Bytes;
use jiff::{SignedDuration, Timestamp};

use super::connect::{Code, Refusal, decode, encode};

/// Longest time between two signs of life of an owner; the service's default.
const MAX_HEARTBEAT: SignedDuration = SignedDuration::from_secs(10);
/// An owner is given up after this many missed signs of life; the service's default.
const GRACE: i32 = 3;

/// One stored output.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheEntry {
    /// Where the outputs are.
    pub output_uri: String,
    /// The whole message, with its metadata.
    pub output: CachedOutput,
    /// When it was put.
    pub updated: Timestamp,
}

/// Who may fill an entry, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Holder {
    owner: String,
    heartbeat: SignedDuration,
    until: Timestamp,
}

/// Entries and reservations, by the key that the service forms: see [`Cache::scoped`].
#[derive(Debug, Default)]
pub struct Cache {
    entries: HashMap<String, CacheEntry>,
    holders: HashMap<String, Holder>,
    calls: Vec<String>,
}

impl Cache {
    /// The service's key of an executor's key. The organisation has no part in it.
    #[must_use]
    pub fn scoped(project: &str, domain: &str, key: &str) -> String {
        format!("{project}-{domain}-{key}")
    }

    /// All entries by key.
    #[must_use]
    pub fn entries(&self) -> &HashMap<String, CacheEntry> {
        &self.entries
    }

    /// The methods that were called, in order, as `<method> <key>`.
    #[must_use]
    pub fn calls(&self) -> &[String] {
        &self.calls
    }

    /// Who holds the reservation of `key`, expired or not.
    #[must_use]
    pub fn owner(&self, key: &str) -> Option<&str> {
        self.holders.get(key).map(|holder| holder.owner.as_str())
    }

    /// Stores an entry, as another executor would have.
    pub fn put(&mut self, key: &str, output_uri: &str) {
        let output = Some(cached_output::Output::OutputUri(output_uri.to_owned()));
        let output = CachedOutput { output, ..CachedOutput::default() };
        let entry = CacheEntry { output_uri: output_uri.to_owned(), output, updated: Timestamp::now() };
        self.entries.insert(key.to_owned(), entry);
    }

    /// Gives the reservation of `key` to `owner` until `until`, as another executor would have taken it.
    pub fn reserve(&mut self, key: &str, owner: &str, until: Timestamp) {
        self.holders.insert(key.to_owned(), Holder { owner: owner.to_owned(), heartbeat: MAX_HEARTBEAT, until });
    }

    pub(super) fn call(&mut self, method: &str, body: &Bytes, now: Timestamp) -> Result<Bytes, Refusal> {
        match method {
            "Get" => {
                let v2::GetCacheRequest { base_request, identifier } = decode(body)?;
                let key = self.enter(method, base_request.unwrap_or_default().key, identifier.as_ref())?;
                let entry = self.entries.get(&key).ok_or_else(|| missing(&key))?;
                Ok(encode(&GetCacheResponse { output: Some(entry.output.clone()) }))
            }
            "Put" => {
                let v2::PutCacheRequest { base_request, identifier } = decode(body)?;
                let request = base_request.unwrap_or_default();
                let key = self.enter(method, request.key, identifier.as_ref())?;
                let overwrite = request.overwrite.unwrap_or_default();
                self.put_output(key, request.output.unwrap_or_default(), &overwrite, now)?;
                Ok(encode(&PutCacheResponse {}))
            }
            "GetOrExtendReservation" => {
                let v2::GetOrExtendReservationRequest { base_request, identifier } = decode(body)?;
                let request = base_request.unwrap_or_default();
                let key = self.enter(method, request.key, identifier.as_ref())?;
                let owner = required(request.owner_id, "owner_id")?;
                let asked = request.heartbeat_interval.map(|span| SignedDuration::new(span.seconds, span.nanos));
                let reservation = self.get_or_extend(&key, owner, asked, now);
                Ok(encode(&GetOrExtendReservationResponse { reservation: Some(reservation) }))
            }
            "ReleaseReservation" => {
                let v2::ReleaseReservationRequest { base_request, identifier } = decode(body)?;
                let request = base_request.unwrap_or_default();
                let key = self.enter(method, request.key, identifier.as_ref())?;
                let owner = required(request.owner_id, "owner_id")?;
                // Releasing what one does not hold is no error: callers clean up without looking first.
                if self.owner(&key) == Some(&owner) {
                    self.holders.remove(&key);
                }
                Ok(encode(&ReleaseReservationResponse {}))
            }
            _ => Err(Code::Unimplemented.because(method)),
        }
    }

    fn enter(&mut self, method: &str, key: String, scope: Option<&v2::Identifier>) -> Result<String, Refusal> {
        let key = required(key, "base_request.key")?;
        let Some(scope) = scope else { return Err(Code::InvalidArgument.because("identifier is required")) };
        let key = Self::scoped(&scope.project, &scope.domain, &key);
        self.calls.push(format!("{method} {key}"));
        Ok(key)
    }

    fn put_output(
        &mut self,
        key: String,
        output: CachedOutput,
        overwrite: &OverwriteOutput,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let Some(cached_output::Output::OutputUri(uri)) = &output.output else {
            return Err(Code::InvalidArgument.because("output_uri is required"));
        };
        let output_uri = required(uri.clone(), "output_uri")?;
        if let Some(old) = self.entries.get(&key) {
            let max_age = overwrite.max_age.as_ref().map(|span| SignedDuration::new(span.seconds, span.nanos));
            let expired = max_age.is_some_and(|max| now.duration_since(old.updated) > max);
            if !overwrite.overwrite && !expired {
                return Err(Code::AlreadyExists.because(&format!("cache entry {key:?} already exists")));
            }
        }
        self.entries.insert(key, CacheEntry { output_uri, output, updated: now });
        Ok(())
    }

    /// The same owner extends, an expired reservation changes hands, and anybody else is told who has it.
    fn get_or_extend(
        &mut self,
        key: &str,
        owner: String,
        asked: Option<SignedDuration>,
        now: Timestamp,
    ) -> Reservation {
        let heartbeat = asked.filter(SignedDuration::is_positive).map_or(MAX_HEARTBEAT, |span| span.min(MAX_HEARTBEAT));
        let claim = Holder { owner, heartbeat, until: now + heartbeat * GRACE };
        let holder = match self.holders.get(key) {
            Some(other) if other.owner != claim.owner && other.until > now => other.clone(),
            _ => {
                self.holders.insert(key.to_owned(), claim.clone());
                claim
            }
        };
        Reservation {
            key: format!("reservation:{key}"), // the service shows its own key, prefix and all
            owner_id: holder.owner,
            heartbeat_interval: Some(prost_types::Duration {
                seconds: holder.heartbeat.as_secs(),
                nanos: holder.heartbeat.subsec_nanos(),
            }),
            expires_at: Some(prost_types::Timestamp {
                seconds: holder.until.as_second(),
                nanos: holder.until.subsec_nanosecond(),
            }),
        }
    }
}

fn required(value: String, field: &str) -> Result<String, Refusal> {
    if value.is_empty() { Err(Code::InvalidArgument.because(&format!("{field} is required"))) } else { Ok(value) }
}

fn missing(key: &str) -> Refusal {
    Code::NotFound.because(&format!("cache entry {key:?} not found"))
}
