//! Permission to send one create request, and how its result is reported.

use std::sync::Arc;
use std::time::Instant;

use aileron_kubekit::ApiError;

use super::namespace::PermittedCreate;
use super::shared::SharedGate;
use super::waiting_reason::{Waiting, never_fits};
use crate::refusal::Refusal;

/// Permission to send one create request. Report the result with [`created`](Self::created), [`refused`](Self::refused) or
/// [`not_sent`](Self::not_sent). If the permit is dropped without a report, the gate assumes that the object may exist.
#[must_use = "report the result of the create request to the gate"]
pub struct CreatePermit<'a> {
    gate: &'a SharedGate,
    namespace: Arc<str>,
    create: PermittedCreate,
    /// When the action first asked for the permit.
    first_asked: Instant,
    is_reported: bool,
}

/// What a refused create request means for its action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedCreate {
    /// The refusal is temporary: the action waits.
    Wait(Waiting),
    /// The create request exceeds the limit of a quota and can never fit. The text is for users.
    NeverFits(String),
    /// The refusal has nothing to do with quota or overload.
    OtherError,
}

impl<'a> CreatePermit<'a> {
    pub(super) fn new(
        gate: &'a SharedGate,
        namespace: Arc<str>,
        create: PermittedCreate,
        first_asked: Instant,
    ) -> Self {
        Self { gate, namespace, create, first_asked, is_reported: false }
    }

    /// Whether the create request may still be sent. Another one of the same kind may have been refused since.
    #[must_use]
    pub fn is_valid(&self, now: Instant) -> bool {
        self.gate.update(&self.namespace, |admission, _| admission.allows_send(&self.create.request, now))
    }

    /// The API server accepted the create request. `resource_version` is that of the stored object, if known.
    pub fn created(mut self, resource_version: Option<u64>, now: Instant) {
        self.is_reported = true;
        let waited = now.saturating_duration_since(self.first_asked).as_secs_f64();
        metrics::histogram!("aileron_launch_seconds", "kind" => self.create.request.kind.kind.to_string())
            .record(waited);
        self.gate.update(&self.namespace, |admission, to_wake| {
            admission.created(&self.create, resource_version, now);
            *to_wake = admission.wake_fitting(&self.gate.settings, now);
        });
    }

    /// The API server refused the create request. `random` is between 0 and 1 and chooses the jitter of the back-off.
    pub fn refused(mut self, error: &ApiError, now: Instant, random: f64) -> RefusedCreate {
        let refusal = Refusal::of(error);
        let reason = match &refusal {
            Refusal::Quota(_) => "quota",
            Refusal::Overload { .. } => "overload",
            Refusal::Other => "other",
        };
        let kind = self.create.request.kind.kind.to_string();
        metrics::counter!("aileron_creates_refused_total", "kind" => kind, "reason" => reason).increment(1);
        let exceeded = match &refusal {
            Refusal::Other => {
                self.result_unknown(now);
                return RefusedCreate::OtherError;
            }
            Refusal::Overload { .. } => None,
            Refusal::Quota(quotas) => quotas.iter().find(|quota| !quota.above_limit().is_empty()),
        };
        if let Some(quota) = exceeded {
            self.result_unknown(now);
            return RefusedCreate::NeverFits(never_fits(std::slice::from_ref(quota)));
        }
        self.is_reported = true;
        tracing::debug!(error = %error, "the API server refused the create request; the action waits");
        RefusedCreate::Wait(self.gate.update(&self.namespace, |admission, to_wake| {
            let PermittedCreate { position, request, .. } = &self.create;
            admission.refused(&self.create, &refusal, &self.gate.settings, now, random);
            *to_wake = admission.wake_fitting(&self.gate.settings, now);
            let backoff_ends_at = admission.backoff_ends_at(&request.kind, now);
            let reason = admission.report_reason(&position.action, now);
            let recheck_at = backoff_ends_at.unwrap_or_else(|| self.gate.recheck_at(&position.action, now));
            Waiting { reason, recheck_at }
        }))
    }

    /// The create request was not sent, because the permit was [no longer valid](Self::is_valid).
    #[must_use]
    pub fn not_sent(mut self, now: Instant) -> Waiting {
        self.is_reported = true;
        self.gate.update(&self.namespace, |admission, _| {
            let action = &self.create.position.action;
            admission.not_sent(&self.create, now);
            let reason = admission.report_reason(action, now);
            Waiting { reason, recheck_at: self.gate.recheck_at(action, now) }
        })
    }

    fn result_unknown(&mut self, now: Instant) {
        self.is_reported = true;
        self.gate.update(&self.namespace, |admission, to_wake| {
            admission.result_unknown(&self.create, now);
            *to_wake = admission.wake_fitting(&self.gate.settings, now);
        });
    }
}

impl Drop for CreatePermit<'_> {
    fn drop(&mut self) {
        if !self.is_reported {
            self.result_unknown(self.gate.clock.instant());
        }
    }
}
