//! Makes sure that a new leader sees what the former leader wrote.
//!
//! A standby may take the lease while its watch of actions shows an old state: the process was paused, or its connection
//! stalled. Its rounds would then start work again that is done. So before the first round the resource versions in the
//! store are compared with a list that the API server answers from its present state. Usually they are the same, and the
//! list of metadata is all that it costs.

use std::time::Duration;

use aileron_action::TaskAction;
use aileron_lease::request_error_text;
use aileron_machinery::time::repeats::Repeats;
use kube::api::Api;
use tokio::sync::watch;

use super::missed::{behind, is_still_behind, list};
use super::{WatchContext, actions};

/// How long the watch may take to deliver what it has not shown yet. A watch that works needs milliseconds.
const CATCH_UP: Duration = Duration::from_secs(2);
/// How often the store is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Pause after a list that failed. The lease is held meanwhile, so another try soon is worth more than the request.
const RETRY_EVERY: Duration = Duration::from_millis(500);
/// The same error is logged at most this often.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// Requests for new lists of the actions, by number. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Relists {
    requested: std::sync::Arc<watch::Sender<u64>>,
    completed: std::sync::Arc<watch::Sender<u64>>,
}

impl Relists {
    /// The number of the last request. A list that begins now answers it.
    pub(super) fn last(&self) -> u64 {
        *self.requested.borrow()
    }

    /// Returns when a list with a higher number is requested.
    pub(super) async fn requested_after(&self, number: u64) {
        // `self` owns the sender, so waiting cannot fail.
        let _ = self.requested.subscribe().wait_for(|requested| *requested > number).await;
    }

    /// The list that answers this request is complete.
    pub(super) fn complete(&self, number: u64) {
        self.completed.send_modify(|completed| *completed = number.max(*completed));
    }

    /// Requests a new list, and waits until it is complete.
    async fn relist(&self) {
        let mut number = 0;
        self.requested.send_modify(|requested| {
            *requested += 1;
            number = *requested;
        });
        let _ = self.completed.subscribe().wait_for(|completed| *completed >= number).await;
    }
}

/// Waits until the store shows all actions as they are now, or newer.
pub async fn until_current(cx: &WatchContext) {
    let api: Api<TaskAction> = Api::all(cx.client.clone());
    let selector = actions::selector();
    let mut logged = Repeats::every(LOG_INTERVAL);
    let listed = loop {
        match list(&api, &selector).await {
            Ok(listed) => break listed,
            Err(error) => {
                let error = request_error_text(&error);
                if let Some(repeated) = logged.seen(&error, cx.clock.instant()) {
                    tracing::warn!(error, repeated, "failed to compare actions before the first round; retrying");
                }
            }
        }
        tokio::time::sleep(RETRY_EVERY).await;
    };
    let suspects = behind(&listed, &cx.caches.actions.versions());
    let caught_up = async {
        loop {
            let shown = cx.caches.actions.versions();
            if !suspects.iter().any(|(place, version)| is_still_behind(place, *version, &listed, &shown)) {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    if tokio::time::timeout(CATCH_UP, caught_up).await.is_err() {
        tracing::warn!("the watch of actions is behind; listing all actions again before the first round");
        cx.relists.relist().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_that_began_before_the_request_does_not_answer_it() {
        let relists = Relists::default();
        let before = relists.last();
        let requester = tokio::spawn({
            let relists = relists.clone();
            async move { relists.relist().await }
        });
        relists.requested_after(before).await;
        relists.complete(before);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!requester.is_finished());
        relists.complete(relists.last());
        requester.await.expect("it does not panic");
    }
}
