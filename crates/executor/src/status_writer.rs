//! The one place that records, holds and writes the status of actions.
//!
//! Recording has an order: first the event, durably, and then the status. The control plane takes the phase of a run
//! from the status, but outputs and errors from events. A status that came first would show an end without its result.
//!
//! A terminal status, a new attempt and a counted failure are written at once. Any other status is intermediate: it is
//! held for a short time ([`hold`]), because a newer status often replaces it, and then one request is saved. The
//! [`StatusStore`] keeps what is held. The controller asks with [`StatusWriter::flush_if_due`] after each round.
//!
//! What to do is decided by pure functions: [`change`] says what is worth a write and an event, [`hold`] how long a
//! status may be held and when it is sent.

pub mod change;
mod delayed_event;
pub mod hold;
mod merge_patch;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use aileron_action::events::{abort_event, action_event};
use aileron_action::shorten::shortened;
use aileron_action::{Action, TaskActionStatus, labels};
use aileron_kubekit::ApiError;
use aileron_machinery::ActionKey;
use aileron_machinery::PhaseInfo;
use aileron_machinery::error_text::innermost;
use aileron_machinery::time::clock::Clock;
use kube::api::ObjectMeta;
use serde_json::Value;

use self::change::{
    Recording, When, is_certainly_not_written, is_refused_for_good, is_refused_for_size, plan_recording, status_changed,
};
use self::hold::{Flush, decide_flush};
use self::merge_patch::merge_patch;
use crate::caches::held_status::{StatusStore, Written, with_fields_of_control_plane};
use crate::caches::version;
use crate::cluster::{Actions, WriteSlot};
use crate::services::events::{EventError, EventSink};

/// The longest refusal of a status in a log record, in bytes. The API server quotes the text that is too long.
const LOGGED_REFUSAL: usize = 300;

/// How often a reported end is written again after its action's metadata has changed: a deletion, and the finalizers of other
/// controllers that go with it.
const WRITES_OVER_NEW_METADATA: usize = 3;

/// A status could not be recorded. The round is done again later.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The API server refused a write to the action.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The event could not be recorded, so the status was not written.
    #[error("{}", innermost(.0))]
    Event(#[from] EventError),
}

/// Records statuses.
pub struct StatusWriter {
    actions: Arc<dyn Actions>,
    events: Arc<dyn EventSink>,
    clock: Arc<dyn Clock>,
    /// `executor.cluster`: named in events.
    cluster: String,
    store: Option<Arc<dyn StatusStore>>,
}

impl StatusWriter {
    /// A writer that holds nothing: every status is written at once.
    pub fn new(
        actions: Arc<dyn Actions>,
        events: Arc<dyn EventSink>,
        clock: Arc<dyn Clock>,
        cluster: impl Into<String>,
    ) -> Self {
        Self { actions, events, clock, cluster: cluster.into(), store: None }
    }

    /// The same writer, which keeps intermediate statuses in this store until they are due.
    #[must_use]
    pub fn holding_in(self, store: Arc<dyn StatusStore>) -> Self {
        Self { store: Some(store), ..self }
    }

    /// Records a phase: the event if there is news, then the status; nothing if nothing changed. An action that has
    /// ended needs its labels after this ([`Self::label_if_ended`]).
    pub async fn record_phase(
        &self,
        action: &Action,
        status: &TaskActionStatus,
        phase: &PhaseInfo,
    ) -> Result<(), RecordError> {
        match plan_recording(&action.status(), status) {
            Recording::Nothing => {}
            Recording::Status(when) => self.put(action, status, when, None).await?,
            Recording::EventThenStatus(when) => {
                let shown = self.report(action, &[(status, phase)]).await?;
                self.put(action, status, when, shown).await?;
            }
        }
        Ok(())
    }

    /// Records the end of one attempt and the beginning of the next: both events in one call, then the status at once.
    pub async fn record_next_attempt(
        &self,
        action: &Action,
        failed: (&TaskActionStatus, &PhaseInfo),
        next: (&TaskActionStatus, &PhaseInfo),
    ) -> Result<(), RecordError> {
        let shown = self.report(action, &[failed, next]).await?;
        Ok(self.write_over(action, next.0, shown).await?)
    }

    /// Records a status that no event belongs to, at once. An action that has ended also gets its labels.
    pub async fn record_without_event(&self, action: &Action, status: &TaskActionStatus) -> Result<(), RecordError> {
        if status_changed(&action.status(), status) {
            self.write_now(action, status).await?;
        }
        Ok(self.label_if_ended(action, status).await?)
    }

    /// Records that an action was aborted.
    pub async fn report_abort(&self, action: &Action) -> Result<(), RecordError> {
        let event = abort_event(action, &self.cluster, self.clock.now());
        match self.events.record(event).await {
            Err(error) => go_on_if_refused(error),
            Ok(()) => Ok(()),
        }
    }

    /// Writes a status at once, and nothing else.
    pub async fn write_now(&self, action: &Action, status: &TaskActionStatus) -> Result<(), ApiError> {
        self.write_over(action, status, None).await
    }

    /// Writes a status at once, over what this round has written since it began; `None` if it has written nothing.
    async fn write_over(
        &self,
        action: &Action,
        status: &TaskActionStatus,
        shown: Option<Written>,
    ) -> Result<(), ApiError> {
        let key = ActionKey::of(&action.object.metadata);
        let slot = self.actions.write_slot().await?;
        // The version that the round saw or wrote, not the latest one: what came since may contradict its decision.
        let seen = || Written::new(self.written_status(&key, action), version(&action.object.metadata));
        self.send(&key, &shown.unwrap_or_else(seen), status, &slot).await.map(drop)
    }

    /// The status that the API server has, as far as is known.
    fn written_status(&self, key: &ActionKey, action: &Action) -> TaskActionStatus {
        let written = self.store.as_ref().and_then(|store| store.written_status(key));
        written.unwrap_or_else(|| action.status())
    }

    /// Writes the status of an action whose end was reported, also over metadata that changed since the round began. Without
    /// this status, the next round would report an abort after the end if the change was a deletion.
    async fn write_end(
        &self,
        action: &Action,
        status: &TaskActionStatus,
        shown: Option<Written>,
    ) -> Result<(), ApiError> {
        let key = ActionKey::of(&action.object.metadata);
        let known = shown.as_ref().map_or_else(|| self.written_status(&key, action), |written| written.status.clone());
        let mut answer = self.write_over(action, status, shown).await;
        for _ in 0..WRITES_OVER_NEW_METADATA {
            if !answer.as_ref().is_err_and(ApiError::is_conflict) {
                break;
            }
            let Some(current) = self.actions.refresh(&key).await? else { break };
            let written = Written::new(current.status.unwrap_or_default(), version(&current.metadata));
            if current.metadata.uid != action.object.metadata.uid || status_changed(&known, &written.status) {
                break;
            }
            let slot = self.actions.write_slot().await?;
            answer = self.send(&key, &written, status, &slot).await.map(drop);
        }
        answer
    }

    /// Labels an action if it has ended, so that the garbage collector finds it and watch caches can leave it out.
    pub async fn label_if_ended(&self, action: &Action, status: &TaskActionStatus) -> Result<(), ApiError> {
        if !status.is_terminal() || labels::are_terminal(action.object.metadata.labels.as_ref()) {
            return Ok(());
        }
        let ended = status.ended_at().unwrap_or_else(|| self.clock.now());
        let completed = labels::completed_time(ended);
        let labels = [(labels::TERMINATION_STATUS, labels::TERMINATED), (labels::COMPLETED_TIME, &completed)];
        self.actions.add_labels(action, &labels).await
    }

    /// Writes the held status of an action if it is due and `superseded` does not say that a newer one is about to be
    /// decided. Returns when to ask again; `None` if nothing is held any more.
    pub async fn flush_if_due(
        &self,
        key: &ActionKey,
        superseded: impl Fn() -> bool,
    ) -> Result<Option<Instant>, ApiError> {
        let Some(store) = &self.store else { return Ok(None) };
        let Some(held) = store.held(key) else { return Ok(None) };
        if let Flush::Later(at) = decide_flush(&held, self.clock.instant(), self.actions.is_busy()) {
            return Ok(Some(at));
        }
        let slot = self.actions.write_slot().await?;
        if superseded() {
            return Ok(Some(held.due));
        }
        // Read again: the status may have been written or changed while this task waited for the slot.
        if let Some(held) = store.held(key) {
            self.send(key, &held.written, &held.wanted, &slot).await?;
        }
        Ok(None)
    }

    /// Writes all held statuses, before the process ends.
    pub async fn flush_all(&self) {
        let Some(store) = &self.store else { return };
        let flush = async |key: ActionKey| {
            let (Some(held), Ok(slot)) = (store.held(&key), self.actions.write_slot().await) else { return };
            if let Err(error) = self.send(&key, &held.written, &held.wanted, &slot).await {
                tracing::warn!(namespace = %key.namespace, name = %key.name, %error, "failed to write a held status");
            }
        };
        // The write slots bound how many requests are in flight.
        futures::future::join_all(store.held_keys().into_iter().map(flush)).await;
    }

    async fn put(
        &self,
        action: &Action,
        status: &TaskActionStatus,
        when: When,
        shown: Option<Written>,
    ) -> Result<(), ApiError> {
        match (when, &self.store) {
            (When::Within(hold), Some(store)) => {
                let now = self.clock.instant();
                store.hold_status(&ActionKey::of(&action.object.metadata), status, now, now + hold);
                Ok(())
            }
            _ if status.is_terminal() => self.write_end(action, status, shown).await,
            _ => self.write_over(action, status, shown).await,
        }
    }

    /// Records events that belong together. While that takes long, the status says so; it is returned if it was written. If
    /// it fails, a warning on the action says so, where `kubectl describe` shows it.
    async fn report(
        &self,
        action: &Action,
        steps: &[(&TaskActionStatus, &PhaseInfo)],
    ) -> Result<Option<Written>, RecordError> {
        let now = self.clock.now();
        let event = |(status, phase): &(&_, &_)| action_event(action, status, phase, &self.cluster, now);
        let (recorded, shown) = self.record_and_tell(action, steps.iter().map(event).collect()).await;
        if let Err(error) = recorded {
            let name = &action.object.spec.action_name;
            let note = format!("Failed to persist action event {name:?}: {}", innermost(&error));
            self.actions.warn(&action.object, "ActionEventPublishFailed", "PublishingActionEvent", &note).await;
            go_on_if_refused(error)?;
        }
        Ok(shown)
    }

    /// Sends what differs between the two statuses, and enters the result into the store. Returns the metadata of the answer;
    /// `None` if nothing differed.
    async fn send(
        &self,
        key: &ActionKey,
        written: &Written,
        wanted: &TaskActionStatus,
        slot: &WriteSlot<'_>,
    ) -> Result<Option<ObjectMeta>, ApiError> {
        // A signal that arrived after this status was decided must not be taken back by it.
        let wanted = with_fields_of_control_plane(wanted.clone(), &written.status);
        match self.send_as_it_is(key, written, &wanted, slot).await {
            // Such a status is refused each time, and the action would never end. A shorter one says the same.
            Err(error) if is_refused_for_size(&error) => {
                let error = shortened(&error.message, LOGGED_REFUSAL).into_owned();
                tracing::warn!(
                    namespace = %key.namespace, name = %key.name, error,
                    "the API server refuses the status for its size; writing a shorter one"
                );
                self.send_as_it_is(key, written, &wanted.shortened(), slot).await
            }
            sent => sent,
        }
    }

    async fn send_as_it_is(
        &self,
        key: &ActionKey,
        written: &Written,
        wanted: &TaskActionStatus,
        slot: &WriteSlot<'_>,
    ) -> Result<Option<ObjectMeta>, ApiError> {
        let store = self.store.as_ref();
        let Some(change) = merge_patch(&as_json(&written.status)?, &as_json(wanted)?) else {
            store.inspect(|store| store.has_status(key, wanted));
            return Ok(None);
        };
        store.inspect(|store| store.announce_status(key, wanted));
        match self.actions.patch_status(key, change, written.version, slot).await {
            Ok(metadata) => {
                store.inspect(|store| store.wrote_status(key, wanted, &metadata));
                Ok(Some(metadata))
            }
            Err(error) => {
                if is_certainly_not_written(&error) {
                    store.inspect(|store| store.refused_status(key));
                }
                Err(error)
            }
        }
    }
}

/// The events service would refuse such an event again, so the action goes on without it instead of never.
fn go_on_if_refused(error: EventError) -> Result<(), RecordError> {
    if is_refused_for_good(&error) {
        tracing::error!(
            error = innermost(&error),
            "the events service refuses this event for good; going on without it"
        );
        return Ok(());
    }
    Err(error.into())
}

fn as_json(status: &TaskActionStatus) -> Result<Value, ApiError> {
    serde_json::to_value(status)
        .map_err(|error| ApiError::unanswered(format!("failed to serialise the status: {error}")))
}
