//! Leave to create one object, and what came of it.

use std::sync::Arc;

use aileron_kubekit::ApiError;
use aileron_machinery::jitter::random;
use jiff::Timestamp;

use super::Gate;
use super::namespace::Ticket;
use super::waiting_reason::Why;
use crate::quota::message::ExceededQuota;
use crate::refusal::Refusal;

/// Leave to create. Whoever has one says what came of it; one that is dropped counts as a create that may have happened.
#[must_use = "the gate waits to hear what came of it"]
pub struct CreatePermit<'a> {
    pub(super) gate: &'a Gate,
    pub(super) namespace: Arc<str>,
    pub(super) ticket: Ticket,
    /// When the task first asked.
    pub(super) since: Timestamp,
    pub(super) settled: bool,
}

/// What a refused create means for its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It waits.
    Wait(Waiting),
    /// It asks for more than there will ever be.
    Never(String),
    /// Quota and load have nothing to do with it.
    Otherwise,
}

/// A task that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Why, in words that are kept as long as they are about right.
    pub why: Why,
    /// When to look again although nobody was called.
    pub look_at: Timestamp,
}

impl CreatePermit<'_> {
    /// The create may still be sent: nothing of its kind was refused since.
    #[must_use]
    pub fn holds(&self, now: Timestamp) -> bool {
        self.gate.with(&self.namespace, |space, _| space.still_admits(&self.ticket.request, now))
    }

    /// The object is there; the version is that of the object as it was stored.
    pub fn created(mut self, version: Option<u64>, now: Timestamp) {
        self.settled = true;
        let waited = now.duration_since(self.since).as_secs_f64().max(0.0);
        metrics::histogram!("aileron_launch_seconds", "kind" => self.ticket.request.kind.kind.to_string())
            .record(waited);
        self.gate.with(&self.namespace, |space, called| {
            space.created(&self.ticket, version, now);
            *called = space.call(&self.gate.settings, now);
        });
    }

    /// The create was refused.
    pub fn refused(mut self, error: &ApiError, now: Timestamp) -> Refused {
        let refusal = Refusal::of(error);
        let reason = match &refusal {
            Refusal::Quota(_) => "quota",
            Refusal::Overload { .. } => "overload",
            Refusal::Other => "other",
        };
        let kind = self.ticket.request.kind.kind.to_string();
        metrics::counter!("aileron_creates_refused_total", "kind" => kind, "reason" => reason).increment(1);
        let impossible = match &refusal {
            // Dropped, which settles it.
            Refusal::Other => return Refused::Otherwise,
            Refusal::Overload { .. } => None,
            Refusal::Quota(quotas) => quotas.iter().find(|quota| !quota.impossible().is_empty()),
        };
        if let Some(quota) = impossible {
            return Refused::Never(never(std::slice::from_ref(quota)));
        }
        self.settled = true;
        tracing::debug!(error = %error, "the create was refused; the task waits");
        Refused::Wait(self.gate.with(&self.namespace, |space, called| {
            space.refused(&self.ticket, &refusal, &self.gate.settings, now, random());
            *called = space.call(&self.gate.settings, now);
            let look_at = space.pause_ends(&self.ticket.request.kind, now);
            let why = space.tell(&self.ticket.rank.name, now);
            Waiting { why, look_at: look_at.unwrap_or_else(|| self.gate.look_at(&self.ticket.rank.name, now)) }
        }))
    }

    /// The create was not sent, because [it no longer holds](Self::holds).
    #[must_use]
    pub fn held_back(mut self, now: Timestamp) -> Waiting {
        self.settled = true;
        self.gate.with(&self.namespace, |space, _| {
            space.held_back(&self.ticket, now);
            Waiting {
                why: space.tell(&self.ticket.rank.name, now),
                look_at: self.gate.look_at(&self.ticket.rank.name, now),
            }
        })
    }
}

impl Drop for CreatePermit<'_> {
    fn drop(&mut self) {
        if !self.settled {
            let now = Timestamp::now();
            self.gate.with(&self.namespace, |space, called| {
                space.abandoned(&self.ticket, now);
                *called = space.call(&self.gate.settings, now);
            });
        }
    }
}

/// The sentence for a task that can never run here.
pub(super) fn never(quotas: &[ExceededQuota]) -> String {
    let told = quotas.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    format!("the task asks for more than it could ever get here, even with nothing else running: {told}")
}
