//! The loops around the decision: get the lock, keep it, give it back.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{ObjectMeta, PostParams};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Decision, LeaseConfig, decide, released};

/// Competes for one lease.
pub struct Elector<A> {
    api: A,
    config: LeaseConfig,
    now: fn() -> Timestamp,
    observed: Option<Observed>,
}

/// The lease as last seen, and since when it looks like that.
struct Observed {
    lease: Lease,
    since: Instant,
}

/// Outcome of one try.
enum Attempt {
    Ours,
    Theirs(String),
}

/// The three calls the elector makes.
#[async_trait]
pub trait LeaseApi: Send + Sync {
    /// The lease, if it exists.
    async fn get(&self, name: &str) -> Result<Option<Lease>, kube::Error>;
    /// Creates the lease.
    async fn create(&self, lease: &Lease) -> Result<Lease, kube::Error>;
    /// Replaces the lease, provided that its resource version is still current.
    async fn replace(&self, name: &str, lease: &Lease) -> Result<Lease, kube::Error>;
}

/// Why this process does not lead (any more).
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Somebody else took the lease.
    #[error("lost the lease {lease} to {holder}; stop now, another replica leads")]
    Taken {
        /// Name of the lease.
        lease: String,
        /// Who has it.
        holder: String,
    },
    /// The lease could not be renewed in time.
    #[error("could not renew the lease {lease} within {deadline:?}; stop before another replica takes over")]
    NotRenewed {
        /// Name of the lease.
        lease: String,
        /// How long it was tried.
        deadline: Duration,
        /// The last failure, if there was an answer at all.
        #[source]
        source: Option<kube::Error>,
    },
}

impl<A: LeaseApi> Elector<A> {
    /// An elector on `api`, which is scoped to the namespace of the lease.
    pub fn new(api: A, config: LeaseConfig) -> Self {
        Self::with_clock(api, config, Timestamp::now)
    }

    /// As [`Self::new`], with a clock of your own for the times in the record.
    pub fn with_clock(api: A, config: LeaseConfig, now: fn() -> Timestamp) -> Self {
        Self { api, config, now, observed: None }
    }

    /// Waits until this process leads. False if `stop` came first.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        loop {
            let limit = self.config.renew_deadline;
            let attempt = tokio::select! {
                () = stop.cancelled() => return false,
                attempt = tokio::time::timeout(limit, self.attempt()) => attempt,
            };
            match attempt {
                Ok(Ok(Attempt::Ours)) => {
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

    /// Keeps the lease until `stop`, then frees it. Call it after [`Self::acquire`].
    ///
    /// # Errors
    /// When the lease is lost: the process must stop working at once.
    pub async fn hold(&mut self, stop: &CancellationToken) -> Result<(), LeaseError> {
        let mut renewed = Instant::now();
        let mut last_error = None;
        loop {
            tokio::select! {
                () = stop.cancelled() => {
                    self.release().await;
                    return Ok(());
                }
                () = tokio::time::sleep(self.config.retry_period) => {}
            }
            let deadline = renewed + self.config.renew_deadline;
            let attempt = tokio::select! {
                () = stop.cancelled() => {
                    self.release().await;
                    return Ok(());
                }
                attempt = tokio::time::timeout_at(deadline, self.attempt()) => attempt,
            };
            match attempt {
                Ok(Ok(Attempt::Ours)) => {
                    renewed = Instant::now();
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

    /// Frees the lease if it is ours; a failure only means that others wait for it to expire.
    async fn release(&mut self) {
        let Some(Observed { lease, .. }) = self.observed.take() else { return };
        let Some(spec) = lease.spec.as_ref() else { return };
        if spec.holder_identity.as_deref() != Some(&self.config.identity) {
            return;
        }
        let free = Lease { spec: Some(released(spec, (self.now)())), metadata: lease.metadata };
        let written = tokio::time::timeout(self.config.retry_period, self.api.replace(&self.config.name, &free)).await;
        match written {
            Ok(Ok(_)) => tracing::info!(lease = self.config.name, "freed the lease"),
            Ok(Err(error)) => tracing::warn!(lease = self.config.name, %error, "could not free the lease"),
            Err(_) => tracing::warn!(lease = self.config.name, "could not free the lease in time"),
        }
    }

    async fn attempt(&mut self) -> Result<Attempt, kube::Error> {
        // While we lead, the record we wrote is almost always the current one: one call instead of two.
        if let Some(observed) = &self.observed
            && let Decision::Renew(spec) = self.decision(Some(observed))
        {
            let metadata = observed.lease.metadata.clone();
            match self.write(metadata, spec).await {
                Ok(()) => return Ok(Attempt::Ours),
                Err(error) => tracing::debug!(%error, "renewing from memory failed, reading the lease"),
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
        // A lease without content is a free one.
        let free = LeaseSpec::default();
        let spec = observed.map(|observed| observed.lease.spec.as_ref().unwrap_or(&free));
        decide(spec, &self.config, (self.now)(), unchanged_for)
    }

    async fn write(&mut self, metadata: ObjectMeta, spec: LeaseSpec) -> Result<(), kube::Error> {
        let lease = Lease { metadata, spec: Some(spec) };
        let written = self.api.replace(&self.config.name, &lease).await?;
        self.observe(written);
        Ok(())
    }

    /// Remembers a lease; only a changed record is a sign of life.
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
