//! The task cache of a sandbox: outputs by key, and who is computing them.

use std::collections::HashMap;

use aileron_idl::flyteidl2::cacheservice::{
    CachedOutput, GetCacheResponse, GetOrExtendReservationResponse, Metadata, PutCacheResponse,
    ReleaseReservationResponse, Reservation, v2,
};
use axum::body::Bytes;
use jiff::{SignedDuration, Timestamp};

use super::{Refusal, decode, encode};

/// How long a reservation lasts without a sign of life: three signs, ten seconds apart, as the real service has it.
const LASTS: SignedDuration = SignedDuration::from_secs(30);
/// How often its owner should give one.
const HEARTBEAT: i64 = 10;

/// Entries and reservations, by project, domain and key.
#[derive(Debug, Default)]
pub struct Cache {
    entries: HashMap<String, CachedOutput>,
    owners: HashMap<String, (String, Timestamp)>,
}

impl Cache {
    /// Answers a call of the service.
    pub fn call(&mut self, method: &str, body: &Bytes, now: Timestamp) -> Result<Bytes, Refusal> {
        match method {
            "Get" => {
                let v2::GetCacheRequest { base_request, identifier } = decode(body)?;
                let key = scoped(&base_request.unwrap_or_default().key, identifier);
                let output = self.entries.get(&key).cloned();
                let output = output.ok_or_else(|| Refusal::NotFound(format!("no entry {key:?}")))?;
                Ok(encode(&GetCacheResponse { output: Some(output) }))
            }
            "Put" => {
                let v2::PutCacheRequest { base_request, identifier } = decode(body)?;
                let request = base_request.unwrap_or_default();
                let key = scoped(&request.key, identifier);
                if self.entries.contains_key(&key) && !request.overwrite.unwrap_or_default().overwrite {
                    return Err(Refusal::AlreadyExists(format!("entry {key:?} exists")));
                }
                let mut output = request.output.unwrap_or_default();
                let metadata = output.metadata.get_or_insert_with(Metadata::default);
                metadata.last_updated_at = Some(time(now));
                self.entries.insert(key, output);
                Ok(encode(&PutCacheResponse {}))
            }
            "GetOrExtendReservation" => {
                let v2::GetOrExtendReservationRequest { base_request, identifier } = decode(body)?;
                let request = base_request.unwrap_or_default();
                let key = scoped(&request.key, identifier);
                let (owner_id, until) = match self.owners.get(&key) {
                    Some((owner, until)) if *owner != request.owner_id && *until > now => (owner.clone(), *until),
                    _ => (request.owner_id, now + LASTS),
                };
                self.owners.insert(key.clone(), (owner_id.clone(), until));
                let reservation = Reservation {
                    key,
                    owner_id,
                    heartbeat_interval: Some(prost_types::Duration { seconds: HEARTBEAT, nanos: 0 }),
                    expires_at: Some(time(until)),
                };
                Ok(encode(&GetOrExtendReservationResponse { reservation: Some(reservation) }))
            }
            "ReleaseReservation" => {
                let v2::ReleaseReservationRequest { base_request, identifier } = decode(body)?;
                let request = base_request.unwrap_or_default();
                let key = scoped(&request.key, identifier);
                // Releasing what one does not hold is no error: callers clean up without looking first.
                self.owners.retain(|held, (owner, _)| *held != key || *owner != request.owner_id);
                Ok(encode(&ReleaseReservationResponse {}))
            }
            _ => Err(Refusal::Unimplemented(method.to_owned())),
        }
    }
}

fn scoped(key: &str, scope: Option<v2::Identifier>) -> String {
    let scope = scope.unwrap_or_default();
    format!("{}/{}/{key}", scope.project, scope.domain)
}

fn time(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_idl::flyteidl2::cacheservice::{
        GetCacheRequest, GetOrExtendReservationRequest, PutCacheRequest, cached_output,
    };
    use prost::Message;

    use super::*;

    #[test]
    fn what_was_put_is_found_and_not_put_twice() {
        let mut cache = Cache::default();
        let now = Timestamp::UNIX_EPOCH;
        let get =
            encode(&v2::GetCacheRequest { base_request: Some(GetCacheRequest { key: "k".into() }), identifier: None });
        assert!(matches!(cache.call("Get", &get, now), Err(Refusal::NotFound(_))));
        let output = Some(cached_output::Output::OutputUri("file:///o".into()));
        let output = Some(CachedOutput { output, metadata: None });
        let put = PutCacheRequest { key: "k".into(), output, ..Default::default() };
        let put = encode(&v2::PutCacheRequest { base_request: Some(put), identifier: None });
        cache.call("Put", &put, now).unwrap();
        assert!(matches!(cache.call("Put", &put, now), Err(Refusal::AlreadyExists(_))));
        let found = GetCacheResponse::decode(cache.call("Get", &get, now).unwrap()).unwrap().output.unwrap();
        assert_eq!(found.output, Some(cached_output::Output::OutputUri("file:///o".into())));
    }

    #[test]
    fn a_reservation_has_one_owner_until_it_lapses() {
        let mut cache = Cache::default();
        let mut reserve = |owner: &str, second: i64| {
            let request =
                GetOrExtendReservationRequest { key: "k".into(), owner_id: owner.into(), ..Default::default() };
            let request = v2::GetOrExtendReservationRequest { base_request: Some(request), identifier: None };
            let now = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
            let answer = cache.call("GetOrExtendReservation", &encode(&request), now).unwrap();
            GetOrExtendReservationResponse::decode(answer).unwrap().reservation.unwrap().owner_id
        };
        assert_eq!(reserve("a", 0), "a");
        assert_eq!(reserve("b", 29), "a");
        assert_eq!(reserve("b", 31), "b");
    }
}
