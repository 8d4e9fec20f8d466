//! The run policy of a job, from the task's words to the operator's.

use aileron_idl::flyteidl2::plugins::kubeflow as pb;

use super::resource::RunPolicy;

/// What the task says; zeros say nothing. Without a word the operator's own defaults apply.
///
/// Mirrors `common.ParseRunPolicy`.
pub(crate) fn run_policy(policy: Option<&pb::RunPolicy>) -> RunPolicy {
    let Some(policy) = policy else { return RunPolicy::default() };
    let said = |seconds: i32| Some(seconds).filter(|seconds| *seconds != 0);
    RunPolicy {
        clean_pod_policy: clean_pod_policy(policy.clean_pod_policy).map(str::to_owned),
        ttl_seconds_after_finished: said(policy.ttl_seconds_after_finished),
        active_deadline_seconds: said(policy.active_deadline_seconds).map(i64::from),
        backoff_limit: said(policy.backoff_limit),
        ..RunPolicy::default()
    }
}

/// A number that nobody has named leaves the choice to the operator.
fn clean_pod_policy(number: i32) -> Option<&'static str> {
    Some(match pb::CleanPodPolicy::try_from(number).ok()? {
        pb::CleanPodPolicy::CleanpodPolicyNone => "None",
        pb::CleanPodPolicy::CleanpodPolicyRunning => "Running",
        pb::CleanPodPolicy::CleanpodPolicyAll => "All",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_was_given_always_says_what_happens_to_pods() {
        assert_eq!(run_policy(None), RunPolicy::default());
        let given = pb::RunPolicy { active_deadline_seconds: 7, ..pb::RunPolicy::default() };
        let policy = run_policy(Some(&given));
        assert_eq!(policy.clean_pod_policy.as_deref(), Some("None"));
        assert_eq!((policy.active_deadline_seconds, policy.backoff_limit), (Some(7), None));
        let unknown = pb::RunPolicy { clean_pod_policy: 99, ..given };
        assert_eq!(run_policy(Some(&unknown)).clean_pod_policy, None);
    }
}
