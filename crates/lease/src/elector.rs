//! Takes the lease, renews it, and releases it.

use std::sync::Arc;
use std::time::Duration;

use aileron_machinery::time::clock::Clock;
use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{ObjectMeta, PostParams};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fence::Fence;
use crate::record::{Decision, LeaseConfig, decide, released};

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
        source: Option<kube::Error>,
    },
}

impl<A: LeaseApi> Elector<A> {
    /// An elector on `api`, which is scoped to the namespace of the lease. The fence is open while this process leads.
    pub fn new(api: A, config: LeaseConfig, clock: Arc<dyn Clock>, fence: Fence) -> Self {
        Self { api, config, clock, fence, last_renewal: None, observed: None }
    }

    /// Waits until this process leads. Returns false if `stop` was cancelled first.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        loop {
            let (limit, sent) = (self.config.renew_deadline, Instant::now());
            let attempt = tokio::select! {
                () = stop.cancelled() => return false,
                attempt = tokio::time::timeout(limit, self.attempt()) => attempt,
            };
            match attempt {
                Ok(Ok(Attempt::Ours)) => {
                    self.renewed(sent);
                    tracing::info!(lease = self.config.name, identity = self.config.identity, "became leader");
                    return true;
                }
                Ok(Ok(Attempt::Theirs(holder))) => {
                    tracing::debug!(lease = self.config.name, holder, "another replica leads");
                }
                Ok(Err(error)) => {
                    tracing::warn!(lease = self.config.name, %error, "failed to read or write the lease");
                }
                Err(_) => tracing::warn!(lease = self.config.name, ?limit, "the API server did not answer"),
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = tokio::time::sleep(self.config.retry_period) => {}
            }
        }
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
                attempt = tokio::time::timeout_at(deadline, self.attempt()) => attempt,
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
                    tracing::warn!(lease = self.config.name, %error, "failed to renew the lease");
                    last_error = Some(error);
                }
                Err(_) => {}
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
        let free = Lease { spec: Some(released(spec, self.clock.now())), metadata: lease.metadata };
        let written = tokio::time::timeout(self.config.retry_period, self.api.replace(&self.config.name, &free)).await;
        match written {
            Ok(Ok(_)) => tracing::info!(lease = self.config.name, "released the lease"),
            Ok(Err(error)) => tracing::warn!(lease = self.config.name, %error, "failed to release the lease"),
            Err(_) => tracing::warn!(lease = self.config.name, "failed to release the lease in time"),
        }
    }

    async fn attempt(&mut self) -> Result<Attempt, kube::Error> {
        // While this process leads, the lease that it wrote is almost always the current one: one request instead of two.
        if let Some(observed) = &self.observed
            && let Decision::Renew(spec) = self.decision(Some(observed))
        {
            let metadata = observed.lease.metadata.clone();
            match self.write(metadata, spec).await {
                Ok(()) => return Ok(Attempt::Ours),
                Err(error) => tracing::debug!(%error, "failed to renew the lease as last seen; reading it first"),
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
        match self.decision(self.observed.as_ref()) {
            Decision::Wait { holder } => Ok(Attempt::Theirs(holder)),
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
            _ => Instant::now(),
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
