//! Deletes the objects of ended attempts while their actions stay: never, always, or after success, and not before a
//! configured time has passed.
//!
//! The finalizer of such an object is removed, and with `delete-resource-on-finalize` the object is deleted at once. The round
//! that records the end does the same; here it is done if that round could not.
//!
//! A pod whose side containers go on running although its action has ended is deleted in any case: a log shipper that a
//! pod template added to the task would occupy its node for ever.
//!
//! Which objects are deleted follows from the watch caches and from the actions themselves. So nothing has to be stored
//! over a restart, and no action waits for a deletion.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use aileron_action::conditions::condition;
use aileron_action::object_identity::OBJECT_FINALIZER;
use aileron_action::{ACTION_FINALIZER, Action, TaskAction};
use aileron_kubekit::ApiError;
use aileron_machinery::config::{DeleteFinished, K8sConfig};
use aileron_machinery::time::clock::Clock;
use aileron_machinery::{ActionKey, AnyResource, ObjectPlugin, ResourceKind};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ObjectMeta};
use tokio_util::sync::CancellationToken;

use crate::caches::actions::ActionStore;
use crate::caches::objects::ObjectCache;
use crate::caches::pods::PodCache;
use crate::cluster::Objects;
use crate::cluster::kube::requests::api_error;
use crate::cluster::listed::Listed;
use crate::registry::panics::guarded;

/// How often the caches are searched for objects to delete. The search costs no request, and no task waits for it.
const SEARCH_EVERY: Duration = Duration::from_secs(2);

/// Objects that are cleaned up at the same time. A request that is not answered does not delay the other objects, and the
/// clean-up of a whole run does not burden the API server.
const REQUESTS_IN_FLIGHT: usize = 8;

/// How long the requests for one object may take. It is longer than a loaded API server needs for them. The next search does
/// not begin before all are answered, and must not wait for a lost answer as long as a round does.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// How long side containers may go on after the end of the task: time to send the logs that they hold.
const SIDE_CONTAINER_GRACE: SignedDuration = SignedDuration::from_secs(10);

/// `plugins.k8s.delete-finished` and `delete-finished-after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which objects are deleted.
    pub which: DeleteFinished,
    /// How long after the end they are deleted.
    pub after: SignedDuration,
}

impl Policy {
    /// The policy of a configuration. With `delete-resource-on-finalize` every object goes at once.
    pub fn of(config: &K8sConfig) -> Self {
        if config.delete_resource_on_finalize {
            return Self { which: DeleteFinished::Always, after: SignedDuration::ZERO };
        }
        let after = SignedDuration::from_nanos(config.delete_finished_after.as_nanos());
        Self { which: config.delete_finished, after }
    }
}

/// How an action ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ending {
    /// The action succeeded.
    succeeded: bool,
    /// When it ended.
    at: Timestamp,
}

/// That an action is at its end, as read from the API server. This does not change any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ActionEnd {
    Ended(Ending),
    /// The action does not exist any more, or the executor has released it. Kubernetes deletes its objects.
    Gone,
}

/// What happens to an object whose action has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CleanupDecision {
    /// The object stays.
    Keep,
    /// The decision depends on how the action ended, which must be read first.
    ReadAction,
    /// The object is deleted at this time.
    DeleteAt(Timestamp),
    /// The executor's finalizer is removed: somebody else deletes the object, or it stays although its action has ended.
    Release,
}

/// Decides about a pod whose side containers still run, by the end of its action if that is known.
///
/// # Differs from upstream
///
/// Upstream leaves such a pod alone: its other containers run until the action is deleted.
fn decide_running(ending: Option<Ending>) -> CleanupDecision {
    let Some(ending) = ending else { return CleanupDecision::ReadAction };
    ending.at.checked_add(SIDE_CONTAINER_GRACE).map_or(CleanupDecision::Keep, CleanupDecision::DeleteAt)
}

/// Decides about an object by its own end, if it has a known one, or by the end of its action, if that is known.
fn decide(policy: Policy, completed_at: Option<Timestamp>, ending: Option<Ending>) -> CleanupDecision {
    let after = |end: Timestamp| end.checked_add(policy.after).map_or(CleanupDecision::Keep, CleanupDecision::DeleteAt);
    match (policy.which, ending, completed_at) {
        (DeleteFinished::Never, ..) => CleanupDecision::Keep,
        (_, Some(ending), _) if ending.succeeded || policy.which == DeleteFinished::Always => after(ending.at),
        (_, Some(_), _) => CleanupDecision::Keep,
        // The object has ended, and its action too: with this policy it does not matter how.
        (DeleteFinished::Always, None, Some(end)) => after(end),
        (_, None, _) => CleanupDecision::ReadAction,
    }
}

/// Decides about an object that has the executor's finalizer, by what is decided about its deletion. The finalizer of an
/// object that is not deleted now is removed when its action has ended.
fn decide_release(deletion: CleanupDecision, end: Option<ActionEnd>, now: Timestamp) -> CleanupDecision {
    match (deletion, end) {
        (CleanupDecision::DeleteAt(at), _) if at <= now => deletion,
        (CleanupDecision::ReadAction | CleanupDecision::Release, _) | (_, Some(ActionEnd::Gone)) => deletion,
        (CleanupDecision::Keep | CleanupDecision::DeleteAt(_), None) => CleanupDecision::ReadAction,
        (CleanupDecision::Keep | CleanupDecision::DeleteAt(_), Some(ActionEnd::Ended(_))) => CleanupDecision::Release,
    }
}

/// Deletes the objects that the policy names.
pub struct ObjectCleanup {
    /// Reads how an action ended.
    pub client: kube::Client,
    /// Deletes objects.
    pub objects: Arc<dyn Objects>,
    /// The pods in the cluster.
    pub pods: Arc<PodCache>,
    /// The other objects in the cluster.
    pub others: Arc<ObjectCache>,
    /// The actions that have not ended.
    pub action_store: Arc<ActionStore>,
    /// The plugins whose objects may be deleted.
    pub plugins: Vec<Arc<dyn ObjectPlugin>>,
    /// Which objects are deleted, and when.
    pub policy: Policy,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

type Uid = String;

/// An object of the executor whose action has ended.
struct LeftBehind<'a> {
    plugin: &'a dyn ObjectPlugin,
    object: Arc<dyn AnyResource>,
    action: ActionKey,
    /// The object is a pod with running containers.
    runs: bool,
    /// Somebody else deletes the object.
    is_terminating: bool,
    /// The plugin does not want its objects to be deleted.
    stays: bool,
}

impl LeftBehind<'_> {
    /// Decides about the object. `now` is the time of the search.
    async fn decide(&self, policy: Policy, end: Option<ActionEnd>, now: Timestamp) -> CleanupDecision {
        let deletion = self.decide_deletion(policy, end).await;
        if has_own_finalizer(self.object.metadata()) { decide_release(deletion, end, now) } else { deletion }
    }

    async fn decide_deletion(&self, policy: Policy, end: Option<ActionEnd>) -> CleanupDecision {
        let ending = match end {
            Some(_) if self.is_terminating => return CleanupDecision::Release,
            None if self.is_terminating => return CleanupDecision::ReadAction,
            Some(ActionEnd::Gone) => return CleanupDecision::Keep,
            Some(ActionEnd::Ended(ending)) => Some(ending),
            None => None,
        };
        if self.stays {
            return CleanupDecision::Keep;
        }
        if self.runs {
            return decide_running(ending);
        }
        let ended = guarded(self.plugin.ended(self.object.as_ref())).await.ok().flatten();
        decide(policy, ended.and_then(|ended| ended.at), ending)
    }
}

impl ObjectCleanup {
    /// Searches and deletes until cancelled.
    pub async fn run(&self, cancel: CancellationToken) {
        // By the UID of the object.
        let mut known: HashMap<Uid, ActionEnd> = HashMap::new();
        while cancel.run_until_cancelled(tokio::time::sleep(SEARCH_EVERY)).await.is_some() {
            if cancel.run_until_cancelled(self.search(&mut known)).await.is_none() {
                return;
            }
        }
    }

    async fn search(&self, known: &mut HashMap<Uid, ActionEnd>) {
        let found = self.left_behind();
        let there: HashSet<_> = found.iter().filter_map(|left| left.object.metadata().uid.as_ref()).collect();
        known.retain(|uid, _| there.contains(uid));
        let now = self.clock.now();
        let mut read = Vec::new();
        let mut at_work = FuturesUnordered::new();
        for left in &found {
            if at_work.len() == REQUESTS_IN_FLIGHT {
                read.extend(at_work.next().await);
            }
            let uid = left.object.metadata().uid.clone().unwrap_or_default();
            let end = known.get(&uid).copied();
            at_work.push(self.clean_up_in_time(left, uid, end, now));
        }
        read.extend(at_work.collect::<Vec<_>>().await);
        known.extend(read.into_iter().filter_map(|(uid, end)| Some((uid, end?))));
    }

    /// As [`Self::clean_up`]. What is not answered in time is tried again by the next search.
    async fn clean_up_in_time(
        &self,
        left: &LeftBehind<'_>,
        uid: Uid,
        end: Option<ActionEnd>,
        now: Timestamp,
    ) -> (Uid, Option<ActionEnd>) {
        let end = tokio::time::timeout(ANSWERED_WITHIN, self.clean_up(left, end, now)).await;
        (uid, end.ok().flatten())
    }

    /// Does what is to be done with an object now. Returns the end of its action, if that is known.
    async fn clean_up(&self, left: &LeftBehind<'_>, end: Option<ActionEnd>, now: Timestamp) -> Option<ActionEnd> {
        let mut end = end;
        let mut decision = left.decide(self.policy, end, now).await;
        if decision == CleanupDecision::ReadAction {
            match self.action_end(&left.action, left.object.metadata()).await {
                Ok(read @ Some(_)) => {
                    end = read;
                    decision = left.decide(self.policy, end, now).await;
                }
                // The next search reads it again.
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "failed to read an ended action; retrying later"),
            }
        }
        match decision {
            CleanupDecision::DeleteAt(at) if at <= now => {
                self.delete(&left.plugin.kind(), left.object.as_ref()).await;
            }
            CleanupDecision::Release => self.release(&left.plugin.kind(), left.object.as_ref()).await,
            CleanupDecision::DeleteAt(_) | CleanupDecision::Keep | CleanupDecision::ReadAction => {}
        }
        end
    }

    /// The objects of the executor whose action has ended. An object that somebody else deletes is among them only if it
    /// has the executor's finalizer.
    fn left_behind(&self) -> Vec<LeftBehind<'_>> {
        let pod = ResourceKind::of::<Pod>();
        let pods = self.pods.all().into_iter().map(|pod_of_task| {
            let runs = any_runs(&pod_of_task);
            (pod.clone(), pod_of_task as Arc<dyn AnyResource>, runs)
        });
        let others = self.others.all().into_iter().map(|(kind, object)| (kind, object, false));
        let candidates = pods.chain(others).filter_map(|(kind, object, runs)| {
            let metadata = object.metadata();
            let is_terminating = metadata.deletion_timestamp.is_some();
            let may_be_deleted = runs || self.policy.which != DeleteFinished::Never;
            let is_candidate = has_own_finalizer(metadata) || (!is_terminating && may_be_deleted);
            let (action, uid) = owner(metadata).filter(|_| is_candidate)?;
            let plugin = self.plugins.iter().find(|plugin| plugin.kind() == kind)?.as_ref();
            let stays = plugin.properties().disable_delete_on_finalize;
            let is_at_work = |stored: Arc<Action>| is_at_work_for(&stored.object.metadata, uid);
            let is_at_work = self.action_store.get(&action).is_some_and(is_at_work);
            (!is_at_work).then_some(LeftBehind { plugin, object, action, runs, is_terminating, stays })
        });
        candidates.collect()
    }

    /// How the action of an object ended; nothing if it has not.
    async fn action_end(&self, key: &ActionKey, object: &ObjectMeta) -> Result<Option<ActionEnd>, ApiError> {
        let api: Api<Listed<TaskAction>> = Api::namespaced(self.client.clone(), &key.namespace);
        let found = api.get_opt(&key.name).await.map_err(api_error)?;
        let Some(action) = found.map(Listed::into_action) else { return Ok(Some(ActionEnd::Gone)) };
        let owners = object.owner_references.as_deref().unwrap_or_default();
        if !owners.iter().any(|owner| Some(&owner.uid) == action.metadata.uid.as_ref()) || is_released(&action.metadata)
        {
            return Ok(Some(ActionEnd::Gone));
        }
        let status = action.status.unwrap_or_default();
        let succeeded = status.conditions.iter().any(|it| it.type_ == condition::SUCCEEDED && it.status == "True");
        Ok(status.ended_at().map(|at| ActionEnd::Ended(Ending { succeeded, at })))
    }

    async fn release(&self, kind: &ResourceKind, object: &dyn AnyResource) {
        if let Err(error) = self.objects.remove_finalizer(kind, object, OBJECT_FINALIZER).await
            && !error.is_not_found()
            && !error.is_gone()
        {
            let (namespace, name) = (&object.metadata().namespace, &object.metadata().name);
            tracing::warn!(namespace, name, %error, "failed to remove the finalizer of a deleted object; retrying");
        }
    }

    /// Deletes the object as it was seen. The watch of a new leader may still show a pod that runs although it has ended, and
    /// a pod that has ended keeps its logs.
    async fn delete(&self, kind: &ResourceKind, object: &dyn AnyResource) {
        let metadata = object.metadata();
        let deleted = match self.objects.delete_unchanged(kind, object).await {
            Ok(()) if has_own_finalizer(metadata) => {
                self.objects.remove_finalizer(kind, object, OBJECT_FINALIZER).await
            }
            answer => answer,
        };
        match deleted {
            Ok(()) => {
                metrics::counter!("aileron_finished_objects_deleted_total", "kind" => kind.kind.to_string())
                    .increment(1);
            }
            Err(error) if error.is_not_found() || error.is_gone() => {}
            // The next search decides again, by what the watch shows then.
            Err(error) if error.is_conflict() => {}
            Err(error) => {
                let (namespace, name) = (&metadata.namespace, &metadata.name);
                tracing::warn!(namespace, name, %error, "failed to delete a finished object; retrying");
            }
        }
    }
}

fn has_own_finalizer(metadata: &ObjectMeta) -> bool {
    metadata.finalizers.iter().flatten().any(|finalizer| finalizer == OBJECT_FINALIZER)
}

/// Whether the executor has nothing more to do for an action that is being deleted. Another finalizer may keep the action.
fn is_released(action: &ObjectMeta) -> bool {
    let is_ours = action.finalizers.iter().flatten().any(|finalizer| finalizer == ACTION_FINALIZER);
    action.deletion_timestamp.is_some() && !is_ours
}

/// Whether rounds of this action still take care of the objects of the action with this UID. An action of the same name
/// that was submitted later is another one.
fn is_at_work_for(action: &ObjectMeta, uid: &str) -> bool {
    action.uid.as_deref() == Some(uid) && !is_released(action)
}

fn any_runs(pod: &Pod) -> bool {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    statuses.iter().any(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()))
}

/// The action that owns an object, and its UID. An object without such an owner is not deleted.
fn owner(metadata: &ObjectMeta) -> Option<(ActionKey, &String)> {
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.kind == "TaskAction")?;
    Some((ActionKey::new(metadata.namespace.as_deref().unwrap_or_default(), &owner.name), &owner.uid))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    #[test]
    fn the_policy_decides_which_objects_go_and_when() {
        let policy = |which| Policy { which, after: SignedDuration::from_secs(60) };
        let (well, badly) = (Ending { succeeded: true, at: at(100) }, Ending { succeeded: false, at: at(100) });
        let never = policy(DeleteFinished::Never);
        assert_eq!(decide(never, Some(at(90)), Some(well)), CleanupDecision::Keep);
        let on_success = policy(DeleteFinished::OnSuccess);
        assert_eq!(
            decide(on_success, Some(at(90)), None),
            CleanupDecision::ReadAction,
            "a pod may end well and its task badly"
        );
        assert_eq!(decide(on_success, Some(at(90)), Some(well)), CleanupDecision::DeleteAt(at(160)));
        assert_eq!(decide(on_success, Some(at(90)), Some(badly)), CleanupDecision::Keep);
        let always = policy(DeleteFinished::Always);
        assert_eq!(decide(always, Some(at(90)), None), CleanupDecision::DeleteAt(at(150)));
        assert_eq!(decide(always, None, None), CleanupDecision::ReadAction, "it may still be at work");
        assert_eq!(decide(always, None, Some(badly)), CleanupDecision::DeleteAt(at(160)));
    }

    #[test]
    fn an_object_that_stays_loses_the_finalizer_when_its_action_has_ended() {
        let ended = Some(ActionEnd::Ended(Ending { succeeded: true, at: at(100) }));
        let (later, due) = (CleanupDecision::DeleteAt(at(200)), CleanupDecision::DeleteAt(at(150)));
        for stays in [CleanupDecision::Keep, later] {
            assert_eq!(decide_release(stays, ended, at(150)), CleanupDecision::Release);
            assert_eq!(decide_release(stays, None, at(150)), CleanupDecision::ReadAction, "it may be at work");
            assert_eq!(decide_release(stays, Some(ActionEnd::Gone), at(150)), stays, "Kubernetes deletes it");
        }
        assert_eq!(decide_release(due, ended, at(150)), due, "the deletion removes the finalizer");
    }

    /// The round that released the action may not have seen the finalizer of its object.
    #[test]
    fn no_round_takes_care_of_the_objects_of_a_released_action() {
        let action = |finalizers: &[&str], is_deleted: bool| ObjectMeta {
            uid: Some("one".to_owned()),
            finalizers: Some(finalizers.iter().map(ToString::to_string).collect()),
            deletion_timestamp: is_deleted.then(|| Time(at(100))),
            ..ObjectMeta::default()
        };
        assert!(is_at_work_for(&action(&[ACTION_FINALIZER], false), "one"));
        assert!(is_at_work_for(&action(&[ACTION_FINALIZER, "other"], true), "one"), "its last round is not over");
        assert!(is_at_work_for(&action(&[], false), "one"), "it has no finalizer yet");
        assert!(!is_at_work_for(&action(&["other"], true), "one"));
        assert!(!is_at_work_for(&action(&[ACTION_FINALIZER], false), "another action of the same name"));
    }

    #[test]
    fn objects_go_at_once_if_they_are_deleted_on_finalize() {
        let config = K8sConfig { delete_resource_on_finalize: true, ..K8sConfig::default() };
        assert_eq!(Policy::of(&config), Policy { which: DeleteFinished::Always, after: SignedDuration::ZERO });
        assert_eq!(Policy::of(&K8sConfig::default()).which, DeleteFinished::Never);
    }

    #[test]
    fn what_runs_on_after_its_task_goes_whatever_the_policy() {
        assert_eq!(decide_running(None), CleanupDecision::ReadAction, "its action may still be at work");
        let ending = Ending { succeeded: true, at: at(100) };
        assert_eq!(decide_running(Some(ending)), CleanupDecision::DeleteAt(at(100) + SIDE_CONTAINER_GRACE));
    }
}
