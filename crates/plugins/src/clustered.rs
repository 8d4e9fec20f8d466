//! Tasks that run on several pods at once, such as distributed training: one `JobSet` each.

mod build;
mod environment;
mod logs;
mod phase;
mod rank_zero;
pub mod resource;

use aileron_machinery::{
    Ended, K8sPlugin, Needs, PhaseContext, PhaseInfo, PluginEntry, PluginError, PluginProperties, TaskContext,
};

use self::resource::JobSet;

/// Id of the plugin, and the task type it serves.
const CLUSTERED_TASK: &str = "clustered-task";

/// The only replicated job of the set. Its pods are called `<JobSet>-workers-0-<rank>-<random end>`.
const WORKERS: &str = "workers";

/// Names the container that runs the task, on the set. Pods of jobs do not bear the usual annotation.
const PRIMARY_CONTAINER_ANNOTATION: &str = "flyte.org/primary-container";

/// More pods than any task has; the highest rank has as many digits as names leave room for.
const MAX_REPLICAS: i32 = 100_000;

/// Longest name of a pod that can be found by DNS.
const POD_NAME_MAX_LENGTH: usize = 63;

/// What is added to the name of the set for the longest name of a pod: job, index of the job, highest rank, and the
/// end that jobs give their pods. The JobSet webhook refuses sets whose pods would have longer names, whatever their
/// number of replicas is; and it must not depend on that number, since a set is also looked up without its task.
const LONGEST_POD_SUFFIX: &str = "-workers-0-99999-abcde";

const NAME_MAX_LENGTH: usize = POD_NAME_MAX_LENGTH - LONGEST_POD_SUFFIX.len();

/// Runs a task as a `JobSet`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusteredPlugin;

impl K8sPlugin for ClusteredPlugin {
    type Resource = JobSet;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new(CLUSTERED_TASK, &[CLUSTERED_TASK])
    }

    fn properties(&self) -> PluginProperties {
        PluginProperties::default().with_name_max_length(NAME_MAX_LENGTH)
    }

    fn needs(&self, task: &TaskContext) -> Needs {
        Needs::of_pod(task).with_pods()
    }

    fn build(&self, task: &TaskContext) -> Result<JobSet, PluginError> {
        build::build(task)
    }

    fn phase(&self, cx: &PhaseContext<'_>, set: &JobSet) -> Result<PhaseInfo, PluginError> {
        Ok(phase::phase(cx, set)?.with_check_at(phase::check_at(cx, set)))
    }

    fn ended(&self, set: &JobSet) -> Option<Ended> {
        phase::ended(set)
    }
}

#[cfg(test)]
mod tests;
