//! A job as the cluster shows it, whatever it trains with.

use std::cmp::Reverse;

use aileron_machinery::Ended;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::config::KubeflowConfig;
use super::resource::{JobCondition, JobStatus, ReplicaSpecs};

/// What reading a job needs of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'a> {
    /// Its task type, which is also the name of the container that does the work.
    pub(crate) framework: &'static str,
    /// Its metadata.
    pub(crate) metadata: &'a ObjectMeta,
    /// Its replicas.
    pub(crate) replicas: &'a ReplicaSpecs,
    /// What the operator says.
    pub(crate) status: Option<&'a JobStatus>,
}

/// A job about which the operator says nothing useful. That it has not started is said in upstream's words, because
/// they end in events of the action.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SilentJob {
    #[error("kubeflow operator hasn't updated the {framework} custom resource since creation time {}", go_time(.created))]
    NotStarted { framework: &'static str, created: Option<Timestamp> },
    #[error("no condition of {framework} job {name} holds, only the opposite of: [{types}]")]
    NoCurrentCondition { framework: &'static str, name: String, types: String },
}

impl<'a> Job<'a> {
    /// The operator has not begun with the job. It must within a while, or it is not there.
    ///
    /// The condition that holds now is the newest one that is true; none before the operator has set any.
    ///
    /// Mirrors `common.ExtractCurrentCondition` and the check before it.
    pub(crate) fn current_condition(
        &self,
        config: &KubeflowConfig,
        now: Timestamp,
    ) -> Result<Option<&'a JobCondition>, SilentJob> {
        let framework = self.framework;
        if self.start_time().is_none() && self.start_deadline(config).is_none_or(|deadline| deadline < now) {
            return Err(SilentJob::NotStarted { framework, created: self.created() });
        }
        let Some(conditions) = self.status.and_then(|status| status.conditions.as_deref()) else { return Ok(None) };
        let newest_first = newest_first(conditions);
        newest_first.iter().find(|condition| condition.holds()).copied().map(Some).ok_or_else(|| {
            let types: Vec<_> = newest_first.iter().map(|condition| condition.type_.as_str()).collect();
            SilentJob::NoCurrentCondition { framework, name: self.name().to_owned(), types: types.join(", ") }
        })
    }

    /// When to check whether the operator has begun; absent once it has.
    pub(crate) fn check_at(&self, config: &KubeflowConfig, now: Timestamp) -> Option<Timestamp> {
        if self.start_time().is_some() {
            return None;
        }
        // The deadline has to be exceeded, not only reached.
        let after = self.start_deadline(config)?.checked_add(SignedDuration::from_millis(1)).ok()?;
        Some(after).filter(|after| *after > now)
    }

    /// The end of the job, at its completion or the closest time that is known.
    ///
    /// An end counts even while its condition does not hold, as upstream has it.
    pub(crate) fn ended(&self) -> Option<Ended> {
        let failed = self.ends().next()?.is_failure();
        let completion = self.status.and_then(|status| status.completion_time.as_ref()).map(at);
        let ended_at = completion
            .or_else(|| self.ends().filter_map(|end| end.last_transition_time.as_ref().map(at)).max())
            .or_else(|| self.start_time())
            .or_else(|| self.created());
        Some(Ended::new(ended_at, failed))
    }

    /// How many replicas a role has.
    pub(crate) fn count(&self, role: &str) -> i32 {
        self.replicas.get(role).and_then(|spec| spec.replicas).unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &'a str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn created(&self) -> Option<Timestamp> {
        self.metadata.creation_timestamp.as_ref().map(at)
    }

    fn start_time(&self) -> Option<Timestamp> {
        self.status.and_then(|status| status.start_time.as_ref()).map(at)
    }

    fn start_deadline(&self, config: &KubeflowConfig) -> Option<Timestamp> {
        self.created()?.checked_add(SignedDuration::from_nanos(config.timeout.as_nanos())).ok()
    }

    fn ends(&self) -> impl Iterator<Item = &'a JobCondition> {
        let conditions = self.status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        conditions.iter().filter(|condition| condition.is_end())
    }
}

/// Conditions by the time of their last change.
pub(super) fn newest_first(conditions: &[JobCondition]) -> Vec<&JobCondition> {
    let mut sorted: Vec<_> = conditions.iter().collect();
    sorted.sort_by_key(|condition| Reverse(condition.last_transition_time.as_ref().map(at)));
    sorted
}

/// A moment as Go writes it; an unknown one is the beginning of its calendar.
fn go_time(at: &Option<Timestamp>) -> String {
    at.map_or_else(
        || "0001-01-01 00:00:00 +0000 UTC".to_owned(),
        |at| at.strftime("%Y-%m-%d %H:%M:%S%.f +0000 UTC").to_string(),
    )
}

fn at(time: &Time) -> Timestamp {
    time.0
}

#[cfg(test)]
mod tests;
