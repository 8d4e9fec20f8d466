#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use aileron_action::{TaskAction, TaskActionStatus};
use aileron_idl::flyteidl2::workflow::ActionEvent;
use aileron_kubekit::ApiError;
use aileron_machinery::config::K8sConfig;
use aileron_machinery::time::clock::SystemClock;
use aileron_machinery::{
    ActionKey, CoreStep, Platform, PluginEntry, PluginError, StoredState, TaskContext, TaskMetadata, TaskPaths,
};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use kube::api::ObjectMeta;
use serde_json::Value;

use super::*;
use crate::cluster::WriteSlot;
use crate::reconcile::decide::tests::{
    Author, after, permanent_failure, queued, running, system_failure, user_failure,
};
use crate::services::events::{EventError, EventSink};

/// A cluster, an events service and a plugin that write down the order of what is asked of them.
#[derive(Default)]
struct World {
    log: Mutex<Vec<&'static str>>,
    status_is_refused: bool,
    abort_fails: bool,
}

impl World {
    fn say(&self, word: &'static str) {
        self.log.lock().unwrap().push(word);
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

    async fn patch_status(
        &self,
        _: &ActionKey,
        _: Value,
        _: Option<u64>,
        _: &WriteSlot<'_>,
    ) -> Result<ObjectMeta, ApiError> {
        self.say("status");
        if self.status_is_refused { Err(ApiError::unanswered("away")) } else { Ok(ObjectMeta::default()) }
    }

    async fn add_labels(&self, _: &Action, _: &[(&str, &str)]) -> Result<(), ApiError> {
        self.say("labels");
        Ok(())
    }

    async fn warn(&self, _: &TaskAction, _: &str, _: &str, _: &str) {
        self.say("warning");
    }
}

#[async_trait]
impl EventSink for World {
    async fn record_all(&self, events: Vec<ActionEvent>) -> Result<(), EventError> {
        self.say(if events.len() == 2 { "two events" } else { "event" });
        Ok(())
    }
}

#[async_trait]
impl CorePlugin for World {
    fn entry(&self) -> PluginEntry {
        unreachable!("carrying out a decision needs no name")
    }

    async fn handle(&self, _: &CoreRequest<'_>) -> Result<CoreStep, PluginError> {
        unreachable!("the plugin has answered before")
    }

    async fn abort(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> {
        self.say("abort");
        if self.abort_fails { Err(PluginError::uncoded("away")) } else { Ok(()) }
    }

    async fn finalize(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> {
        self.say("finalize");
        Ok(())
    }
}

/// Carries out a decision. Returns what was asked for, in order, and the result.
async fn applied(world: World, decision: Decision, inject_finalizer: bool) -> (Vec<&'static str>, Option<Wake>) {
    configured(world, decision, K8sConfig { inject_finalizer, ..K8sConfig::default() }).await
}

/// As [`applied`], with this configuration.
async fn configured(world: World, decision: Decision, k8s: K8sConfig) -> (Vec<&'static str>, Option<Wake>) {
    let platform = Platform { k8s: Arc::new(k8s), ..Platform::default() };
    let (metadata, paths) = (TaskMetadata::default(), TaskPaths::default());
    let task = TaskContext::new(Arc::default(), metadata, paths, platform, Timestamp::UNIX_EPOCH);
    let state = StoredState::default();
    let request = CoreRequest::new(&task, &state);
    applied_with(world, decision, Some(&request)).await
}

/// As [`applied`], with this request for the plugin.
async fn applied_with(
    world: World,
    decision: Decision,
    request: Option<&CoreRequest<'_>>,
) -> (Vec<&'static str>, Option<Wake>) {
    let world = Arc::new(world);
    let action = Author::default().action(TaskActionStatus::default());
    let statuses = StatusWriter::new(Arc::clone(&world) as _, Arc::clone(&world) as _, Arc::new(SystemClock), "");
    let (plugin, actions, statuses) = (world.as_ref(), world.as_ref(), &statuses);
    let wake = Target { action: &action, plugin, request, actions, statuses }.apply(decision).await.ok();
    let log = world.log.lock().unwrap().clone();
    (log, wake)
}

fn end(object: ObjectStep) -> Record {
    let phase = permanent_failure();
    Record { status: after(&[(&phase, 1)]), phase, object, wake: Wake::OnChange }
}

fn ends(object: ObjectStep) -> Decision {
    Decision::Record(Box::new(end(object)))
}

#[tokio::test]
async fn an_object_is_kept_stopped_before_or_deleted_after_the_end_is_recorded() {
    let order = async |object| applied(World::default(), ends(object), false).await.0;
    assert_eq!(order(ObjectStep::Keep).await, ["event", "status", "labels"]);
    assert_eq!(order(ObjectStep::StopFirst).await, ["abort", "event", "status", "labels"]);
    assert_eq!(order(ObjectStep::DeleteAfterwards).await, ["event", "status", "abort", "labels"]);
}

#[tokio::test]
async fn an_end_is_recorded_without_a_request_for_the_plugin() {
    let (order, wake) = applied_with(World::default(), ends(ObjectStep::Keep), None).await;
    assert_eq!((order, wake), (vec!["event", "status", "labels"], Some(Wake::OnChange)));
}

#[tokio::test]
async fn our_finalizer_comes_off_a_stopped_object() {
    let (order, _) = applied(World::default(), ends(ObjectStep::DeleteAfterwards), true).await;
    assert_eq!(order, ["event", "status", "abort", "finalize", "labels"]);
    let failing = World { abort_fails: true, ..World::default() };
    let (order, wake) = applied(failing, ends(ObjectStep::DeleteAfterwards), true).await;
    assert_eq!(order, ["event", "status", "abort", "labels"], "an object that was not stopped keeps the finalizer");
    assert_eq!(wake, Some(Wake::OnChange), "the action has ended all the same");
}

#[tokio::test]
async fn the_object_of_an_ended_task_is_released_after_the_end_is_recorded() {
    let order = async |inject_finalizer, delete_resource_on_finalize, object| {
        let k8s = K8sConfig { inject_finalizer, delete_resource_on_finalize, ..K8sConfig::default() };
        configured(World::default(), ends(object), k8s).await.0
    };
    let released = ["event", "status", "finalize", "labels"];
    assert_eq!(order(true, false, ObjectStep::Keep).await, released);
    assert_eq!(order(false, true, ObjectStep::Keep).await, released);
    let stopped = ["abort", "finalize", "event", "status", "labels"];
    assert_eq!(order(true, false, ObjectStep::StopFirst).await, stopped, "the finalizer was removed before");
    let stopped = ["abort", "event", "status", "finalize", "labels"];
    assert_eq!(order(false, true, ObjectStep::StopFirst).await, stopped, "a plugin may stop objects without deleting");
    let refusing = World { status_is_refused: true, ..World::default() };
    assert_eq!(applied(refusing, ends(ObjectStep::Keep), true).await.0, ["event", "status"], "not yet recorded");
    let goes_on = Record { status: after(&[(&running(), 1)]), phase: running(), ..end(ObjectStep::Keep) };
    let (order, _) = applied(World::default(), Decision::Record(Box::new(goes_on)), true).await;
    assert!(!order.contains(&"finalize"), "the task has not ended: {order:?}");
}

#[tokio::test]
async fn nothing_is_deleted_if_the_end_could_not_be_recorded() {
    let refusing = World { status_is_refused: true, ..World::default() };
    let (order, wake) = applied(refusing, ends(ObjectStep::DeleteAfterwards), false).await;
    assert_eq!((order, wake), (vec!["event", "status"], None));
}

#[tokio::test]
async fn the_next_attempt_is_written_before_the_object_of_the_last_one_is_stopped() {
    let failed = (after(&[(&running(), 1)]), user_failure());
    let next = (TaskActionStatus { attempts: 2, ..after(&[(&queued(), 2)]) }, queued());
    let decision =
        || Decision::NextAttempt(Box::new(NextAttempt { failed: failed.clone(), next: next.clone(), wake: Wake::Now }));
    let (order, wake) = applied(World::default(), decision(), false).await;
    assert_eq!((order, wake), (vec!["two events", "status", "abort"], Some(Wake::Now)));
    let refusing = World { status_is_refused: true, ..World::default() };
    assert_eq!(applied(refusing, decision(), false).await, (vec!["two events", "status"], None));
}

#[tokio::test]
async fn a_failure_of_the_platform_is_reported_and_counted_without_an_event() {
    let wake = Wake::Retry(SignedDuration::from_secs(1));
    let status = TaskActionStatus { system_failures: 1, ..TaskActionStatus::default() };
    let failure = |stop_object, then| {
        let failure = SystemFailure { warning: system_failure().reason().to_owned(), stop_object, then };
        Decision::SystemFailure(Box::new(failure))
    };
    let again = || AfterSystemFailure::TryAgain { status: Box::new(status.clone()), wake };
    let (order, next) = applied(World::default(), failure(false, again()), false).await;
    assert_eq!((order, next), (vec!["warning", "status"], Some(wake)));
    let (order, _) = applied(World::default(), failure(true, again()), false).await;
    assert_eq!(order, ["abort", "warning", "status"]);
    let last = failure(true, AfterSystemFailure::Fail(Box::new(end(ObjectStep::Keep))));
    assert_eq!(applied(World::default(), last, false).await.0, ["abort", "warning", "event", "status", "labels"]);
}

#[tokio::test]
async fn waiting_asks_for_nothing() {
    assert_eq!(applied(World::default(), Decision::Wait(Wake::OnChange), true).await, (vec![], Some(Wake::OnChange)));
}
