//! The cache service in memory: outputs by key, and reservations of keys. Mirrors `cache_service/manager.Manager`.

use std::collections::HashMap;

use aileron_idl::flyteidl2::cacheservice::{
    CachedOutput, GetCacheResponse, GetOrExtendReservationResponse, Metadata, OverwriteOutput, PutCacheResponse,
    ReleaseReservationResponse, Reservation, cached_output, v2,
};
use axum::body::Bytes;
use jiff::{SignedDuration, Timestamp};

use crate::connect::{Code, Refusal, decode, encode};

/// Longest time between two heartbeats of the owner of a reservation. The default of the real service.
const MAX_HEARTBEAT_INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// A reservation expires after this many missed heartbeats. The default of the real service.
const MISSED_HEARTBEATS: i32 = 3;

/// The stored outputs and the reservations, both by the key that the service forms (see [`Cache::service_key`]).
#[derive(Debug, Default)]
pub struct Cache {
    entries: HashMap<String, Entry>,
    reservations: HashMap<String, Held>,
    /// The calls so far, if they are recorded.
    calls: Option<Vec<String>>,
}

/// One stored output.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    output: CachedOutput,
    updated: Timestamp,
}

/// The reservation of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    owner: String,
    heartbeat_interval: SignedDuration,
    expires: Timestamp,
}

impl Cache {
    /// An empty cache that remembers every call, for tests.
    #[must_use]
    pub fn recording_calls() -> Self {
        Self { calls: Some(Vec::new()), ..Self::default() }
    }

    /// The service's own form of an executor's key. The organisation is not part of it.
    #[must_use]
    pub fn service_key(project: &str, domain: &str, key: &str) -> String {
        format!("{project}-{domain}-{key}")
    }

    /// The recorded calls in order, each as `<method> <key>`. Empty unless the cache records calls.
    #[must_use]
    pub fn calls(&self) -> &[String] {
        self.calls.as_deref().unwrap_or_default()
    }

    /// The owner of the reservation of `key`, even if the reservation has expired.
    #[must_use]
    pub fn owner(&self, key: &str) -> Option<&str> {
        self.reservations.get(key).map(|held| held.owner.as_str())
    }

    /// Answers a call of the method `method` that arrived at `now`.
    pub(crate) fn call(&mut self, method: &str, body: &Bytes, now: Timestamp) -> Result<Bytes, Refusal> {
        match method {
            "Get" => {
                let v2::GetCacheRequest { base_request, identifier } = decode(body)?;
                let key = self.checked_key(method, base_request.unwrap_or_default().key, identifier.as_ref())?;
                let entry = self.entries.get(&key);
                let entry =
                    entry.ok_or_else(|| Code::NotFound.with_message(format!("cache entry {key:?} not found")))?;
                Ok(encode(&GetCacheResponse { output: Some(entry.output.clone()) }))
            }
            "Put" => {
                let v2::PutCacheRequest { base_request, identifier } = decode(body)?;
                let request = base_request.unwrap_or_default();
                let key = self.checked_key(method, request.key, identifier.as_ref())?;
                let overwrite = request.overwrite.unwrap_or_default();
                self.put(key, request.output.unwrap_or_default(), &overwrite, now)?;
                Ok(encode(&PutCacheResponse {}))
            }
            "GetOrExtendReservation" => {
                let v2::GetOrExtendReservationRequest { base_request, identifier } = decode(body)?;
                let request = base_request.unwrap_or_default();
                let key = self.checked_key(method, request.key, identifier.as_ref())?;
                let owner = required(request.owner_id, "owner_id")?;
                let interval = request.heartbeat_interval.map(|span| SignedDuration::new(span.seconds, span.nanos));
                let reservation = self.get_or_extend(&key, owner, interval, now);
                Ok(encode(&GetOrExtendReservationResponse { reservation: Some(reservation) }))
            }
            "ReleaseReservation" => {
                let v2::ReleaseReservationRequest { base_request, identifier } = decode(body)?;
                let request = base_request.unwrap_or_default();
                let key = self.checked_key(method, request.key, identifier.as_ref())?;
                let owner = required(request.owner_id, "owner_id")?;
                // Releasing a reservation of another owner is not an error: executors release without asking first.
                if self.owner(&key) == Some(&owner) {
                    self.reservations.remove(&key);
                }
                Ok(encode(&ReleaseReservationResponse {}))
            }
            _ => Err(Code::Unimplemented.with_message(method)),
        }
    }

    /// Checks the key and its scope, records the call, and returns the service's form of the key.
    fn checked_key(&mut self, method: &str, key: String, scope: Option<&v2::Identifier>) -> Result<String, Refusal> {
        let key = required(key, "base_request.key")?;
        let Some(scope) = scope else { return Err(Code::InvalidArgument.with_message("identifier is required")) };
        let key = Self::service_key(&scope.project, &scope.domain, &key);
        if let Some(calls) = &mut self.calls {
            calls.push(format!("{method} {key}"));
        }
        Ok(key)
    }

    fn put(
        &mut self,
        key: String,
        mut output: CachedOutput,
        overwrite: &OverwriteOutput,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let Some(cached_output::Output::OutputUri(uri)) = &output.output else {
            return Err(Code::InvalidArgument.with_message("output_uri is required"));
        };
        required(uri.clone(), "output_uri")?;
        if let Some(old) = self.entries.get(&key) {
            let max_age = overwrite.max_age.as_ref().map(|span| SignedDuration::new(span.seconds, span.nanos));
            let expired = max_age.is_some_and(|max| now.duration_since(old.updated) > max);
            if !overwrite.overwrite && !expired {
                return Err(Code::AlreadyExists.with_message(format!("cache entry {key:?} already exists")));
            }
        }
        output.metadata.get_or_insert_with(Metadata::default).last_updated_at = Some(to_message(now));
        self.entries.insert(key, Entry { output, updated: now });
        Ok(())
    }

    /// Extends the caller's own reservation, or takes one that is free or expired. Otherwise the answer names the
    /// current owner.
    fn get_or_extend(
        &mut self,
        key: &str,
        owner: String,
        interval: Option<SignedDuration>,
        now: Timestamp,
    ) -> Reservation {
        let heartbeat_interval = interval
            .filter(SignedDuration::is_positive)
            .map_or(MAX_HEARTBEAT_INTERVAL, |interval| interval.min(MAX_HEARTBEAT_INTERVAL));
        let wanted = Held { owner, heartbeat_interval, expires: now + heartbeat_interval * MISSED_HEARTBEATS };
        let held = match self.reservations.get(key) {
            Some(other) if other.owner != wanted.owner && other.expires > now => other.clone(),
            _ => {
                self.reservations.insert(key.to_owned(), wanted.clone());
                wanted
            }
        };
        Reservation {
            // The real service answers with its own key, prefix included.
            key: format!("reservation:{key}"),
            owner_id: held.owner,
            heartbeat_interval: Some(prost_types::Duration {
                seconds: held.heartbeat_interval.as_secs(),
                nanos: held.heartbeat_interval.subsec_nanos(),
            }),
            expires_at: Some(to_message(held.expires)),
        }
    }
}

fn required(value: String, field: &str) -> Result<String, Refusal> {
    if value.is_empty() { Err(Code::InvalidArgument.with_message(format!("{field} is required"))) } else { Ok(value) }
}

fn to_message(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: time.as_second(), nanos: time.subsec_nanosecond() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_idl::flyteidl2::cacheservice as base;
    use prost::Message;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    fn scope() -> Option<v2::Identifier> {
        Some(v2::Identifier { project: "p".to_owned(), domain: "d".to_owned(), ..v2::Identifier::default() })
    }

    fn put(uri: &str, overwrite: Option<OverwriteOutput>) -> Bytes {
        let output = Some(cached_output::Output::OutputUri(uri.to_owned()));
        let output = Some(CachedOutput { output, ..CachedOutput::default() });
        let request = base::PutCacheRequest { key: "k".to_owned(), output, overwrite };
        encode(&v2::PutCacheRequest { base_request: Some(request), identifier: scope() })
    }

    fn get(cache: &mut Cache) -> Result<CachedOutput, Refusal> {
        let request = base::GetCacheRequest { key: "k".to_owned() };
        let request = encode(&v2::GetCacheRequest { base_request: Some(request), identifier: scope() });
        let answer = cache.call("Get", &request, Timestamp::UNIX_EPOCH)?;
        Ok(GetCacheResponse::decode(answer).unwrap().output.unwrap())
    }

    fn reserve(cache: &mut Cache, owner: &str, seconds: i64) -> String {
        let request = base::GetOrExtendReservationRequest {
            key: "k".to_owned(),
            owner_id: owner.to_owned(),
            heartbeat_interval: Some(prost_types::Duration { seconds: 2, nanos: 0 }),
        };
        let body = encode(&v2::GetOrExtendReservationRequest { base_request: Some(request), identifier: scope() });
        let answer = cache.call("GetOrExtendReservation", &body, at(seconds)).unwrap();
        GetOrExtendReservationResponse::decode(answer).unwrap().reservation.unwrap().owner_id
    }

    #[test]
    fn an_entry_is_returned_and_not_overwritten_by_default() {
        let mut cache = Cache::recording_calls();
        let missing = Code::NotFound.with_message("cache entry \"p-d-k\" not found");
        assert_eq!(get(&mut cache).unwrap_err(), missing);
        cache.call("Put", &put("s3://a", None), at(7)).unwrap();
        assert_eq!(cache.call("Put", &put("s3://b", None), at(8)).unwrap_err().code, Code::AlreadyExists);
        let found = get(&mut cache).unwrap();
        assert_eq!(found.output, Some(cached_output::Output::OutputUri("s3://a".to_owned())));
        assert_eq!(found.metadata.unwrap().last_updated_at.unwrap().seconds, 7);
        assert_eq!(cache.calls(), ["Get p-d-k", "Put p-d-k", "Put p-d-k", "Get p-d-k"]);
    }

    #[test]
    fn an_entry_is_overwritten_on_request_or_when_it_is_too_old() {
        let mut cache = Cache::default();
        let max_age = Some(prost_types::Duration { seconds: 5, nanos: 0 });
        let if_old = || Some(OverwriteOutput { max_age, ..OverwriteOutput::default() });
        cache.call("Put", &put("s3://a", None), at(0)).unwrap();
        assert!(cache.call("Put", &put("s3://b", if_old()), at(5)).is_err());
        cache.call("Put", &put("s3://b", if_old()), at(6)).unwrap();
        let always = Some(OverwriteOutput { overwrite: true, ..OverwriteOutput::default() });
        cache.call("Put", &put("s3://c", always), at(6)).unwrap();
        assert_eq!(get(&mut cache).unwrap().output, Some(cached_output::Output::OutputUri("s3://c".to_owned())));
        assert!(cache.calls().is_empty(), "calls are not recorded by default");
    }

    #[test]
    fn a_reservation_expires_after_three_missed_heartbeats() {
        let mut cache = Cache::default();
        assert_eq!(reserve(&mut cache, "a", 0), "a");
        assert_eq!(reserve(&mut cache, "b", 5), "a");
        assert_eq!(reserve(&mut cache, "a", 5), "a", "extended to 11");
        assert_eq!(reserve(&mut cache, "b", 10), "a");
        assert_eq!(reserve(&mut cache, "b", 11), "b");
    }

    #[test]
    fn only_the_owner_releases_a_reservation() {
        let mut cache = Cache::default();
        reserve(&mut cache, "a", 0);
        for (owner, expected) in [("b", Some("a")), ("a", None)] {
            let request = base::ReleaseReservationRequest { key: "k".to_owned(), owner_id: owner.to_owned() };
            let body = encode(&v2::ReleaseReservationRequest { base_request: Some(request), identifier: scope() });
            cache.call("ReleaseReservation", &body, at(0)).unwrap();
            assert_eq!(cache.owner("p-d-k"), expected);
        }
    }
}
