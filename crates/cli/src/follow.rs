//! Follows actions to their end: a table that is redrawn in place on a terminal, one line per change elsewhere.

mod changes;
mod tracked;
mod view;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::bail;
use futures::StreamExt;
use jiff::Timestamp;
use kube::Client;

use crate::action::{Outcome, Summary};
use crate::process::signals::SignalReceiver;

use changes::{Change, Scope};
pub use tracked::ObservedState;
use tracked::{Key, TrackedActions};
pub use view::ProgressTarget;
use view::ProgressView;

/// A live table is redrawn this often, so that its durations advance.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Following ends with an error when the watch has failed for this long. The watch recovers from shorter failures.
const WATCH_FAILURE_TIMEOUT: Duration = Duration::from_secs(15);

/// How to follow actions.
#[derive(Clone, Debug, Default)]
pub struct FollowOptions {
    /// Where progress is shown.
    pub target: ProgressTarget,
    /// Following ends after this time. Without it, following ends when all actions have ended.
    pub timeout: Option<Duration>,
    /// True if a signal ends only the following and not the actions. If false, the caller handles signals.
    pub stop_on_signal: bool,
    /// True if actions that do not exist will be created later. If false, an action that does not exist was deleted.
    pub created_later: bool,
}

/// What became of an action.
#[derive(Clone, Debug)]
pub struct Followed {
    /// The outcome; `None` if the action has not ended.
    pub outcome: Option<Outcome>,
    pub phase: String,
    pub attempts: u32,
    /// The code of the error, or of what the action waits for.
    pub reason: String,
    pub message: String,
    pub duration: Duration,
    /// All states that were observed, in order.
    pub history: Vec<ObservedState>,
}

/// Which actions `get --watch` shows, and how.
pub struct WatchOptions {
    /// One namespace, or all if `None`.
    pub namespace: Option<String>,
    /// Only actions with these labels.
    pub selector: Option<String>,
    /// Only actions with these names; all if empty.
    pub names: Vec<String>,
    /// One JSON object per line instead of a table.
    pub json: bool,
}

/// Follows actions, given by namespace and name, until all have ended, the time is over, or a signal arrives.
///
/// The results are in the order of `actions`. A signal does not abort the actions; an action that has not ended has no
/// outcome in the result.
pub async fn follow(
    client: &Client,
    actions: &[(String, String)],
    options: FollowOptions,
) -> anyhow::Result<Vec<Followed>> {
    let mut tracked = TrackedActions::exactly(actions, options.created_later);
    let mut view = ProgressView::new(options.target);
    let namespaces: BTreeSet<_> = actions.iter().map(|(namespace, _)| namespace.clone()).collect();
    let scopes = namespaces.into_iter().map(|namespace| Scope { namespace: Some(namespace), selector: None });
    let mut changes = changes::watch(client, scopes.collect());
    let deadline = options.timeout.and_then(|limit| Instant::now().checked_add(limit));
    let mut failing_since = None;
    let mut redraw = tokio::time::interval(REDRAW_INTERVAL);
    let mut signals = options.stop_on_signal.then(SignalReceiver::new).transpose()?;
    while !tracked.have_all_ended() {
        tokio::select! {
            change = changes.next() => match change {
                Some(change) => apply(change, &mut tracked, &mut view, &mut failing_since)?,
                None => bail!("the watch of actions has ended"),
            },
            _ = redraw.tick() => view.redraw(&tracked),
            () = stop_signal(&mut signals) => break,
        }
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            break;
        }
    }
    view.redraw(&tracked);
    view.finish();
    Ok(tracked.results())
}

/// Shows actions and their changes until a signal arrives.
pub async fn watch(client: &Client, options: WatchOptions) -> anyhow::Result<()> {
    let WatchOptions { namespace, selector, names, json } = options;
    let mut tracked = TrackedActions::any(names);
    let mut view = if json { ProgressView::json() } else { ProgressView::new(ProgressTarget::Stdout) };
    let mut changes = changes::watch(client, vec![Scope { namespace, selector }]);
    let mut failing_since = None;
    let mut redraw = tokio::time::interval(REDRAW_INTERVAL);
    let mut signals = Some(SignalReceiver::new()?);
    loop {
        tokio::select! {
            change = changes.next() => match change {
                Some(change) => apply(change, &mut tracked, &mut view, &mut failing_since)?,
                None => bail!("the watch of actions has ended"),
            },
            _ = redraw.tick() => view.redraw(&tracked),
            () = stop_signal(&mut signals) => break,
        }
    }
    view.finish();
    Ok(())
}

/// Waits for a stop signal; for ever if there is no receiver.
async fn stop_signal(signals: &mut Option<SignalReceiver>) {
    match signals {
        Some(signals) => _ = signals.receive().await,
        None => std::future::pending().await,
    }
}

fn apply(
    change: Change,
    tracked: &mut TrackedActions,
    view: &mut ProgressView,
    failing_since: &mut Option<Instant>,
) -> anyhow::Result<()> {
    let (now, wall) = (Instant::now(), Timestamp::now());
    let changed: Vec<Key> = match change {
        Change::Updated(action) => tracked.update(Summary::new(&action), now, wall).into_iter().collect(),
        Change::Deleted(key) => tracked.delete(&key, now, wall).into_iter().collect(),
        Change::Listed { namespace, keys } => tracked.delete_unlisted(namespace.as_deref(), &keys, now, wall),
        Change::Failed { error, permanent: true } => return Err(error),
        Change::Failed { error, .. } => {
            if failing_since.get_or_insert(now).elapsed() > WATCH_FAILURE_TIMEOUT {
                return Err(error.context("the cluster does not answer any more"));
            }
            return Ok(());
        }
    };
    *failing_since = None;
    for key in &changed {
        view.show_change(tracked, key);
    }
    Ok(())
}
