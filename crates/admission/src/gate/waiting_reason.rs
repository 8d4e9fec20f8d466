//! What a waiting task says, and how often it may change its words.

use std::fmt::Write as _;
use std::time::Duration;

use aileron_machinery::PendingReason;
use jiff::Timestamp;

use super::kind_queue::LastRefusal;
use crate::backoff::later;
use crate::quota::message::ExceededQuota;
use crate::refusal::Overload;
use crate::request::Request;

/// Every change of the text is an event in the records and a write to the API server, and usage changes all the time;
/// numbers this old are good enough for people.
const RENEW: Duration = Duration::from_secs(600);

/// Why a task waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The code.
    pub reason: PendingReason,
    /// The sentence.
    pub text: String,
    /// What is the same as long as only numbers change.
    subject: String,
}

/// What a task said last.
#[derive(Clone, Debug)]
pub(super) struct LastReportedReason {
    why: Why,
    at: Timestamp,
}

impl Default for Why {
    fn default() -> Self {
        Self::new(PendingReason::BackOff, "waiting for its turn".to_owned(), String::new())
    }
}

impl Why {
    fn new(reason: PendingReason, text: String, subject: String) -> Self {
        Self { reason, text, subject }
    }

    /// What it is about, whatever the numbers.
    pub(super) fn into_subject(self) -> String {
        self.subject
    }

    /// Quotas have not enough left.
    pub(super) fn quota(quotas: &[ExceededQuota]) -> Self {
        Self::new(PendingReason::Quota, format!("waiting for {}", joined(quotas)), subject("short", quotas))
    }

    /// There would be enough, but older tasks come first.
    pub(super) fn turn(quotas: &[ExceededQuota]) -> Self {
        if quotas.is_empty() {
            return Self::default();
        }
        let text = format!("waiting behind older tasks for {}", joined(quotas));
        Self::new(PendingReason::Quota, text, subject("behind", quotas))
    }

    /// A create of the same kind was refused a moment ago.
    pub(super) fn refused(told: &LastRefusal, request: &Request) -> Self {
        match told {
            LastRefusal::Overload(what) => {
                let text = match what {
                    Overload::Server(what) => format!("waiting for the API server: {what}"),
                    Overload::Webhook(what) => format!("waiting for an admission webhook: {what}"),
                };
                Self::new(told.reason(), text.clone(), text)
            }
            LastRefusal::Quota(quotas) => {
                let mut own = quotas.clone();
                // The numbers of the refusal are those of whoever was refused.
                for (name, amount) in own.iter_mut().flat_map(|quota| quota.requested.iter_mut()) {
                    if let Some(asked) = request.amounts.get(name) {
                        *amount = asked.clone();
                    }
                }
                Self::quota(&own)
            }
        }
    }
}

impl LastReportedReason {
    /// These words are about that.
    pub(super) fn is_about(&self, subject: &str) -> bool {
        self.why.subject == subject
    }

    /// The words to use now: those said before, unless they are about something else or old.
    pub(super) fn renew(said: &mut Option<Self>, why: Why, now: Timestamp) -> Why {
        match said {
            Some(said) if said.why.subject == why.subject && now < later(said.at, RENEW) => said.why.clone(),
            _ => {
                *said = Some(Self { why: why.clone(), at: now });
                why
            }
        }
    }
}

fn joined(quotas: &[ExceededQuota]) -> String {
    quotas.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn subject(kind: &str, quotas: &[ExceededQuota]) -> String {
    let mut text = kind.to_owned();
    for quota in quotas {
        // Writing to a text cannot fail.
        let _ = write!(text, "|{}:{:?}", quota.name, quota.resources());
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::quota::message::exceeded_quotas;

    fn why(name: &str, used: u32) -> Why {
        let message = format!("exceeded quota: {name}, requested: pods=1, used: pods={used}, limited: pods=20");
        Why::quota(&exceeded_quotas(&message))
    }

    #[test]
    fn numbers_alone_are_news_only_from_time_to_time() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let mut said = None;
        let first = LastReportedReason::renew(&mut said, why("q", 20), at(0));
        assert_eq!(first.text, "waiting for quota q: requested pods=1, used pods=20, limited pods=20");
        assert_eq!(LastReportedReason::renew(&mut said, why("q", 19), at(599)), first);
        assert_eq!(LastReportedReason::renew(&mut said, why("other", 19), at(599)), why("other", 19));
        assert_eq!(LastReportedReason::renew(&mut said, why("other", 18), at(600)), why("other", 19));
        assert_eq!(LastReportedReason::renew(&mut said, why("other", 18), at(1199)), why("other", 18));
    }
}
