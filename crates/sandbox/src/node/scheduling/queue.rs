//! The pods that wait for a node, and the pods that are assigned to this node.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use tokio::sync::Notify;

use crate::node::resources::{self, Amounts};

/// The pods that wait for a node, and the pods that are assigned to this node.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    content: Mutex<QueueContent>,
    /// Notified if a pod that waits may fit now.
    changed: Notify,
}

#[derive(Debug, Default)]
struct QueueContent {
    /// Pods that wait, in the order in which they are scheduled.
    waiting: BTreeMap<Rank, Arc<Pod>>,
    /// Position of each pod that waits, by uid.
    ranks: HashMap<String, Rank>,
    /// Requests of each assigned pod, by uid.
    assigned: HashMap<String, Amounts>,
    /// Number of the next pod.
    next: u64,
}

/// Position in the queue: the negative priority, so that the highest priority is first, then the creation time, then a
/// number that orders pods of the same second.
type Rank = (i32, Timestamp, u64);

/// What a pod means to the scheduler.
enum SchedulingState {
    /// It waits for a node.
    Waiting,
    /// It is assigned to this node and has not terminated.
    Assigned,
    /// It has terminated, is being deleted, or belongs to another node or scheduler.
    Ignored,
}

impl Queue {
    /// Updates the queue with a new or changed pod. `node` is the name of the node.
    pub(crate) fn update(&self, pod: &Arc<Pod>, node: &str) {
        let uid = pod.uid().unwrap_or_default();
        let mut content = self.lock();
        match scheduling_state(pod, node) {
            // The pod has been bound, but this version from the watch is older than the binding.
            SchedulingState::Waiting if content.assigned.contains_key(&uid) => {}
            SchedulingState::Waiting => {
                let is_new = !content.ranks.contains_key(&uid);
                let rank = content.rank(uid, pod);
                let before = content.waiting.insert(rank, pod.clone());
                // A new attempt makes sense only if the spec has changed. A change of the status is not enough.
                if is_new || before.is_none_or(|before| before.metadata.generation != pod.metadata.generation) {
                    self.changed.notify_one();
                }
            }
            SchedulingState::Assigned => {
                content.dequeue(&uid);
                content.assigned.entry(uid).or_insert_with(|| resources::pod_requests(pod));
            }
            SchedulingState::Ignored => self.release(content, &uid),
        }
    }

    /// Removes a deleted pod.
    pub(crate) fn remove(&self, uid: &str) {
        self.release(self.lock(), uid);
    }

    /// Waits until a pod that waits may fit.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Asks for another attempt to schedule the waiting pods.
    pub(super) fn notify(&self) {
        self.changed.notify_one();
    }

    /// The pods that wait, in the order in which they are scheduled; the sum of the requests of all assigned pods; and
    /// the number of assigned pods.
    pub(super) fn snapshot(&self) -> (Vec<Arc<Pod>>, Amounts, usize) {
        let content = self.lock();
        let mut used = Amounts::new();
        content.assigned.values().for_each(|amounts| resources::add(&mut used, amounts));
        (content.waiting.values().cloned().collect(), used, content.assigned.len())
    }

    pub(super) fn is_waiting(&self, uid: &str) -> bool {
        self.lock().ranks.contains_key(uid)
    }

    /// Stops to wait for a pod that cannot be bound any more.
    pub(super) fn dequeue(&self, uid: &str) {
        self.lock().dequeue(uid);
    }

    /// A pod was bound to this node.
    pub(super) fn assign(&self, uid: String, requests: Amounts) {
        let mut content = self.lock();
        content.dequeue(&uid);
        content.assigned.insert(uid, requests);
    }

    fn release(&self, mut content: MutexGuard<'_, QueueContent>, uid: &str) {
        content.dequeue(uid);
        if content.assigned.remove(uid).is_some() {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueContent> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueContent {
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

    fn dequeue(&mut self, uid: &str) {
        if let Some(rank) = self.ranks.remove(uid) {
            self.waiting.remove(&rank);
        }
    }
}

fn scheduling_state(pod: &Pod, node: &str) -> SchedulingState {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let Some(spec) = &pod.spec else { return SchedulingState::Ignored };
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return SchedulingState::Ignored;
    }
    match spec.node_name.as_deref() {
        Some(name) if name == node => SchedulingState::Assigned,
        Some(name) if !name.is_empty() => SchedulingState::Ignored,
        _ => {
            let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
            let ours = spec.scheduler_name.as_deref().is_none_or(|name| name == "default-scheduler");
            let stays = pod.metadata.deletion_timestamp.is_none();
            if ours && stays && !gated { SchedulingState::Waiting } else { SchedulingState::Ignored }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures::FutureExt as _;
    use serde_json::{Value, json};

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

    fn is_notified(queue: &Queue) -> bool {
        queue.changed.notified().now_or_never().is_some()
    }

    #[test]
    fn the_oldest_pod_is_first_unless_another_has_a_higher_priority() {
        let queue = Queue::default();
        for (uid, created, spec) in [
            ("young", 9, json!({})),
            ("old", 1, json!({})),
            ("same-second", 1, json!({})),
            ("urgent", 9, json!({"priority": 5})),
            ("gated", 1, json!({"schedulingGates": [{"name": "g"}]})),
            ("others", 1, json!({"schedulerName": "another"})),
        ] {
            queue.update(&pod(uid, created, &spec), "n");
        }
        assert_eq!(waiting(&queue), ["urgent", "old", "same-second", "young"]);
    }

    #[test]
    fn the_scheduler_is_notified_only_if_a_pod_may_fit_now() {
        let queue = Queue::default();
        let (waiting_pod, bound) = (pod("a", 1, &json!({})), pod("b", 1, &json!({"nodeName": "n"})));
        queue.update(&waiting_pod, "n");
        assert!(is_notified(&queue));
        queue.update(&waiting_pod, "n");
        queue.update(&bound, "n");
        assert!(!is_notified(&queue), "no new pod, and no capacity became free");
        queue.remove("b");
        assert!(is_notified(&queue), "capacity became free");
        queue.remove("a");
        assert!(!is_notified(&queue), "it had no capacity assigned");
        assert!(waiting(&queue).is_empty());
    }

    #[test]
    fn a_bound_pod_does_not_wait_again() {
        let queue = Queue::default();
        queue.lock().assigned.insert("a".to_owned(), Amounts::new());
        queue.update(&pod("a", 1, &json!({})), "n");
        assert!(waiting(&queue).is_empty(), "the version from the watch is older than the binding");
    }
}
