//! Resource quotas, where they may be followed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aileron_admission::gate::Gate;
use aileron_admission::quota::Quota;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::{Api, ListParams};
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;

use super::{PAGE, Sink, Synced, follow};

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "resourcequotas";

/// What a server, or somebody in front of it, answers where the permission is missing. Not all of them give the reason.
const FORBIDDEN: u16 = 403;

/// How long to wait when the server does not answer.
const TRY_AGAIN: Duration = Duration::from_secs(2);
/// How long to wait when the permission is missing: whoever gives it does not expect it to work at once.
const ASK_AGAIN: Duration = Duration::from_secs(300);
/// So many refusals in a row mean that the permission was taken away. A server that has just started may refuse once or
/// twice what it allows a moment later, and the watch waits longer after each.
const REFUSALS: u32 = 3;

/// Follows all quotas for the gate. Without the permission the gate does without, and readiness does not wait. It also
/// does without when the permission goes: what was seen last would keep tasks waiting for ever.
pub async fn run(client: kube::Client, gate: Arc<Gate>, synced: Synced, cancel: CancellationToken) {
    let api: Api<ResourceQuota> = Api::all(client);
    let mut told = false;
    loop {
        let pause = match api.list_metadata(&ListParams::default().limit(1)).await {
            Ok(_) => {
                let config = watcher::Config::default().page_size(PAGE);
                let sink = Quotas { gate: Arc::clone(&gate), listed: BTreeSet::new(), refusals: 0 };
                follow(NAME, watcher(api.clone(), config), sink, synced.clone(), cancel.clone()).await;
                if cancel.is_cancelled() {
                    return;
                }
                // They could be seen until now, so this is news.
                told = false;
                do_without(&gate, &synced, &mut told);
                ASK_AGAIN
            }
            Err(error) if is_forbidden(&error) => {
                do_without(&gate, &synced, &mut told);
                ASK_AGAIN
            }
            Err(error) => {
                tracing::debug!(%error, "quotas cannot be listed now");
                TRY_AGAIN
            }
        };
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

struct Quotas {
    gate: Arc<Gate>,
    listed: BTreeSet<(String, String)>,
    /// In a row.
    refusals: u32,
}

impl Sink<ResourceQuota> for Quotas {
    fn seen(&mut self, quota: ResourceQuota, listed: bool) {
        self.refusals = 0;
        let (namespace, name) = place(&quota);
        self.gate.quota_changed(&namespace, &Quota::of(&quota), Timestamp::now());
        if listed {
            self.listed.insert((namespace, name));
        }
    }

    fn restarted(&mut self) {
        self.listed.clear();
    }

    fn listed(&mut self) {
        self.refusals = 0;
        self.gate.quotas_listed(&std::mem::take(&mut self.listed), Timestamp::now());
    }

    fn gone(&mut self, quota: ResourceQuota) {
        self.refusals = 0;
        let (namespace, name) = place(&quota);
        self.gate.quota_deleted(&namespace, &name, Timestamp::now());
    }

    fn goes_on(&mut self, error: &watcher::Error) -> bool {
        let refused = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => is_forbidden(error),
            watcher::Error::WatchError(status) => status.code == FORBIDDEN,
            _ => false,
        };
        self.refusals = if refused { self.refusals + 1 } else { 0 };
        self.refusals < REFUSALS
    }
}

/// Quotas cannot be seen, which is told once.
fn do_without(gate: &Gate, synced: &Synced, told: &mut bool) {
    if !std::mem::replace(told, true) {
        tracing::warn!(
            "resource quotas cannot be listed and watched, so creates are tried and may be refused; allow get, list \
             and watch of resourcequotas to have tasks wait without trying"
        );
    }
    gate.quotas_not_visible(Timestamp::now());
    synced.mark(NAME);
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == FORBIDDEN)
}

fn place(quota: &ResourceQuota) -> (String, String) {
    (quota.metadata.namespace.clone().unwrap_or_default(), quota.metadata.name.clone().unwrap_or_default())
}
