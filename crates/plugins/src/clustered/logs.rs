//! Where the logs of a set can be read.

use aileron_idl::flyteidl2::core::{LogContext, TaskLog};
use aileron_machinery::PhaseContext;
use aileron_machinery::log_links::{LinkInput, LogLinks};
use aileron_machinery::pod::log_context::pod_log_context;

use super::rank_zero::{is_rank_zero, phase, set_name};
use super::resource::JobSet;
use super::{PRIMARY_CONTAINER_ANNOTATION, WORKERS};

/// Links for every rank. They are there before the pods are, so they name pods without the random end of their names.
pub(super) fn links(cx: &PhaseContext<'_>, set: &JobSet) -> Vec<TaskLog> {
    let task = cx.task;
    let links = LogLinks::new(&task.platform.logs, Some(&task.template));
    let of_rank = |rank: i32| {
        links.links(&LinkInput {
            pod_name: &format!("{}-{WORKERS}-0-{rank}", set_name(set)),
            namespace: set.metadata.namespace.as_deref().unwrap_or_default(),
            log_name: &format!("rank-{rank}"),
            pod_start: set.metadata.creation_timestamp.as_ref().map(|time| time.0.into()),
            pod_finish: Some(task.now.into()),
            id: Some(&task.metadata.id),
            template: Some(&task.template),
            container_name: primary_container(set),
            ..LinkInput::default()
        })
    };
    (0..ranks(set)).flat_map(of_rank).collect()
}

/// The pods that have logs; nothing until there is one.
///
/// Mirrors `clustered.getLogContext`.
pub(super) fn log_context(cx: &PhaseContext<'_>, set: &JobSet) -> Option<LogContext> {
    let started = cx.pods.iter().filter(|pod| phase(pod) != "Pending");
    let mut context = LogContext::default();
    for pod in started {
        let mut of_pod = pod_log_context(pod);
        if !primary_container(set).is_empty() {
            primary_container(set).clone_into(&mut of_pod.primary_container_name);
        }
        if is_rank_zero(set, pod) {
            context.primary_pod_name.clone_from(&of_pod.pod_name);
        }
        context.pods.push(of_pod);
    }
    // A primary pod that is not in the list could not be read from.
    let first = &context.pods.first()?.pod_name;
    if context.primary_pod_name.is_empty() {
        context.primary_pod_name = first.clone();
    }
    Some(context)
}

/// The container that runs the task.
pub(super) fn primary_container(set: &JobSet) -> &str {
    let annotations = set.metadata.annotations.as_ref();
    annotations.and_then(|annotations| annotations.get(PRIMARY_CONTAINER_ANNOTATION)).map_or("", String::as_str)
}

fn ranks(set: &JobSet) -> i32 {
    let workers = set.spec.replicated_jobs.iter().find(|job| job.name == WORKERS);
    workers.and_then(|job| job.template.spec.as_ref()?.parallelism).unwrap_or(0)
}
