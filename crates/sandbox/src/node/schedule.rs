//! Binds pods to the node, the oldest of those that fit first.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::events::{Recorder, Speaker, Tone};
use super::fit::{Misfit, Room};
use super::requests::{self, Amounts};
use super::retry;

/// After a binding that was refused for no reason that is known here.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// Who waits and who has a place.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    known: Mutex<Known>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Known {
    /// By priority, the highest first, then by age; the number tells apart those of one second.
    waiting: BTreeMap<Rank, Arc<Pod>>,
    ranks: HashMap<String, Rank>,
    placed: HashMap<String, Amounts>,
    next: u64,
}

type Rank = (i32, Timestamp, u64);

/// Whether a pod waits for a place, has one, or neither.
enum Standing {
    Waits,
    Placed,
    Over,
}

impl Queue {
    /// A pod was added or changed. `node` is the name of the only node there is.
    pub(crate) fn see(&self, pod: &Arc<Pod>, node: &str) {
        let uid = pod.uid().unwrap_or_default();
        let mut known = self.lock();
        match standing(pod, node) {
            Standing::Waits if known.placed.contains_key(&uid) => {} // bound, and the watch does not know yet
            Standing::Waits => {
                let is_new = !known.ranks.contains_key(&uid);
                let rank = known.rank(uid, pod);
                let before = known.waiting.insert(rank, pod.clone());
                // Only what the pod itself says can make it fit: its own status does not matter.
                if is_new || before.is_none_or(|before| before.metadata.generation != pod.metadata.generation) {
                    self.changed.notify_one();
                }
            }
            Standing::Placed => {
                known.leave(&uid);
                known.placed.entry(uid).or_insert_with(|| requests::effective(pod));
            }
            Standing::Over => self.release(known, &uid),
        }
    }

    /// A pod is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.release(self.lock(), uid);
    }

    fn release(&self, mut known: MutexGuard<'_, Known>, uid: &str) {
        known.leave(uid);
        if known.placed.remove(uid).is_some() {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn rank(&mut self, uid: String, pod: &Pod) -> Rank {
        let next = self.next;
        let rank = *self.ranks.entry(uid).or_insert_with(|| {
            let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
            let created = pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
            (priority.saturating_neg(), created, next)
        });
        self.next += u64::from(rank.2 == next);
        rank
    }

    fn leave(&mut self, uid: &str) {
        if let Some(rank) = self.ranks.remove(uid) {
            self.waiting.remove(&rank);
        }
    }
}

fn standing(pod: &Pod, node: &str) -> Standing {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let Some(spec) = &pod.spec else { return Standing::Over };
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return Standing::Over;
    }
    match spec.node_name.as_deref() {
        Some(name) if name == node => Standing::Placed,
        Some(name) if !name.is_empty() => Standing::Over,
        _ => {
            let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
            let ours = spec.scheduler_name.as_deref().is_none_or(|name| name == "default-scheduler");
            let stays = pod.metadata.deletion_timestamp.is_none();
            if ours && stays && !gated { Standing::Waits } else { Standing::Over }
        }
    }
}

/// Binds what fits whenever something changed.
pub(crate) async fn run(queue: Arc<Queue>, room: Room, client: Client, recorder: Recorder) {
    let mut told: HashMap<String, String> = HashMap::new();
    loop {
        queue.changed.notified().await;
        let (waiting, mut taken, mut count) = {
            let known = queue.lock();
            let mut taken = Amounts::new();
            known.placed.values().for_each(|amounts| requests::add(&mut taken, amounts));
            (known.waiting.values().cloned().collect::<Vec<_>>(), taken, known.placed.len())
        };
        told.retain(|uid, _| queue.lock().ranks.contains_key(uid));
        let mut refused = false;
        for pod in waiting {
            let uid = pod.uid().unwrap_or_default();
            match room.check(&pod, &taken, count) {
                Ok(()) => match bind(&client, &pod, &room.name).await {
                    Ok(Some(())) => {
                        let amounts = requests::effective(&pod);
                        requests::add(&mut taken, &amounts);
                        count += 1;
                        let mut known = queue.lock();
                        known.leave(&uid);
                        known.placed.insert(uid, amounts);
                        drop(known);
                        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
                        let message = format!("Successfully assigned {namespace}/{name} to {}", room.name);
                        recorder.note(&pod, None, (Speaker::Scheduler, Tone::Normal, "Scheduled"), message);
                    }
                    // Gone or bound by somebody else: the watch will tell.
                    Ok(None) => queue.lock().leave(&uid),
                    Err(error) => {
                        tracing::warn!(%error, pod = %pod.name_any(), "a pod cannot be bound");
                        refused = true;
                    }
                },
                Err(misfit) => {
                    let message = misfit.message();
                    if told.get(&uid) != Some(&message) {
                        tell(&client, &pod, &misfit).await;
                        let what = (Speaker::Scheduler, Tone::Warning, "FailedScheduling");
                        recorder.note(&pod, None, what, message.clone());
                        told.insert(uid, message);
                    }
                }
            }
        }
        if refused {
            let queue = queue.clone();
            tokio::spawn(async move {
                tokio::time::sleep(AFTER_REFUSAL).await;
                queue.changed.notify_one();
            });
        }
    }
}

async fn bind(client: &Client, pod: &Pod, node: &str) -> kube::Result<Option<()>> {
    let name = pod.name_any();
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "uid": pod.uid()},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let params = PostParams::default();
    let bound =
        retry::until_answered(|| api.create_subresource::<_, Value>("binding", &name, &params, &binding)).await?;
    Ok(bound.map(drop))
}

/// Says in the pod's status that it has no place, and why.
async fn tell(client: &Client, pod: &Pod, misfit: &Misfit) {
    let name = pod.name_any();
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let known = pod.status.as_ref().and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let since = known.filter(|one| one.type_ == "PodScheduled" && one.status == "False");
    let since = since.filter_map(|one| one.last_transition_time.as_ref()).map(|time| time.0).next();
    let since = since.unwrap_or_else(Timestamp::now).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": misfit.message(),
        "lastTransitionTime": since,
    });
    let patch = Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}}));
    let params = PatchParams::default();
    if let Err(error) = retry::until_answered(|| api.patch_status(&name, &params, &patch)).await {
        tracing::debug!(%error, pod = %name, "the status of a pod was refused");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn pod(uid: &str, created: i64, spec: &Value) -> Arc<Pod> {
        let created = Timestamp::from_second(created).unwrap().to_string();
        let metadata = json!({"name": uid, "uid": uid, "creationTimestamp": created});
        let mut pod = json!({"metadata": metadata, "spec": {"containers": []}, "status": {"phase": "Pending"}});
        for (key, value) in spec.as_object().into_iter().flatten() {
            pod["spec"][key] = value.clone();
        }
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn waiting(queue: &Queue) -> Vec<String> {
        queue.lock().waiting.values().map(|pod| pod.name_any()).collect()
    }

    fn was_told(queue: &Queue) -> bool {
        queue.changed.notified().now_or_never().is_some()
    }

    #[test]
    fn the_oldest_goes_first_unless_another_matters_more() {
        let queue = Queue::default();
        for (uid, created, spec) in [
            ("young", 9, json!({})),
            ("old", 1, json!({})),
            ("same-second", 1, json!({})),
            ("urgent", 9, json!({"priority": 5})),
            ("gated", 1, json!({"schedulingGates": [{"name": "g"}]})),
            ("others", 1, json!({"schedulerName": "another"})),
        ] {
            queue.see(&pod(uid, created, &spec), "n");
        }
        assert_eq!(waiting(&queue), ["urgent", "old", "same-second", "young"]);
    }

    #[test]
    fn only_what_can_change_an_answer_wakes_the_scheduler() {
        let queue = Queue::default();
        let (waits, bound) = (pod("a", 1, &json!({})), pod("b", 1, &json!({"nodeName": "n"})));
        queue.see(&waits, "n");
        assert!(was_told(&queue));
        queue.see(&waits, "n");
        queue.see(&bound, "n");
        assert!(!was_told(&queue), "nothing new, and nothing freed");
        queue.forget("b");
        assert!(was_told(&queue), "a place is free");
        queue.forget("a");
        assert!(!was_told(&queue), "it had none");
        assert!(waiting(&queue).is_empty());
    }

    #[test]
    fn a_pod_that_was_bound_does_not_wait_again() {
        let queue = Queue::default();
        queue.lock().placed.insert("a".to_owned(), Amounts::new());
        queue.see(&pod("a", 1, &json!({})), "n");
        assert!(waiting(&queue).is_empty(), "the watch is behind");
    }
}
