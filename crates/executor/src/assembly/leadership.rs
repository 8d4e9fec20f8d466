//! The work of the leading replica, and the wait for leadership.

use std::sync::Arc;
use std::time::Duration;

use aileron_admission::pools::Pools;
use aileron_lease::{Elector, Fence, LeaseConfig};
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use tokio_util::sync::CancellationToken;

use super::RunError;
use crate::cleanup;
use crate::cleanup::objects::ObjectCleanup;
use crate::controller::Controller;
use crate::services::events::EventBatcher;
use crate::watch::tokens;
use crate::watch::{WatchContext, until_current};

/// How long everything that only a leader does may take to stop: a little longer than the controller's own timeouts.
/// Kubernetes gives a pod 30 s in all.
const STOP_TIMEOUT: Duration = Duration::from_secs(18);

/// How long the last events may take; Kubernetes gives a pod 30 s in all.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(8);

/// The work of the leading replica.
pub(super) struct Work {
    pub(super) watch: WatchContext,
    pub(super) controller: Arc<Controller>,
    pub(super) events: Arc<EventBatcher>,
    pub(super) object_cleanup: ObjectCleanup,
    pub(super) pools: Arc<Pools>,
    /// How often ended actions are deleted, and how long they are kept; `None` if they are kept forever.
    pub(super) action_cleanup: Option<(Duration, SignedDuration)>,
}

/// The lease that replicas compete for.
pub(super) struct Election {
    /// A client whose writes do not pass the fence: taking the lease opens it.
    pub(super) client: kube::Client,
    pub(super) namespace: String,
    pub(super) identity: String,
    /// Takes the lease from a Go executor.
    pub(super) take_over: bool,
    pub(super) fence: Fence,
}

impl Work {
    /// Runs until stopped. Rounds begin when all caches are complete and show what a former leader wrote. When it returns,
    /// nothing of it is under way.
    async fn run(self, stop: CancellationToken) {
        let Self { watch, controller, events, object_cleanup, pools, action_cleanup } = self;
        let caches_are_current = async {
            watch.synced.all().await;
            until_current(&watch).await;
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = caches_are_current => {}
        }
        tracing::info!("caches are complete; starting the controller");
        let action_cleanup = async {
            if let Some((interval, max_ttl)) = action_cleanup {
                cleanup::actions::run(watch.client.clone(), Arc::clone(&watch.clock), interval, max_ttl, stop.clone())
                    .await;
            }
        };
        let all = async {
            tokio::join!(
                controller.run(stop.clone()),
                object_cleanup.run(stop.clone()),
                tokens::return_tokens(watch.clone(), pools, stop.clone()),
                action_cleanup,
            );
        };
        let too_late = async {
            stop.cancelled().await;
            tokio::time::sleep(STOP_TIMEOUT).await;
        };
        tokio::select! {
            biased;
            () = all => {}
            () = too_late => tracing::warn!("some requests did not end in time; the next process sends them again"),
        }
        if !events.shutdown(EVENTS_TIMEOUT).await {
            tracing::warn!(
                "some events were not recorded before the process stopped; the next process records them again"
            );
        }
    }
}

/// Runs the work until cancelled. With leader election it waits for the lease first.
pub(super) async fn lead(work: Work, election: Option<Election>, cancel: &CancellationToken) -> Result<(), RunError> {
    let Some(Election { client, namespace, identity, take_over, fence }) = election else {
        work.run(cancel.child_token()).await;
        return Ok(());
    };
    let leases: Api<Lease> = Api::namespaced(client, &namespace);
    let config = LeaseConfig::new(identity).with_take_over(take_over);
    let mut elector = Elector::new(leases, config, Arc::clone(&work.watch.clock), fence);
    if !elector.acquire(cancel).await {
        return Ok(());
    }
    // The lease is released only after the work has ended; otherwise two replicas would run rounds for a moment. If the
    // lease is lost, the work is dropped behind a closed fence, and the process ends with an error.
    let release = CancellationToken::new();
    let mut holding = std::pin::pin!(elector.hold(&release));
    tokio::select! {
        biased;
        held = &mut holding => return Ok(held?),
        () = work.run(cancel.child_token()) => {}
    }
    release.cancel();
    Ok(holding.await?)
}
