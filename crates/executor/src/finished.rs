//! Deleting what ended attempts leave behind while their actions stay: never, always, or after success, and not before
//! some time has passed.
//!
//! What is to go is read from the watch caches and from the actions themselves, so nothing has to be remembered over a
//! restart, and no action waits for it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use aileron_machinery::config::{DeleteFinished, K8sConfig};
use aileron_machinery::{AnyK8sPlugin, AnyResource, ResourceKind};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ObjectMeta};
use tokio_util::sync::CancellationToken;

use crate::action::TaskAction;
use crate::action::conditions::condition;
use crate::cluster::{ApiError, Objects};
use crate::controller::memory::{ActionKey, Memory};
use crate::manager::identity::FINALIZER;
use crate::watch::kinds::ObjectCache;
use crate::watch::pods::PodCache;

/// How often the caches are looked through. It costs no request, and nobody waits for an object to go.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// `plugins.k8s.delete-finished` and `delete-finished-after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which objects go.
    pub which: DeleteFinished,
    /// How long they stay first.
    pub after: SignedDuration,
}

impl Policy {
    /// The policy of a configuration.
    pub fn of(config: &K8sConfig) -> Self {
        let after = SignedDuration::from_nanos(config.delete_finished_after.as_nanos());
        Self { which: config.delete_finished, after }
    }
}

/// How an action ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// It ended well.
    pub succeeded: bool,
    /// When.
    pub at: Timestamp,
}

/// What an action said about its end.
enum Asked {
    Ended(Ending),
    /// It has not ended; the next look asks again.
    AtWork,
    /// It is gone, and its objects go with it.
    Gone,
}

/// What is to happen to an object whose action is no longer at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep,
    /// That depends on how its action ended.
    AskAction,
    /// It goes at this moment.
    DeleteAt(Timestamp),
}

/// Judges an object by its own end, if it tells one, or by the end of its action, if that is known.
pub fn judge(policy: Policy, completed_at: Option<Timestamp>, ending: Option<Ending>) -> Verdict {
    let after = |end: Timestamp| end.checked_add(policy.after).map_or(Verdict::Keep, Verdict::DeleteAt);
    match (policy.which, ending, completed_at) {
        (DeleteFinished::Never, ..) => Verdict::Keep,
        (_, Some(ending), _) if ending.succeeded || policy.which == DeleteFinished::Always => after(ending.at),
        (_, Some(_), _) => Verdict::Keep,
        // An object that has ended, of an action that is not at work: how it ended does not matter.
        (DeleteFinished::Always, None, Some(end)) => after(end),
        (_, None, _) => Verdict::AskAction,
    }
}

/// Deletes what the policy says.
pub struct Reaper {
    /// To ask how an action ended.
    pub client: kube::Client,
    /// To delete with.
    pub objects: Arc<dyn Objects>,
    /// The pods there are.
    pub pods: Arc<PodCache>,
    /// The other objects there are.
    pub others: Arc<ObjectCache>,
    /// The actions that are still at work.
    pub memory: Arc<Memory>,
    /// Whose objects may go.
    pub plugins: Vec<Arc<dyn AnyK8sPlugin>>,
    /// When.
    pub policy: Policy,
}

type Uid = String;

/// An object, the plugin that made it, and its action.
type LeftBehind<'a> = (&'a Arc<dyn AnyK8sPlugin>, Arc<dyn AnyResource>, ActionKey);

impl Reaper {
    /// Looks and deletes until cancelled; nothing at all where nothing is to be deleted.
    pub async fn run(&self, cancel: CancellationToken) {
        if self.policy.which == DeleteFinished::Never {
            return;
        }
        // How actions ended, by the object that asked; none for an action that is not there.
        let mut known: HashMap<Uid, Option<Ending>> = HashMap::new();
        while cancel.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
            if cancel.run_until_cancelled(self.look(&mut known)).await.is_none() {
                return;
            }
        }
    }

    async fn look(&self, known: &mut HashMap<Uid, Option<Ending>>) {
        let found = self.left_behind();
        let there: HashSet<_> = found.iter().filter_map(|(_, object, _)| object.metadata().uid.as_ref()).collect();
        known.retain(|uid, _| there.contains(uid));
        let now = Timestamp::now();
        for (plugin, object, action) in &found {
            let metadata = object.metadata();
            let uid = metadata.uid.clone().unwrap_or_default();
            let completed_at = plugin.completed_at(object.as_ref()).ok().flatten();
            let completed_at = completed_at.filter(|_| plugin.is_terminal(object.as_ref()).unwrap_or_default());
            let mut verdict = judge(self.policy, completed_at, known.get(&uid).copied().flatten());
            if verdict == Verdict::AskAction && !known.contains_key(&uid) {
                match self.ending(action, metadata).await {
                    Ok(Asked::Ended(ending)) => {
                        known.insert(uid, Some(ending));
                        verdict = judge(self.policy, completed_at, Some(ending));
                    }
                    Ok(Asked::Gone) => {
                        known.insert(uid, None);
                    }
                    Ok(Asked::AtWork) => {}
                    Err(error) => tracing::debug!(%error, "an ended action cannot be asked for; trying again later"),
                }
            }
            if matches!(verdict, Verdict::DeleteAt(at) if at <= now) {
                self.delete(&plugin.kind(), object.as_ref()).await;
            }
        }
    }

    /// Objects of ours that are not going yet and whose action is no longer at work.
    fn left_behind(&self) -> Vec<LeftBehind<'_>> {
        let pod = ResourceKind::of::<Pod>();
        let pods = self.pods.all().into_iter().map(|object| (pod.clone(), object as Arc<dyn AnyResource>));
        let candidates = pods.chain(self.others.all()).filter_map(|(kind, object)| {
            let metadata = object.metadata();
            let action = owner(metadata).filter(|_| metadata.deletion_timestamp.is_none())?;
            let plugin = self.plugins.iter().find(|plugin| plugin.kind() == kind)?;
            let stays = plugin.properties().disable_delete_on_finalize || self.memory.get(&action).is_some();
            (!stays).then_some((plugin, object, action))
        });
        candidates.collect()
    }

    /// How the action of an object ended.
    async fn ending(&self, key: &ActionKey, object: &ObjectMeta) -> Result<Asked, ApiError> {
        let api: Api<TaskAction> = Api::namespaced(self.client.clone(), &key.namespace);
        let Some(action) = api.get_opt(&key.name).await? else { return Ok(Asked::Gone) };
        let owners = object.owner_references.as_deref().unwrap_or_default();
        if !owners.iter().any(|owner| Some(&owner.uid) == action.metadata.uid.as_ref()) {
            return Ok(Asked::Gone);
        }
        let status = action.status.unwrap_or_default();
        let succeeded = status.conditions.iter().any(|it| it.type_ == condition::SUCCEEDED && it.status == "True");
        Ok(status.ended_at().map_or(Asked::AtWork, |at| Asked::Ended(Ending { succeeded, at })))
    }

    async fn delete(&self, kind: &ResourceKind, object: &dyn AnyResource) {
        let metadata = object.metadata();
        let (namespace, name) =
            (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default());
        let bears_ours = metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER);
        let released = if bears_ours { self.objects.remove_finalizer(kind, object, FINALIZER).await } else { Ok(()) };
        let deleted = match released {
            Ok(()) => self.objects.delete(kind, namespace, name).await,
            refused => refused,
        };
        match deleted {
            Ok(()) => {
                metrics::counter!("aileron_finished_objects_deleted_total", "kind" => kind.kind.to_string())
                    .increment(1);
            }
            Err(error) if error.is_not_found() || error.is_gone() => {}
            Err(error) => tracing::warn!(namespace, name, %error, "failed to delete a finished object; trying again"),
        }
    }
}

/// The action that owns an object. One without such an owner is not ours to delete.
fn owner(metadata: &ObjectMeta) -> Option<ActionKey> {
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.kind == "TaskAction")?;
    Some(ActionKey::new(metadata.namespace.as_deref().unwrap_or_default(), &owner.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    #[test]
    fn the_policy_decides_which_objects_go_and_when() {
        let policy = |which| Policy { which, after: SignedDuration::from_secs(60) };
        let (well, badly) = (Ending { succeeded: true, at: at(100) }, Ending { succeeded: false, at: at(100) });
        let never = policy(DeleteFinished::Never);
        assert_eq!(judge(never, Some(at(90)), Some(well)), Verdict::Keep);
        let on_success = policy(DeleteFinished::OnSuccess);
        assert_eq!(judge(on_success, Some(at(90)), None), Verdict::AskAction, "a pod may end well and its task badly");
        assert_eq!(judge(on_success, Some(at(90)), Some(well)), Verdict::DeleteAt(at(160)));
        assert_eq!(judge(on_success, Some(at(90)), Some(badly)), Verdict::Keep);
        let always = policy(DeleteFinished::Always);
        assert_eq!(judge(always, Some(at(90)), None), Verdict::DeleteAt(at(150)));
        assert_eq!(judge(always, None, None), Verdict::AskAction, "it may still be at work");
        assert_eq!(judge(always, None, Some(badly)), Verdict::DeleteAt(at(160)));
    }
}
