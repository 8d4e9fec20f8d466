//! The watch over resource quotas, if the executor has the permission.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aileron_admission::gate::Gate;
use aileron_admission::quota::Quota;
use aileron_lease::request_error_text;
use aileron_machinery::time::clock::Clock;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::{Api, ListParams, ObjectMeta};
use kube::runtime::watcher;

use super::{PAGE, Sink, WatchContext};
use crate::caches::place;
use crate::cluster::listed::{Listed, Malformed, list_metadata};

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "resourcequotas";

/// HTTP status when the permission is missing. The code is compared instead of the reason, because proxies in front of the
/// API server send no reason.
const FORBIDDEN: u16 = 403;

/// Time between two requests to an API server that does not answer.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Time between two checks whether a missing permission was granted. Permissions change rarely, so a request every five
/// minutes is enough.
const PERMISSION_CHECK_INTERVAL: Duration = Duration::from_secs(300);
/// After so many refusals in a row the permission counts as revoked. An API server that has just started may refuse once
/// or twice what it allows a moment later.
const REFUSALS_UNTIL_REVOKED: u32 = 3;

/// Follows all quotas for the launch gate. Without the permission the gate works without quotas, and readiness does not
/// wait for them. The same happens when the permission is revoked: outdated quotas would keep tasks waiting forever.
pub async fn run(cx: WatchContext, gate: Arc<Gate>) {
    let api: Api<Listed<ResourceQuota>> = Api::all(cx.client.clone());
    let mut warned = false;
    loop {
        let pause = match list_metadata(&api, &ListParams::default().limit(1)).await {
            Ok(_) => {
                let config = watcher::Config::default().page_size(PAGE);
                let clock = Arc::clone(&cx.clock);
                let sink = Quotas { gate: Arc::clone(&gate), clock, listed: BTreeSet::new(), refusals: 0 };
                cx.follow(NAME, api.clone(), config, sink).await;
                if cx.cancel.is_cancelled() {
                    return;
                }
                // Quotas were visible until now, so the user is warned again.
                warned = false;
                continue_without(&cx, &gate, &mut warned);
                PERMISSION_CHECK_INTERVAL
            }
            Err(error) if is_forbidden(&error) => {
                continue_without(&cx, &gate, &mut warned);
                PERMISSION_CHECK_INTERVAL
            }
            Err(error) => {
                tracing::debug!(error = request_error_text(&error), "quotas cannot be listed now");
                RETRY_INTERVAL
            }
        };
        tokio::select! {
            () = cx.cancel.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

struct Quotas {
    gate: Arc<Gate>,
    clock: Arc<dyn Clock>,
    listed: BTreeSet<(String, String)>,
    /// Refusals in a row.
    refusals: u32,
}

impl Sink<ResourceQuota> for Quotas {
    fn seen(&mut self, quota: ResourceQuota, listed: bool) {
        self.refusals = 0;
        let (namespace, name) = place(&quota.metadata);
        self.gate.quota_changed(&namespace, &Quota::of(&quota), self.clock.instant());
        if listed {
            self.listed.insert((namespace, name));
        }
    }

    /// The gate goes on without this quota: creates are tried, and wait if the API server refuses them.
    fn malformed(&mut self, quota: Malformed, _listed: bool) {
        self.gone(&quota.metadata, None);
    }

    fn restarted(&mut self) {
        self.listed.clear();
    }

    fn listed(&mut self) {
        self.refusals = 0;
        self.gate.quotas_listed(&std::mem::take(&mut self.listed), self.clock.instant());
    }

    fn gone(&mut self, metadata: &ObjectMeta, _quota: Option<ResourceQuota>) {
        self.refusals = 0;
        let (namespace, name) = place(metadata);
        self.gate.quota_deleted(&namespace, &name, self.clock.instant());
    }

    fn continues_after(&mut self, error: &watcher::Error) -> bool {
        let refused = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => is_forbidden(error),
            watcher::Error::WatchError(status) => status.code == FORBIDDEN,
            _ => false,
        };
        self.refusals = if refused { self.refusals + 1 } else { 0 };
        self.refusals < REFUSALS_UNTIL_REVOKED
    }
}

/// Switches local admission off because quotas cannot be read. The user is warned once.
fn continue_without(cx: &WatchContext, gate: &Gate, warned: &mut bool) {
    if !std::mem::replace(warned, true) {
        tracing::warn!(
            "resource quotas cannot be listed and watched, so creates are tried and may be refused; allow get, list \
             and watch of resourcequotas to have tasks wait without trying"
        );
    }
    gate.quotas_not_visible(cx.clock.instant());
    cx.synced.mark(NAME);
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == FORBIDDEN)
}
