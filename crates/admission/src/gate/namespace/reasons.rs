//! Why the actions of a namespace wait.

use std::sync::Arc;
use std::time::Instant;

use super::NamespaceAdmission;
use crate::create_request::CreateRequest;
use crate::gate::kind_throttle::KindThrottle;
use crate::gate::waiting_reason::{LastReportedReason, WaitingReason};

impl NamespaceAdmission {
    /// The reason that a waiting action reports.
    pub(in crate::gate) fn report_reason(&mut self, action: &str, now: Instant) -> WaitingReason {
        let current = self.creates.get(action).map(|create| self.current_reason(&create.request, now));
        match (current, self.creates.get_mut(action)) {
            (Some(current), Some(create)) => LastReportedReason::next(&mut create.reported, current, now),
            _ => WaitingReason::default(),
        }
    }

    /// Waiting actions whose reported reason no longer applies, at most `limit`.
    pub(in crate::gate) fn outdated_reasons(&mut self, limit: usize, now: Instant) -> Vec<Arc<str>> {
        let groups = self.creates.queue().groups();
        let subjects: Vec<_> = groups
            .map(|(request, _)| (Arc::clone(request), self.current_reason(request, now).into_subject()))
            .collect();
        self.causes.update(subjects.into_iter(), now);
        let mut outdated = Vec::new();
        for (request, positions) in self.creates.queue().groups() {
            let Some(subject) = self.causes.lasting(request, now) else { continue };
            let reports_other = |action: &str| {
                let reported = self.creates.get(action).and_then(|create| create.reported.as_ref());
                reported.is_some_and(|reported| !reported.is_about(subject))
            };
            let others = positions.iter().map(|position| &position.action).filter(|action| reports_other(action));
            outdated.extend(others.take(limit - outdated.len()).cloned());
        }
        outdated
    }

    /// The current reason of each group of waiting actions, with the size of the group.
    pub(in crate::gate) fn waiting_by_reason(&self, now: Instant) -> impl Iterator<Item = (WaitingReason, usize)> {
        let groups = self.creates.queue().groups();
        groups.map(move |(request, positions)| (self.current_reason(request, now), positions.len()))
    }

    fn current_reason(&self, request: &CreateRequest, now: Instant) -> WaitingReason {
        let blocking = self.throttles.get(&request.kind).filter(|throttle| !throttle.allows_start(request, now));
        if let Some(last_refusal) = blocking.and_then(KindThrottle::last_refusal) {
            return WaitingReason::refused(last_refusal, request);
        }
        let used = self.quotas.compare(request);
        if used.insufficient.is_empty() {
            WaitingReason::behind_older(&used.sufficient)
        } else {
            WaitingReason::insufficient(&used.insufficient)
        }
    }
}
