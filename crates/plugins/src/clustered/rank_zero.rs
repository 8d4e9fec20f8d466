//! The pod of rank 0, which speaks for all of them.

use std::sync::Arc;

use aileron_machinery::PhaseContext;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::WORKERS;
use super::resource::JobSet;

/// The pod belongs to rank 0 of the set. Its name goes on with a random end.
pub(super) fn is_rank_zero(set: &JobSet, pod: &Pod) -> bool {
    let rest = pod.metadata.name.as_deref().unwrap_or_default().strip_prefix(set_name(set));
    rest.and_then(|rest| rest.strip_prefix('-'))
        .and_then(|rest| rest.strip_prefix(WORKERS))
        .is_some_and(|rest| rest.starts_with("-0-0"))
}

/// The pod of rank 0. Earlier starts of the set may have left theirs, so one that is alive is preferred, then the
/// newest.
///
/// Mirrors `clustered.findRank0Pod`.
pub(super) fn rank_zero<'a>(cx: &PhaseContext<'a>, set: &JobSet) -> Option<&'a Pod> {
    let pods = cx.pods.iter().filter(|pod| pod.metadata.namespace == set.metadata.namespace);
    pods.filter(|pod| is_rank_zero(set, pod)).map(Arc::as_ref).max_by_key(|pod| preference(pod))
}

fn preference(pod: &Pod) -> (bool, Option<Timestamp>, &str) {
    let alive = matches!(phase(pod), "Running" | "Pending");
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (alive, created, pod.metadata.name.as_deref().unwrap_or_default())
}

/// What the pod says about itself.
pub(super) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// The name that the pods' names begin with.
pub(super) fn set_name(set: &JobSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}
