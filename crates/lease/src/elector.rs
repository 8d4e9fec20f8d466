//! Takes the lease, renews it, and releases it.

use std::sync::Arc;
use std::time::Duration;

use aileron_machinery::time::clock::Clock;
use aileron_machinery::time::repeats::Repeats;
use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{ObjectMeta, PostParams};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fence::Fence;
use crate::record::{Decision, LeaseConfig, beside_go, decide, released};
use crate::request_error::{RequestError, request_error_text};

/// That no Go executor takes part in the election is reported once in so many tries: once a minute.
const TRIES_PER_REPORT: u64 = 30;

/// The same error is logged at most this often. The lease is tried every two seconds.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// Competes for one lease.
pub struct Elector<A> {
    api: A,
    config: LeaseConfig,
    /// Tells the times that are written into the lease. Pauses and deadlines are measured in monotonic time.
    clock: Arc<dyn Clock>,
    /// Opened by each renewal.
    fence: Fence,
    /// When the request of the last renewal was sent.
    last_renewal: Option<Instant>,
    observed: Option<Observed>,
    /// Whether another program has changed the lease since this process looked at it for the first time.
    others_renew: bool,
    /// The leader from whom this process takes the lease.
    former: Option<FormerLeader>,
    /// The leader that the log names.
    reported: Option<String>,
    /// How often in a row no Go executor took part in the election.
    absences: u64,
    /// The errors that were logged lately.
    logged: Repeats,
}

/// A Go executor that may go on working after the lease was taken from it.
struct FormerLeader {
    identity: String,
    stops_within: Duration,
    /// When it has stopped. It is not known before the lease is seen to be taken: the answer to the write may be lost.
    stopped_at: Option<Instant>,
}

/// The lease as it was last read or written, and since when its content is the same.
struct Observed {
    lease: Lease,
    since: Instant,
}

/// The result of one try to take or renew the lease.
enum Attempt {
    Ours,
    Theirs(String),
    Absent,
}

/// Whether this process leads while it tries to take or renew the lease.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Standby,
    Leader,
}

/// The requests that the elector sends.
#[async_trait]
pub trait LeaseApi: Send + Sync {
    /// The lease, if it exists.
    async fn get(&self, name: &str) -> Result<Option<Lease>, kube::Error>;
    /// Creates the lease.
    async fn create(&self, lease: &Lease) -> Result<Lease, kube::Error>;
    /// Replaces the lease, provided that its resource version is still current.
    async fn replace(&self, name: &str, lease: &Lease) -> Result<Lease, kube::Error>;
}

/// Why this process no longer leads.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Another replica took the lease.
    #[error("lost the lease {lease} to {holder}; stop now, another replica leads")]
    Taken {
        /// Name of the lease.
        lease: String,
        /// The identity of that replica.
        holder: String,
    },
    /// The lease could not be renewed in time.
    #[error("could not renew the lease {lease} within {deadline:?}; stop before another replica takes over")]
    NotRenewed {
        /// Name of the lease.
        lease: String,
        /// How long renewing was tried.
        deadline: Duration,
        /// The last error, if the API server answered at all.
        #[source]
        source: Option<RequestError>,
    },
}

impl<A: LeaseApi> Elector<A> {
    /// An elector on `api`, which is scoped to the namespace of the lease. The fence is open while this process leads.
    pub fn new(api: A, config: LeaseConfig, clock: Arc<dyn Clock>, fence: Fence) -> Self {
        Self {
            api,
            config,
            clock,
            fence,
            last_renewal: None,
            observed: None,
            others_renew: false,
            former: None,
            reported: None,
            absences: 0,
            logged: Repeats::every(LOG_INTERVAL),
        }
    }

    /// Waits until this process leads. Returns false if `stop` was cancelled first.
    ///
    /// A lease that was just taken from a Go executor is not released then, because another replica would lead at once. It
    /// expires.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        loop {
            let (limit, sent) = (self.config.renew_deadline, Instant::now());
            let attempt = tokio::select! {
                () = stop.cancelled() => return false,
                attempt = tokio::time::timeout(limit, self.attempt(Role::Standby)) => attempt,
            };
            let mut pause = self.config.retry_period;
            match attempt {
                Ok(Ok(Attempt::Ours)) => match self.until_former_leader_stops() {
                    Some(remaining) => pause = pause.min(remaining),
                    None => {
                        self.renewed(sent);
                        tracing::info!(lease = self.config.name, identity = self.config.identity, "became leader");
                        return true;
                    }
                },
                Ok(Ok(Attempt::Theirs(holder))) => self.report_holder(holder),
                Ok(Ok(Attempt::Absent)) => self.report_absence(),
                Ok(Err(error)) => self.warn(&request_error_text(&error), "failed to read or write the lease"),
                Err(_) => self.warn(&format!("no answer within {limit:?}"), "failed to read or write the lease"),
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// How long the leader from whom the lease was taken may still work.
    fn until_former_leader_stops(&mut self) -> Option<Duration> {
        let FormerLeader { identity, stops_within, stopped_at } = self.former.as_mut()?;
        let now = Instant::now();
        let stopped_at = *stopped_at.get_or_insert_with(|| {
            tracing::info!(
                lease = self.config.name,
                from = identity.as_str(),
                ?stops_within,
                "took the lease; work starts when the former leader has stopped"
            );
            now + *stops_within
        });
        let remaining = stopped_at.saturating_duration_since(now);
        if remaining.is_zero() {
            self.former = None;
        }
        (!remaining.is_zero()).then_some(remaining)
    }

    fn report_holder(&mut self, holder: String) {
        if self.reported.as_ref() != Some(&holder) {
            tracing::info!(lease = self.config.name, holder, "another replica leads; waiting for the lease");
            self.reported = Some(holder);
        }
    }

    fn report_absence(&mut self) {
        if self.absences.is_multiple_of(TRIES_PER_REPORT) {
            tracing::warn!(
                lease = self.config.name,
                "no Go executor renews the lease, so one may be working without leader election; waiting. If there is a \
                 Go executor, set executor.leaderElect: true for it, and let its service account get, create and update \
                 leases in this namespace. If there is none, set executor.leaderElectTakeOver: false here"
            );
        }
        self.absences += 1;
    }

    /// Renews the lease until `stop` is cancelled, then releases it. Call it after [`Self::acquire`].
    ///
    /// # Errors
    /// When the lease is lost: the process must stop its work at once. The fence is closed then.
    pub async fn hold(&mut self, stop: &CancellationToken) -> Result<(), LeaseError> {
        let held = self.renew_until(stop).await;
        self.fence.close();
        if held.is_ok() {
            self.release().await;
        }
        held
    }

    async fn renew_until(&mut self, stop: &CancellationToken) -> Result<(), LeaseError> {
        let mut renewed = self.last_renewal.unwrap_or_else(Instant::now);
        let mut last_error = None;
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(self.config.retry_period) => {}
            }
            let (deadline, sent) = (renewed + self.config.renew_deadline, Instant::now());
            let attempt = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                attempt = tokio::time::timeout_at(deadline, self.attempt(Role::Leader)) => attempt,
            };
            match attempt {
                Ok(Ok(Attempt::Ours)) => {
                    self.renewed(sent);
                    renewed = sent;
                    last_error = None;
                    continue;
                }
                Ok(Ok(Attempt::Theirs(holder))) => {
                    return Err(LeaseError::Taken { lease: self.config.name.clone(), holder });
                }
                Ok(Err(error)) => {
                    self.warn(&request_error_text(&error), "failed to renew the lease");
                    last_error = Some(RequestError(error));
                }
                // A leader creates a lease that does not exist.
                Ok(Ok(Attempt::Absent)) | Err(_) => {}
            }
            if Instant::now() + self.config.retry_period >= deadline {
                return Err(LeaseError::NotRenewed {
                    lease: self.config.name.clone(),
                    deadline: self.config.renew_deadline,
                    source: last_error,
                });
            }
        }
    }

    /// Opens the fence. The time counts from the request, because other replicas may have seen it that early.
    fn renewed(&mut self, sent: Instant) {
        self.last_renewal = Some(sent);
        self.fence.open_until(sent + self.config.renew_deadline);
    }

    /// Releases the lease if this process holds it. After an error other replicas wait until the lease expires.
    async fn release(&mut self) {
        let Some(Observed { lease, .. }) = self.observed.take() else { return };
        let Some(spec) = lease.spec.as_ref() else { return };
        if spec.holder_identity.as_deref() != Some(&self.config.identity) {
            return;
        }
        let free = Lease { spec: Some(released(spec, &self.config, self.clock.now())), metadata: lease.metadata };
        let written = tokio::time::timeout(self.config.retry_period, self.api.replace(&self.config.name, &free)).await;
        match written {
            Ok(Ok(_)) => tracing::info!(lease = self.config.name, "released the lease"),
            Ok(Err(error)) => self.warn(&request_error_text(&error), "failed to release the lease"),
            Err(_) => tracing::warn!(lease = self.config.name, "failed to release the lease in time"),
        }
    }

    /// Logs an error, unless the same one was logged lately.
    fn warn(&mut self, error: &str, message: &str) {
        if let Some(repeated) = self.logged.seen(error, self.clock.instant()) {
            tracing::warn!(lease = self.config.name, error, repeated, "{message}");
        }
    }

    async fn attempt(&mut self, role: Role) -> Result<Attempt, kube::Error> {
        // While this process leads, the lease that it wrote is almost always the current one: one request instead of two.
        if let Some(observed) = &self.observed
            && let Decision::Renew(spec) = self.decision(Some(observed))
        {
            let metadata = observed.lease.metadata.clone();
            match self.write(metadata, spec).await {
                Ok(()) => return Ok(Attempt::Ours),
                Err(error) => {
                    let error = request_error_text(&error);
                    tracing::debug!(error, "failed to renew the lease as last seen; reading it first");
                }
            }
        }
        match self.api.get(&self.config.name).await? {
            Some(lease) => self.observe(lease),
            None => self.observed = None,
        }
        let metadata = match &self.observed {
            Some(observed) => observed.lease.metadata.clone(),
            None => ObjectMeta { name: Some(self.config.name.clone()), ..ObjectMeta::default() },
        };
        let mut decision = self.decision(self.observed.as_ref());
        if self.config.take_over && role == Role::Standby {
            let spec = self.observed.as_ref().and_then(|observed| observed.lease.spec.as_ref());
            decision = beside_go(decision, spec, self.others_renew, &self.config, self.clock.now());
        }
        if decision != Decision::WaitForGo {
            self.absences = 0;
        }
        match decision {
            Decision::Wait { holder } => {
                self.former = None;
                Ok(Attempt::Theirs(holder))
            }
            Decision::WaitForGo => Ok(Attempt::Absent),
            Decision::TakeOver { record, from, stops_within } => {
                self.former = Some(FormerLeader { identity: from, stops_within, stopped_at: None });
                self.write(metadata, record).await.map(|()| Attempt::Ours)
            }
            Decision::Create(spec) => {
                let lease = self.api.create(&Lease { metadata, spec: Some(spec) }).await?;
                self.observe(lease);
                Ok(Attempt::Ours)
            }
            Decision::Take(spec) | Decision::Renew(spec) => self.write(metadata, spec).await.map(|()| Attempt::Ours),
        }
    }

    fn decision(&self, observed: Option<&Observed>) -> Decision {
        let unchanged_for = observed.map_or(Duration::ZERO, |observed| observed.since.elapsed());
        // Any replica may take a lease without a spec.
        let free = LeaseSpec::default();
        let spec = observed.map(|observed| observed.lease.spec.as_ref().unwrap_or(&free));
        decide(spec, &self.config, self.clock.now(), unchanged_for)
    }

    async fn write(&mut self, metadata: ObjectMeta, spec: LeaseSpec) -> Result<(), kube::Error> {
        let lease = Lease { metadata, spec: Some(spec) };
        let written = self.api.replace(&self.config.name, &lease).await?;
        self.observe(written);
        Ok(())
    }

    /// Stores a lease that was read or written. Only a changed spec shows that its holder is alive.
    fn observe(&mut self, lease: Lease) {
        let since = match &self.observed {
            Some(observed) if observed.lease.spec == lease.spec => observed.since,
            before => {
                let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
                self.others_renew |= before.is_some() && holder.is_some_and(|holder| holder != self.config.identity);
                Instant::now()
            }
        };
        self.observed = Some(Observed { lease, since });
    }
}

#[async_trait]
impl LeaseApi for kube::Api<Lease> {
    async fn get(&self, name: &str) -> Result<Option<Lease>, kube::Error> {
        self.get_opt(name).await
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, kube::Error> {
        Self::create(self, &PostParams::default(), lease).await
    }

    async fn replace(&self, name: &str, lease: &Lease) -> Result<Lease, kube::Error> {
        Self::replace(self, name, &PostParams::default(), lease).await
    }
}
