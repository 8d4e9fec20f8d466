//! Why an action waits: the text that users see, and how often it may change.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use aileron_machinery::PendingReason;

use super::kind_throttle::LastRefusal;
use crate::create_request::CreateRequest;
use crate::quota::message::ExceededQuota;
use crate::refusal::Overload;
use crate::time::after;

/// A reported text in which only numbers would change is kept for this long. Each change is an event in the records and a
/// write to the API server, usage changes all the time, and numbers of this age are good enough for users.
const KEEP_NUMBERS_FOR: Duration = Duration::from_secs(600);

/// Why an action waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingReason {
    /// The machine-readable reason.
    pub code: PendingReason,
    /// The sentence for users.
    pub text: String,
    /// Identifies the obstacle. It stays the same as long as only numbers in the text change.
    subject: String,
}

/// An action that waits at the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Why it waits.
    pub reason: WaitingReason,
    /// When the action should ask again, even if the gate has not woken it.
    pub recheck_at: Instant,
}

/// The reason that an action reported last.
#[derive(Clone, Debug)]
pub(super) struct LastReportedReason {
    reason: WaitingReason,
    reported_at: Instant,
}

impl Default for WaitingReason {
    /// The action waits only because other actions are before it.
    fn default() -> Self {
        Self::new(PendingReason::BackOff, "waiting for its turn".to_owned(), String::new())
    }
}

impl WaitingReason {
    fn new(code: PendingReason, text: String, subject: String) -> Self {
        Self { code, text, subject }
    }

    pub(super) fn into_subject(self) -> String {
        self.subject
    }

    /// These quotas do not have enough left.
    pub(super) fn insufficient(quotas: &[ExceededQuota]) -> Self {
        Self::new(PendingReason::Quota, format!("waiting for {}", joined(quotas)), subject("short", quotas))
    }

    /// These quotas have enough left, but older actions come first.
    pub(super) fn behind_older(quotas: &[ExceededQuota]) -> Self {
        if quotas.is_empty() {
            return Self::default();
        }
        let text = format!("waiting behind older tasks for {}", joined(quotas));
        Self::new(PendingReason::Quota, text, subject("behind", quotas))
    }

    /// A create request of the same kind was refused a moment ago.
    pub(super) fn refused(last_refusal: &LastRefusal, request: &CreateRequest) -> Self {
        match last_refusal {
            LastRefusal::Overload(what) => {
                let text = match what {
                    Overload::Server(what) => format!("waiting for the API server: {what}"),
                    Overload::Webhook(what) => format!("waiting for an admission webhook: {what}"),
                };
                Self::new(last_refusal.pending_reason(), text.clone(), text)
            }
            LastRefusal::Quota(quotas) => {
                let mut quotas = quotas.clone();
                // The refusal names the requested amounts of another action.
                for (name, amount) in quotas.iter_mut().flat_map(|quota| quota.requested.iter_mut()) {
                    if let Some(own) = request.amounts.get(name) {
                        *amount = own.clone();
                    }
                }
                Self::insufficient(&quotas)
            }
        }
    }
}

impl LastReportedReason {
    pub(super) fn is_about(&self, subject: &str) -> bool {
        self.reason.subject == subject
    }

    /// The reason to report now: the one in `last`, unless the obstacle is another one or the text is old. `last` becomes
    /// the result.
    pub(super) fn next(last: &mut Option<Self>, current: WaitingReason, now: Instant) -> WaitingReason {
        match last {
            Some(last) if last.is_about(&current.subject) && now < after(last.reported_at, KEEP_NUMBERS_FOR) => {
                last.reason.clone()
            }
            _ => {
                *last = Some(Self { reason: current.clone(), reported_at: now });
                current
            }
        }
    }
}

/// The sentence for an action whose create request can never fit these quotas.
pub(super) fn never_fits(quotas: &[ExceededQuota]) -> String {
    let quotas = joined(quotas);
    format!("the task requests more than the quota allows, even with nothing else running: {quotas}")
}

fn joined(quotas: &[ExceededQuota]) -> String {
    quotas.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn subject(obstacle: &str, quotas: &[ExceededQuota]) -> String {
    let mut text = obstacle.to_owned();
    for quota in quotas {
        // Writing to a String cannot fail.
        let _ = write!(text, "|{}:{:?}", quota.name, quota.resources());
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::quota::message::exceeded_quotas;
    use crate::time::testing::at_second as at;

    fn reason(quota: &str, used: u32) -> WaitingReason {
        let message = format!("exceeded quota: {quota}, requested: pods=1, used: pods={used}, limited: pods=20");
        WaitingReason::insufficient(&exceeded_quotas(&message))
    }

    #[test]
    fn a_change_of_numbers_alone_is_reported_only_after_ten_minutes() {
        let mut last = None;
        let first = LastReportedReason::next(&mut last, reason("q", 20), at(0));
        assert_eq!(first.text, "waiting for quota q: requested pods=1, used pods=20, limited pods=20");
        assert_eq!(LastReportedReason::next(&mut last, reason("q", 19), at(599)), first);
        assert_eq!(LastReportedReason::next(&mut last, reason("other", 19), at(599)), reason("other", 19));
        assert_eq!(LastReportedReason::next(&mut last, reason("other", 18), at(600)), reason("other", 19));
        assert_eq!(LastReportedReason::next(&mut last, reason("other", 18), at(1199)), reason("other", 18));
    }
}
