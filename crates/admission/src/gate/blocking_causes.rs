//! For how long the same obstacle has been blocking each create request of the waiting queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::create_request::CreateRequest;
use crate::time::after;

/// An obstacle must have lasted this long before waiting actions report it instead of another one. Obstacles that come
/// and go would otherwise cause many writes to the API server.
const REPORT_AFTER: Duration = Duration::from_secs(10);

/// The obstacle of each different create request.
#[derive(Debug, Default)]
pub(super) struct BlockingCauses {
    by_request: BTreeMap<Arc<CreateRequest>, Cause>,
}

#[derive(Debug)]
struct Cause {
    /// The subject of the [waiting reason](super::waiting_reason::WaitingReason).
    subject: String,
    since: Instant,
}

impl BlockingCauses {
    /// Replaces all obstacles with the current ones. An obstacle that was there before keeps its start.
    pub(super) fn update(&mut self, current: impl Iterator<Item = (Arc<CreateRequest>, String)>, now: Instant) {
        let mut before = std::mem::take(&mut self.by_request);
        self.by_request = current
            .map(|(request, subject)| {
                let unchanged = before.remove(&request).filter(|cause| cause.subject == subject);
                (request, unchanged.unwrap_or(Cause { subject, since: now }))
            })
            .collect();
    }

    /// The obstacle of a create request, if it has lasted long enough to be reported.
    pub(super) fn lasting(&self, request: &CreateRequest, now: Instant) -> Option<&str> {
        let cause = self.by_request.get(request)?;
        (after(cause.since, REPORT_AFTER) <= now).then_some(cause.subject.as_str())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_machinery::ResourceKind;
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::time::testing::at_second as at;

    #[test]
    fn an_obstacle_is_reported_once_it_has_lasted_without_a_break() {
        let kind = ResourceKind::of::<Pod>();
        let request = Arc::new(CreateRequest { kind, amounts: Default::default(), pod_traits: None });
        let mut causes = BlockingCauses::default();
        let mut lasting_after = |subject: &str, second: i64| {
            causes.update([(Arc::clone(&request), subject.to_owned())].into_iter(), at(second));
            causes.lasting(&request, at(second)).map(str::to_owned)
        };
        assert_eq!(lasting_after("quota a", 0), None);
        assert_eq!(lasting_after("quota a", 9), None);
        assert_eq!(lasting_after("quota a", 10).as_deref(), Some("quota a"));
        assert_eq!(lasting_after("quota b", 11), None);
        assert_eq!(lasting_after("quota a", 12), None, "it was gone in between");
        assert_eq!(lasting_after("quota a", 22).as_deref(), Some("quota a"));
    }
}
