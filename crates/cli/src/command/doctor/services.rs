//! The events service and the cache service: one call each that changes nothing.

use std::time::Duration;

use aileron_executor::services::connect::{Code, ConnectClient, ConnectError, ConnectOptions};
use aileron_executor::services::events::{EventTransport, EventsClient};
use aileron_idl::flyteidl2::cacheservice::{self as v1, v2};

use super::finding::Finding;

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceName {
    Events,
    Cache,
}

/// The cache key that is looked up. No task has it, because keys are hashes.
const UNUSED_KEY: &str = "aileron-doctor";

impl ServiceName {
    pub fn check(self) -> &'static str {
        match self {
            Self::Events => "events service",
            Self::Cache => "cache service",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Events => "executor.EventsServiceURL",
            Self::Cache => "executor.cacheServiceURL",
        }
    }

    fn without(self) -> &'static str {
        match self {
            Self::Events => "no status of an action is written without it",
            Self::Cache => "tasks that use the cache wait for it",
        }
    }
}

/// Calls a service. An error of the setup has the code of a wrong argument, which no transport has.
pub async fn look(service: ServiceName, url: &str, timeout: Duration) -> Result<(), ConnectError> {
    let options = ConnectOptions { timeout, connect_timeout: timeout, ..ConnectOptions::default() };
    let client =
        ConnectClient::new(url, options).map_err(|error| ConnectError::new(Code::Unavailable, error.to_string()))?;
    match service {
        // No event: nothing is recorded.
        ServiceName::Events => EventsClient::new(client).record(Vec::new()).await,
        ServiceName::Cache => {
            let request = v2::GetCacheRequest {
                base_request: Some(v1::GetCacheRequest { key: UNUSED_KEY.to_owned() }),
                identifier: Some(v2::Identifier {
                    org: String::new(),
                    project: UNUSED_KEY.to_owned(),
                    domain: UNUSED_KEY.to_owned(),
                }),
            };
            let procedure = "flyteidl2.cacheservice.v2.CacheService/Get";
            client.call_within::<_, v1::GetCacheResponse>(procedure, &request, timeout).await.map(drop)
        }
    }
}

/// What is wrong with a service.
pub fn judge(service: ServiceName, url: &str, answer: &Result<(), ConnectError>) -> Finding {
    let (check, key) = (service.check(), service.key());
    let Err(error) = answer else { return Finding::ok(check, format!("{url} answers")) };
    match error.code {
        // The service read the call and refused its content: there is no such key, and there are no events.
        Code::NotFound | Code::InvalidArgument => Finding::ok(check, format!("{url} answers")),
        Code::Unimplemented | Code::Internal => Finding::failed(
            check,
            format!("{url} answers, but not as this service: {}", error.message),
            format!("set {key} to the address of Flyte's {check}; {}", service.without()),
        ),
        Code::Unauthenticated | Code::PermissionDenied => Finding::failed(
            check,
            format!("{url} refuses the call: {}", error.message),
            format!("the executor sends no credentials: {key} must be an address inside the cluster that needs none"),
        ),
        Code::Unavailable | Code::DeadlineExceeded => Finding::failed(
            check,
            format!("{url} cannot be reached: {}", error.message),
            format!("check {key}, and that the service runs; {}", service.without()),
        ),
        _ => Finding::warning(
            check,
            format!("{url} answers with an error: {error}"),
            format!("look into the log of the service at {key}; {}", service.without()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Outcome;
    use super::*;

    #[test]
    fn only_answers_of_the_service_itself_are_ok() {
        let judged = |code: Option<Code>| {
            let answer = code.map_or(Ok(()), |code| Err(ConnectError::new(code, "text")));
            judge(ServiceName::Events, "http://events:8090", &answer)
        };
        for code in [None, Some(Code::NotFound), Some(Code::InvalidArgument)] {
            assert_eq!(judged(code).outcome, Outcome::Ok, "{code:?}");
        }
        for code in [Code::Unimplemented, Code::Unavailable, Code::DeadlineExceeded, Code::Unauthenticated] {
            let finding = judged(Some(code));
            assert_eq!(finding.outcome, Outcome::Failed, "{code:?}");
            assert!(finding.found.contains("http://events:8090"), "{finding:?}");
            assert!(finding.remedy.is_some_and(|remedy| remedy.contains("executor.EventsServiceURL")), "{code:?}");
        }
        assert_eq!(judged(Some(Code::Unknown)).outcome, Outcome::Warning);
    }
}
