#![allow(clippy::unwrap_used)]

use aileron_action::{ACTION_TYPE_CONDITION, TaskAction, TaskActionSpec};
use aileron_admission::gate::Gate;
use aileron_admission::waker::NoWaker;
use aileron_idl::flyteidl2::workflow::{ActionEvent, ConditionAction};
use aileron_kubekit::ApiError;
use aileron_machinery::time::clock::SystemClock;
use aileron_machinery::{NoServices, Platform, PluginSet};
use async_trait::async_trait;
use k8s_openapi::ByteString;
use kube::api::ObjectMeta;
use metrics_exporter_prometheus::PrometheusBuilder;
use prost::Message;
use serde_json::Value;
use tokio::sync::Notify;

use super::*;
use crate::caches::Caches;
use crate::cluster::kube::Writer;
use crate::cluster::kube::objects::KubeObjects;
use crate::cluster::{Actions, Objects, WriteSlot};
use crate::manager::ManagerBackends;
use crate::reconcile::Settings;
use crate::registry::{Backends, Registry, RegistryRules};
use crate::services::events::{EventError, EventSink};
use crate::storage::{BlobStore, MemoryStore};

/// A server that accepts every write, and answers with the next version; or one that is asked and never answers.
struct InMemory {
    actions: Arc<ActionStore>,
    asked_in_vain: Option<Arc<Notify>>,
}

#[async_trait]
impl Actions for InMemory {
    async fn add_finalizer(&self, _: &Action) -> Result<(), ApiError> {
        Ok(())
    }

    async fn remove_finalizer(&self, _: &Action) -> Result<(), ApiError> {
        Ok(())
    }

    async fn patch_status(
        &self,
        key: &ActionKey,
        _: Value,
        _: Option<u64>,
        _: &WriteSlot<'_>,
    ) -> Result<ObjectMeta, ApiError> {
        if let Some(asked) = &self.asked_in_vain {
            asked.notify_one();
            std::future::pending::<()>().await;
        }
        let mut metadata = self.actions.get(key).unwrap().object.metadata.clone();
        let version: u64 = metadata.resource_version.unwrap().parse().unwrap();
        metadata.resource_version = Some((version + 1).to_string());
        Ok(metadata)
    }

    async fn add_labels(&self, _: &Action, _: &[(&str, &str)]) -> Result<(), ApiError> {
        Ok(())
    }

    async fn warn(&self, _: &TaskAction, _: &str, _: &str, _: &str) {}
}

struct Nowhere;

#[async_trait]
impl EventSink for Nowhere {
    async fn record_all(&self, _: Vec<ActionEvent>) -> Result<(), EventError> {
        Ok(())
    }
}

fn controller(action_store: &Arc<ActionStore>, queue: &Arc<Queue>) -> Controller {
    controller_on(InMemory { actions: Arc::clone(action_store), asked_in_vain: None }, queue)
}

fn controller_on(server: InMemory, queue: &Arc<Queue>) -> Controller {
    let action_store = &Arc::clone(&server.actions);
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let writer = Writer::new(kube::Client::try_from(nowhere).unwrap());
    let objects: Arc<dyn Objects> = Arc::new(KubeObjects::new(writer, Caches::new("flyte"), Arc::new(SystemClock)));
    let store: Arc<dyn BlobStore> = Arc::new(MemoryStore::new());
    let rules = RegistryRules::default();
    let manager = ManagerBackends {
        objects: Arc::clone(&objects),
        store: Arc::clone(&store),
        gate: Arc::new(Gate::default()),
        tokens: None,
        clock: Arc::new(SystemClock),
    };
    let backends = Backends { manager, secrets: Arc::new(NoServices), waker: Arc::new(NoWaker) };
    let registry = Registry::new(&PluginSet::new(), &rules, &backends).unwrap();
    let actions: Arc<dyn Actions> = Arc::new(server);
    let statuses = StatusWriter::new(Arc::clone(&actions), Arc::new(Nowhere), Arc::new(SystemClock), "");
    let statuses = Arc::new(statuses.holding_in(Arc::clone(action_store) as _));
    let reconciler = Reconciler {
        registry: Arc::new(registry),
        actions,
        statuses: Arc::clone(&statuses),
        store,
        catalog: None,
        clock: Arc::new(SystemClock),
        settings: Settings::default(),
        platform: Arc::new(Platform::default),
    };
    Controller {
        reconciler: Arc::new(reconciler),
        action_store: Arc::clone(action_store),
        queue: Arc::clone(queue),
        statuses,
        max_rounds: 1,
    }
}

/// An action that waits for a signal.
fn condition(name: &str) -> TaskAction {
    let mut object = TaskAction::new(name, TaskActionSpec::default());
    object.metadata.namespace = Some("ns".into());
    object.metadata.uid = Some("u".into());
    object.metadata.resource_version = Some("1".into());
    object.spec.action_type = ACTION_TYPE_CONDITION.into();
    object.spec.condition_spec =
        ByteString(ConditionAction { name: name.into(), ..Default::default() }.encode_to_vec());
    object
}

/// Gives an action its round.
async fn round(controller: &Controller, key: &ActionKey) {
    let next = tokio::time::timeout(Duration::from_secs(120), controller.queue.next()).await.unwrap();
    assert_eq!(next, *key);
    controller.rounds(key).await;
}

#[test]
fn pauses_double_up_to_a_bound() {
    assert_eq!(backoff(1), FIRST_BACKOFF);
    assert_eq!(backoff(2), FIRST_BACKOFF * 2);
    assert_eq!(backoff(100), LONGEST_BACKOFF);
}

#[test]
fn what_only_the_look_for_safety_finds_is_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let finds = || {
        let page = page.render();
        let line = page.lines().find_map(|line| line.strip_prefix("aileron_safety_finds_total "));
        line.map_or(0, |count| count.parse().unwrap())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let (action_store, queue) = (Arc::<ActionStore>::default(), Arc::<Queue>::default());
            queue.open();
            let controller = controller(&action_store, &queue);
            let key = ActionKey::new("ns", "gate");
            let look = async |signal: bool| {
                action_store.left(&key);
                action_store.observe(condition("gate"));
                queue.wake(&key);
                round(&controller, &key).await;
                if signal {
                    let mut signalled = condition("gate");
                    signalled.metadata.resource_version = Some("9".into());
                    signalled.status = Some(action_store.get(&key).unwrap().status());
                    signalled.status.as_mut().unwrap().signal_value = ByteString(b"yes".to_vec());
                    // The wake-up that belongs to this is lost.
                    assert!(action_store.observe(signalled));
                }
            };
            // A round because of a change is no find, whatever it does.
            look(false).await;
            assert_eq!(action_store.get(&key).unwrap().status().phase_history.len(), 1);
            assert_eq!(finds(), 0);
            // Nor is a look that finds everything as it was.
            queue.wake(&key);
            assert_eq!(queue.next().await, key);
            queue.finished(&key, Next::Safety(Instant::now()));
            round(&controller, &key).await;
            assert_eq!(finds(), 0);

            look(true).await;
            queue.wake(&key);
            assert_eq!(queue.next().await, key);
            queue.finished(&key, Next::Safety(Instant::now()));
            round(&controller, &key).await;
            assert!(action_store.get(&key).is_none_or(|action| action.status().is_terminal()));
            assert_eq!(finds(), 1);
        });
    });
}

fn waiting(reason: PendingReason, message: &str) -> Action {
    let mut object = condition("a");
    let now = Timestamp::now();
    let mut status = TaskActionStatus::default();
    status.set_condition(aileron_action::pending::CONDITION, true, reason.as_str(), message, now);
    object.status = Some(status);
    Action::new(object, None)
}

#[test]
fn at_the_gate_only_leaving_it_is_a_find() {
    let (one, other) = (waiting(PendingReason::Quota, "1 left"), waiting(PendingReason::Quota, "2 left"));
    assert!(!found_something(&one, Some(&other)), "the words are renewed by looking");
    assert!(!found_something(&one, Some(&waiting(PendingReason::BackOff, "a pause"))));
    assert!(found_something(&one, Some(&waiting(PendingReason::Starting, "created"))));
    assert!(found_something(
        &waiting(PendingReason::Unschedulable, "no room"),
        Some(&waiting(PendingReason::Unschedulable, "no cpu"))
    ));
    assert!(found_something(&one, None));
}

#[test]
fn the_next_round_is_at_the_earliest_time_that_something_is_due() {
    let (now, instant) = (Timestamp::UNIX_EPOCH, Instant::now());
    let later = |seconds| instant + Duration::from_secs(seconds);
    let at = |seconds| Wake::At(now + SignedDuration::from_secs(seconds));
    let next = |wake, held| next_round(wake, held, false, (now, instant), instant);
    assert!(matches!(next(Wake::Never, Some(later(1))), Next::Idle));
    assert!(matches!(next(Wake::Now, None), Next::Again));
    assert!(matches!(next(Wake::OnChange, None), Next::Safety(time) if time == instant + SAFETY_INTERVAL));
    assert!(matches!(next(Wake::OnChange, Some(later(2))), Next::At(time) if time == later(2)));
    assert!(matches!(next(Wake::Retry(SignedDuration::from_secs(5)), None), Next::At(time) if time == later(5)));
    assert!(matches!(next(at(5), Some(later(2))), Next::At(time) if time == later(2)));
    assert!(matches!(next(at(-5), Some(later(2))), Next::At(time) if time == instant), "a time that has passed");
}

#[test]
fn a_round_that_the_gate_asks_for_far_ahead_is_one_for_safety() {
    let (now, instant) = (Timestamp::UNIX_EPOCH, Instant::now());
    let next =
        |seconds| next_round(Wake::At(now + SignedDuration::from_secs(seconds)), None, true, (now, instant), instant);
    assert!(matches!(next(150), Next::Safety(_)));
    assert!(matches!(next(20), Next::At(_)), "a pause that ends by itself");
    assert!(matches!(next_round(Wake::OnChange, None, true, (now, instant), instant), Next::Safety(_)));
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_noticed_while_every_round_is_busy_and_ends_rounds_that_hang() {
    let (action_store, queue, asked) =
        (Arc::<ActionStore>::default(), Arc::<Queue>::default(), Arc::<Notify>::default());
    for name in ["one", "two"] {
        // Its end is recorded at once, because it has no template.
        let spec = TaskActionSpec { action_type: String::new(), ..condition(name).spec };
        action_store.observe(TaskAction { spec, ..condition(name) });
    }
    let server = InMemory { actions: action_store, asked_in_vain: Some(Arc::clone(&asked)) };
    let controller = Arc::new(controller_on(server, &queue));
    let reconciler = Arc::downgrade(&controller.reconciler);
    let stop = CancellationToken::new();
    let running = tokio::spawn(controller.run(stop.clone()));
    // The first action occupies the only round, the second one waits for it.
    tokio::time::timeout(Duration::from_secs(600), asked.notified()).await.expect("a write");
    let began = tokio::time::Instant::now();
    stop.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(600), running).await;
    ended.expect("the controller ends").unwrap();
    assert!(began.elapsed() <= DRAIN_TIMEOUT + FLUSH_TIMEOUT, "{:?}", began.elapsed());
    assert_eq!(reconciler.strong_count(), 0, "a round goes on after the end of the controller");
}

#[test]
fn a_time_of_day_that_is_set_during_a_round_does_not_delay_the_next_one() {
    let (before, instant) = (Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1), Instant::now());
    // The clock went back by an hour while the round ran, which took two seconds.
    let wake = Wake::At(before + SignedDuration::from_secs(5));
    let next = next_round(wake, None, false, (before, instant), instant + Duration::from_secs(2));
    assert_eq!(next, Next::At(instant + Duration::from_secs(5)));
}
