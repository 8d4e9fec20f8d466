#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use aileron_action::{TaskAction, TaskActionSpec};
use aileron_idl::flyteidl2::workflow::ActionEvent;
use aileron_machinery::{ExecutionError, TaskInfo};
use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ObjectMeta;

use super::*;
use crate::caches::held_status::{Held, Unwritten};

impl StatusWriter {
    /// Records a phase, and labels an action that has ended.
    async fn record(&self, action: &Action, status: &TaskActionStatus, phase: &PhaseInfo) -> Result<(), RecordError> {
        self.record_phase(action, status, phase).await?;
        Ok(self.label_if_ended(action, status).await?)
    }
}

/// A cluster, an events service, a store and a clock that write down what is asked of them.
struct World {
    log: Mutex<Vec<String>>,
    event_error: Option<EventError>,
    /// How long the events service takes.
    event_seconds: AtomicU64,
    is_busy: AtomicBool,
    start: Instant,
    seconds: AtomicU64,
    held: Mutex<HashMap<ActionKey, (Unwritten, TaskActionStatus)>>,
    /// Longer patches are refused.
    longest_patch: AtomicU64,
    /// The action on the API server. Without it, a status is accepted over any version.
    current: Mutex<Option<TaskAction>>,
}

impl World {
    fn new(event_error: Option<EventError>) -> Arc<Self> {
        Arc::new(Self {
            log: Mutex::default(),
            event_error,
            event_seconds: AtomicU64::new(0),
            is_busy: AtomicBool::new(false),
            start: Instant::now(),
            seconds: AtomicU64::new(0),
            held: Mutex::default(),
            longest_patch: AtomicU64::new(u64::MAX),
            current: Mutex::default(),
        })
    }

    fn writer(self: &Arc<Self>) -> StatusWriter {
        StatusWriter::new(Arc::clone(self) as _, Arc::clone(self) as _, Arc::clone(self) as _, "c")
            .holding_in(Arc::clone(self) as _)
    }

    fn say(&self, words: impl Into<String>) {
        self.log.lock().unwrap().push(words.into());
    }

    fn said(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    fn pass(&self, seconds: u64) {
        self.seconds.fetch_add(seconds, Ordering::SeqCst);
    }

    fn at(&self, seconds: u64) -> Instant {
        self.start + Duration::from_secs(seconds)
    }
}

#[async_trait]
impl Actions for World {
    async fn add_finalizer(&self, _: &Action) -> Result<(), ApiError> {
        Ok(())
    }

    async fn remove_finalizer(&self, _: &Action) -> Result<(), ApiError> {
        Ok(())
    }

    fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::SeqCst)
    }

    async fn patch_status(
        &self,
        key: &ActionKey,
        patch: Value,
        based_on: Option<u64>,
        _: &WriteSlot<'_>,
    ) -> Result<ObjectMeta, ApiError> {
        let current = self.current.lock().unwrap().as_ref().map(|action| version(&action.metadata));
        if current.is_some_and(|current| based_on != Some(current)) {
            self.say("conflict");
            return Err(ApiError { code: 409, reason: "Conflict".into(), message: String::new(), retry_after: None });
        }
        if patch.to_string().len() as u64 > self.longest_patch.load(Ordering::SeqCst) {
            self.say("refused");
            let message = "Request entity too large: limit is 3145728".to_owned();
            return Err(ApiError { code: 413, reason: "RequestEntityTooLarge".into(), message, retry_after: None });
        }
        let pending = patch["conditions"].as_array().into_iter().flatten().find(|one| one["reason"] == "Events");
        let pending = pending.map(|_| "waits for Events".to_owned());
        let phase = patch["pluginPhase"].as_str().map(str::to_owned);
        let words: Vec<_> = phase.into_iter().chain(pending).collect();
        self.say(format!("status {} {}", key.name, words.join(", ")));
        let mut current = self.current.lock().unwrap();
        Ok(current.as_mut().map_or_else(ObjectMeta::default, |current| {
            current.metadata.resource_version = Some((version(&current.metadata) + 1).to_string());
            current.metadata.clone()
        }))
    }

    async fn refresh(&self, _: &ActionKey) -> Result<Option<TaskAction>, ApiError> {
        Ok(self.current.lock().unwrap().clone())
    }

    async fn add_labels(&self, _: &Action, _: &[(&str, &str)]) -> Result<(), ApiError> {
        self.say("labels");
        Ok(())
    }

    async fn warn(&self, _: &TaskAction, reason: &str, _: &str, _: &str) {
        self.say(format!("warning {reason}"));
    }
}

#[async_trait]
impl EventSink for World {
    async fn record_all(&self, events: Vec<ActionEvent>) -> Result<(), EventError> {
        let attempts: Vec<_> = events.iter().map(|event| event.attempt).collect();
        self.say(format!("events of attempts {attempts:?}"));
        tokio::time::sleep(Duration::from_secs(self.event_seconds.load(Ordering::SeqCst))).await;
        self.event_error.clone().map_or(Ok(()), Err)
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn instant(&self) -> Instant {
        self.at(self.seconds.load(Ordering::SeqCst))
    }
}

impl StatusStore for World {
    fn hold_status(&self, key: &ActionKey, status: &TaskActionStatus, now: Instant, due: Instant) {
        let mut held = self.held.lock().unwrap();
        let earlier = held.remove(key).map(|(earlier, _)| earlier);
        held.insert(key.clone(), (Unwritten::hold(earlier, TaskActionStatus::default, now, due), status.clone()));
    }

    fn held(&self, key: &ActionKey) -> Option<Held> {
        let held = self.held.lock().unwrap();
        let (Unwritten { written, since, due }, wanted) = held.get(key)?.clone();
        Some(Held { written: Written { status: written, version: None }, wanted, since, due })
    }

    fn held_keys(&self) -> Vec<ActionKey> {
        self.held.lock().unwrap().keys().cloned().collect()
    }

    fn written_status(&self, _: &ActionKey) -> Option<TaskActionStatus> {
        None
    }

    fn refused_status(&self, _: &ActionKey) {}

    fn announce_status(&self, _: &ActionKey, _: &TaskActionStatus) {
        self.say("announced");
    }

    fn wrote_status(&self, key: &ActionKey, _: &TaskActionStatus, _: &ObjectMeta) {
        self.held.lock().unwrap().remove(key);
    }

    fn has_status(&self, key: &ActionKey, _: &TaskActionStatus) {
        self.say("nothing to send");
        self.held.lock().unwrap().remove(key);
    }
}

fn action() -> Action {
    let mut object = TaskAction::new("a", TaskActionSpec::default());
    object.metadata.namespace = Some("ns".into());
    Action::new(object, None)
}

fn key() -> ActionKey {
    ActionKey::new("ns", "a")
}

fn info() -> TaskInfo {
    TaskInfo::at(Timestamp::UNIX_EPOCH)
}

fn shown(phase: &PhaseInfo) -> TaskActionStatus {
    let mut status = TaskActionStatus { attempts: 1, ..TaskActionStatus::default() };
    status.show_phase(phase, Timestamp::UNIX_EPOCH);
    status.plugin_phase = phase.phase().as_str().into();
    status
}

#[tokio::test]
async fn an_end_is_recorded_as_event_then_status_then_labels() {
    let world = World::new(None);
    let phase = PhaseInfo::permanent_failure(ExecutionError::user("c", "m"), info());
    world.writer().record(&action(), &shown(&phase), &phase).await.unwrap();
    let expected = ["events of attempts [1]", "announced", "status a PhasePermanentFailure", "labels"];
    assert_eq!(world.said(), expected);
}

#[tokio::test]
async fn a_reported_end_is_written_although_the_action_is_being_deleted_meanwhile() {
    let world = World::new(None);
    let mut seen = action();
    seen.object.metadata.uid = Some("one".into());
    seen.object.metadata.resource_version = Some("7".into());
    let mut current = seen.object.clone();
    current.metadata.resource_version = Some("8".into());
    current.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let phase = PhaseInfo::success(info());
    let record = async |current: &TaskAction| {
        *world.current.lock().unwrap() = Some(current.clone());
        let recorded = world.writer().record_phase(&seen, &shown(&phase), &phase).await;
        (recorded.is_ok(), world.said())
    };
    let (is_recorded, said) = record(&current).await;
    assert!(is_recorded, "{said:?}");
    let expected = ["events of attempts [1]", "announced", "conflict", "announced", "status a PhaseSuccess"];
    assert_eq!(said, expected);

    // What another executor decided meanwhile is not overwritten, nor a later action of the same name.
    let refused = ["events of attempts [1]", "announced", "conflict"];
    let decided = TaskAction { status: Some(shown(&PhaseInfo::queued("", info()))), ..current.clone() };
    assert_eq!(record(&decided).await, (false, refused.map(String::from).to_vec()));
    current.metadata.uid = Some("other".into());
    assert_eq!(record(&current).await, (false, refused.map(String::from).to_vec()));
}

#[tokio::test]
async fn an_intermediate_status_is_held_after_its_event_and_sent_when_due() {
    let world = World::new(None);
    let writer = world.writer();
    let phase = PhaseInfo::initializing("", info());
    writer.record(&action(), &shown(&phase), &phase).await.unwrap();
    assert_eq!(world.said(), ["events of attempts [1]"]);
    assert_eq!(writer.flush_if_due(&key(), || false).await.unwrap(), Some(world.at(2)));
    world.pass(2);
    assert_eq!(writer.flush_if_due(&key(), || true).await.unwrap(), Some(world.at(2)), "a newer one is on its way");
    world.is_busy.store(true, Ordering::SeqCst);
    let again = world.at(2) + Duration::from_millis(250);
    assert_eq!(writer.flush_if_due(&key(), || false).await.unwrap(), Some(again), "other writes go first");
    world.is_busy.store(false, Ordering::SeqCst);
    assert_eq!(world.said(), Vec::<String>::new());
    assert_eq!(writer.flush_if_due(&key(), || false).await.unwrap(), None);
    assert_eq!(world.said(), ["announced", "status a PhaseInitializing"]);
    assert_eq!(writer.flush_if_due(&key(), || false).await.unwrap(), None);
    assert_eq!(world.said(), Vec::<String>::new(), "it is sent only once");
}

#[tokio::test]
async fn all_held_statuses_are_sent_at_the_end_also_those_that_are_not_due() {
    let world = World::new(None);
    let phase = PhaseInfo::queued("", info());
    world.writer().record(&action(), &shown(&phase), &phase).await.unwrap();
    world.said();
    world.writer().flush_all().await;
    assert_eq!(world.said(), ["announced", "status a PhaseQueued"]);
    assert!(world.held_keys().is_empty());
}

#[tokio::test]
async fn a_status_that_the_server_has_costs_no_request() {
    let world = World::new(None);
    world.hold_status(&key(), &TaskActionStatus::default(), world.at(0), world.at(0));
    assert_eq!(world.writer().flush_if_due(&key(), || false).await.unwrap(), None);
    assert_eq!(world.said(), ["nothing to send"]);
}

#[tokio::test]
async fn without_its_event_a_status_is_not_written() {
    let world = World::new(Some(EventError::Closed));
    let phase = PhaseInfo::success(info());
    let error = world.writer().record(&action(), &shown(&phase), &phase).await.unwrap_err();
    assert!(matches!(error, RecordError::Event(EventError::Closed)));
    assert_eq!(world.said(), ["events of attempts [1]", "warning ActionEventPublishFailed"]);
}

#[tokio::test(start_paused = true)]
async fn while_its_event_is_not_accepted_an_action_shows_what_it_waits_for() {
    let mut seen = action();
    seen.object.metadata.resource_version = Some("7".into());
    let phase = PhaseInfo::success(info());
    let record = async |seconds, event_error| {
        let world = World::new(event_error);
        world.event_seconds.store(seconds, Ordering::SeqCst);
        *world.current.lock().unwrap() = Some(seen.object.clone());
        let recorded = world.writer().record_phase(&seen, &shown(&phase), &phase).await;
        (recorded.is_ok(), world.said())
    };
    let notice = ["events of attempts [1]", "announced", "status a waits for Events"];
    let (is_recorded, said) = record(20, None).await;
    assert!(is_recorded && said.starts_with(&notice.map(String::from)), "{said:?}");
    assert_eq!(said[3..], ["announced", "status a PhaseSuccess"], "the end is written over the notice");
    let gave_up = EventError::GaveUp { after: Duration::from_secs(60), last: None };
    let (is_recorded, said) = record(60, Some(gave_up)).await;
    assert!(!is_recorded, "{said:?}");
    assert_eq!(said[..3], notice);
    assert_eq!(said[3..], ["warning ActionEventPublishFailed"], "without its event the end is not written");
    let (_, said) = record(1, None).await;
    assert_eq!(said, ["events of attempts [1]", "announced", "status a PhaseSuccess"], "a short delay is not told");
}

#[tokio::test]
async fn an_event_that_is_refused_for_good_does_not_stop_its_action() {
    let world = World::new(Some(EventError::Invalid("id is missing")));
    let phase = PhaseInfo::success(info());
    world.writer().record(&action(), &shown(&phase), &phase).await.unwrap();
    assert_eq!(world.said().last().unwrap(), "labels");
    world.writer().report_abort(&action()).await.unwrap();
    let world = World::new(Some(EventError::Closed));
    world.writer().report_abort(&action()).await.unwrap_err();
}

#[tokio::test]
async fn the_next_attempt_is_written_at_once_after_both_events() {
    let world = World::new(None);
    let failed = PhaseInfo::retryable_failure(ExecutionError::user("c", "m"), info());
    let queued = PhaseInfo::queued("restarting task", info());
    let next = TaskActionStatus { attempts: 2, ..shown(&queued) };
    let writer = world.writer();
    writer.record_next_attempt(&action(), (&shown(&failed), &failed), (&next, &queued)).await.unwrap();
    assert_eq!(world.said(), ["events of attempts [1, 2]", "announced", "status a PhaseQueued"]);
    assert!(world.held_keys().is_empty());
}

#[tokio::test]
async fn a_writer_without_a_store_holds_nothing() {
    let world = World::new(None);
    let writer = StatusWriter::new(Arc::clone(&world) as _, Arc::clone(&world) as _, Arc::clone(&world) as _, "");
    let phase = PhaseInfo::queued("", info());
    writer.record(&action(), &shown(&phase), &phase).await.unwrap();
    assert_eq!(world.said(), ["events of attempts [1]", "status a PhaseQueued"]);
    assert_eq!(writer.flush_if_due(&key(), || false).await.unwrap(), None);
}

#[tokio::test]
async fn a_status_without_event_is_written_only_if_it_changed() {
    let world = World::new(None);
    world.writer().record_without_event(&action(), &TaskActionStatus::default()).await.unwrap();
    assert_eq!(world.said(), Vec::<String>::new());
    let paused = TaskActionStatus { plugin_phase: "p".into(), ..TaskActionStatus::default() };
    world.writer().record_without_event(&action(), &paused).await.unwrap();
    assert_eq!(world.said(), ["announced", "status a p"]);
}

#[tokio::test]
async fn a_status_that_is_refused_for_its_size_is_written_shorter_at_once() {
    let world = World::new(None);
    world.longest_patch.store(3_000, Ordering::SeqCst);
    let phase = PhaseInfo::permanent_failure(ExecutionError::user("c", "m".repeat(10_000)), info());
    world.writer().record(&action(), &shown(&phase), &phase).await.unwrap();
    let expected =
        ["events of attempts [1]", "announced", "refused", "announced", "status a PhasePermanentFailure", "labels"];
    assert_eq!(world.said(), expected);
    world.longest_patch.store(10, Ordering::SeqCst);
    let error = world.writer().record(&action(), &shown(&phase), &phase).await.unwrap_err();
    assert!(matches!(error, RecordError::Api(error) if error.is_too_large()), "it is tried twice, and again later");
    assert_eq!(world.said().iter().filter(|said| *said == "refused").count(), 2);
}
