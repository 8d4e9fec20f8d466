//! The work of the leading replica, and the wait for leadership.

use std::sync::Arc;
use std::time::Duration;

use aileron_admission::pools::Pools;
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use tokio_util::sync::CancellationToken;

use super::RunError;
use super::lease::{Elector, LeaseConfig};
use crate::cleanup;
use crate::cleanup::objects::ObjectCleanup;
use crate::controller::Controller;
use crate::watch::WatchContext;
use crate::watch::tokens;

/// The work of the leading replica.
pub(super) struct Work {
    pub(super) watch: WatchContext,
    pub(super) controller: Arc<Controller>,
    pub(super) object_cleanup: ObjectCleanup,
    pub(super) pools: Arc<Pools>,
    /// How often ended actions are deleted, and how long they are kept; `None` if they are kept forever.
    pub(super) action_cleanup: Option<(Duration, SignedDuration)>,
}

/// The lease that replicas compete for.
pub(super) struct Election {
    pub(super) namespace: String,
    pub(super) identity: String,
}

impl Work {
    /// Runs until stopped. Rounds begin when all caches are complete.
    async fn run(self, stop: CancellationToken) {
        let Self { watch, controller, object_cleanup, pools, action_cleanup } = self;
        tokio::select! {
            () = stop.cancelled() => return,
            () = watch.synced.all() => {}
        }
        tracing::info!("caches are complete; starting the controller");
        let action_cleanup = async {
            if let Some((interval, max_ttl)) = action_cleanup {
                cleanup::actions::run(watch.client.clone(), Arc::clone(&watch.clock), interval, max_ttl, stop.clone())
                    .await;
            }
        };
        tokio::join!(
            controller.run(stop.clone()),
            object_cleanup.run(stop.clone()),
            tokens::return_tokens(watch.clone(), pools, stop.clone()),
            action_cleanup,
        );
    }
}

/// Runs the work until cancelled. With leader election it waits for the lease first.
pub(super) async fn lead(work: Work, election: Option<Election>, cancel: &CancellationToken) -> Result<(), RunError> {
    let Some(Election { namespace, identity }) = election else {
        work.run(cancel.child_token()).await;
        return Ok(());
    };
    let leases: Api<Lease> = Api::namespaced(work.watch.client.clone(), &namespace);
    let mut elector = Elector::new(leases, LeaseConfig::new(identity), Arc::clone(&work.watch.clock));
    if !elector.acquire(cancel).await {
        return Ok(());
    }
    // The lease is released only after the work has ended; otherwise two replicas would run rounds for a moment. If the
    // lease is lost, the process ends with an error, and the next leader runs the rounds again.
    let release = CancellationToken::new();
    let mut holding = std::pin::pin!(elector.hold(&release));
    tokio::select! {
        held = &mut holding => return Ok(held?),
        () = work.run(cancel.child_token()) => {}
    }
    release.cancel();
    Ok(holding.await?)
}
