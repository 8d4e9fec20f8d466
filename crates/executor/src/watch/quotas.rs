//! Resource quotas, where they may be followed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::{Api, ListParams};
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;

use super::{PAGE, Sink, Synced, follow};
use crate::gate::Gate;
use crate::gate::quota::Quota;

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "resourcequotas";

/// How long to wait when the server does not answer.
const TRY_AGAIN: Duration = Duration::from_secs(2);
/// How long to wait when the permission is missing: whoever gives it does not expect it to work at once.
const ASK_AGAIN: Duration = Duration::from_secs(300);

/// Follows all quotas for the gate. Without the permission the gate does without, and readiness does not wait.
pub async fn run(client: kube::Client, gate: Arc<Gate>, synced: Synced, cancel: CancellationToken) {
    let api: Api<ResourceQuota> = Api::all(client);
    let mut told = false;
    loop {
        let pause = match api.list_metadata(&ListParams::default().limit(1)).await {
            Ok(_) => {
                let config = watcher::Config::default().page_size(PAGE);
                let sink = Quotas { gate, listed: BTreeSet::new() };
                follow(NAME, watcher(api, config), sink, synced, cancel).await;
                return;
            }
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                if !told {
                    tracing::warn!(
                        "resource quotas cannot be listed, so creates are tried and may be refused; allow get, list and \
                         watch of resourcequotas to have tasks wait without trying"
                    );
                    told = true;
                }
                gate.quotas_listed(None, Timestamp::now());
                synced.mark(NAME);
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
}

impl Sink<ResourceQuota> for Quotas {
    fn seen(&mut self, quota: ResourceQuota, listed: bool) {
        let (namespace, name) = place(&quota);
        self.gate.quota_seen(&namespace, &Quota::of(&quota), Timestamp::now());
        if listed {
            self.listed.insert((namespace, name));
        }
    }

    fn restarted(&mut self) {
        self.listed.clear();
    }

    fn listed(&mut self) {
        self.gate.quotas_listed(Some(&std::mem::take(&mut self.listed)), Timestamp::now());
    }

    fn gone(&mut self, quota: ResourceQuota) {
        let (namespace, name) = place(&quota);
        self.gate.quota_gone(&namespace, &name, Timestamp::now());
    }
}

fn place(quota: &ResourceQuota) -> (String, String) {
    (quota.metadata.namespace.clone().unwrap_or_default(), quota.metadata.name.clone().unwrap_or_default())
}
