//! The creates of one kind in one namespace: their pauses, and how many may be tried at once after one.

use aileron_machinery::PendingReason;
use jiff::Timestamp;

use crate::amounts::Amounts;
use crate::backoff::{Backoff, BackoffSettings, Cause};
use crate::quota::message::ExceededQuota;
use crate::refusal::{Overload, Refusal};
use crate::request::Request;

/// After a pause a single create tries how things are, and each that goes through lets twice as many follow. From here
/// on the number no longer matters: the executor has no more writes under way at once.
const ALL: u32 = 32;

/// The state of a line.
#[derive(Debug)]
pub(super) struct KindQueue {
    pub(super) backoff: Backoff,
    /// How many may be tried at once; nothing for any number.
    window: Option<u32>,
    trying: u32,
    told: Option<LastRefusal>,
}

/// What the last refusal said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LastRefusal {
    Quota(Vec<ExceededQuota>),
    Overload(Overload),
}

impl LastRefusal {
    pub(super) fn reason(&self) -> PendingReason {
        match self {
            Self::Quota(_) => PendingReason::Quota,
            Self::Overload(what) => what.reason(),
        }
    }
}

impl KindQueue {
    pub(super) fn new(settings: BackoffSettings) -> Self {
        Self { backoff: Backoff::new(settings), window: None, trying: 0, told: None }
    }

    /// Whether one more may be tried.
    pub(super) fn admits(&self, request: &Request, now: Timestamp) -> bool {
        self.window.is_none_or(|window| self.trying < window) && self.backoff.admits(&request.amounts, now)
    }

    /// A create is about to be tried.
    pub(super) fn begin(&mut self) {
        self.trying = self.trying.saturating_add(1);
    }

    /// The try is over, in whatever way.
    pub(super) fn end(&mut self) {
        self.trying = self.trying.saturating_sub(1);
    }

    /// A create went through.
    pub(super) fn succeeded(&mut self, request: &Request, now: Timestamp) {
        self.backoff.succeeded(&request.amounts, now);
        if self.backoff.is_clear() {
            self.window = self.window.map(|window| window.saturating_mul(2)).filter(|window| *window < ALL);
            if self.window.is_none() {
                self.told = None;
            }
        }
    }

    /// A create was refused for something that passes.
    pub(super) fn refused(&mut self, refusal: &Refusal, now: Timestamp, random: f64) {
        match refusal {
            Refusal::Quota(quotas) => {
                let mut refused = Amounts::new();
                for quota in quotas {
                    refused.extend(quota.requested.clone());
                }
                self.backoff.refused(Cause::Quota, &refused, None, now, random);
                self.told = Some(LastRefusal::Quota(quotas.clone()));
            }
            Refusal::Overload { what, retry_after } => {
                self.backoff.refused(Cause::Overload, &Amounts::new(), *retry_after, now, random);
                self.told = Some(LastRefusal::Overload(what.clone()));
            }
            Refusal::Other => return,
        }
        self.window = Some(1);
    }

    pub(super) fn told(&self) -> Option<&LastRefusal> {
        self.told.as_ref()
    }

    /// It was refused long ago, and nobody tried since.
    pub(super) fn is_stale(&self, now: Timestamp) -> bool {
        self.trying == 0 && self.backoff.is_forgotten(now)
    }

    /// Nothing is left to remember.
    pub(super) fn is_idle(&self) -> bool {
        self.backoff.is_clear() && self.window.is_none() && self.trying == 0
    }
}
