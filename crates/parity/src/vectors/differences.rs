//! The list of deliberate differences from upstream, used by the comparison of recorded cases and by `docs/differences.md`.
//!
//! A difference says what it changes in a recorded result; everything else in that result is still compared.

mod markdown;
mod rules;

use serde_json::Value;

use crate::vectors::case::Case;
use crate::vectors::upstream_bugs::{memory_env_may_select_memory, success_stays_success};

pub use markdown::{MarkdownError, render_markdown};

/// One deliberate difference.
pub struct OnPurpose {
    /// A short name.
    pub id: &'static str,
    /// What differs and why, in one sentence for users.
    pub reason: &'static str,
    /// Its effect on the comparison with recorded results.
    pub effect: Effect,
}

/// The effect of a difference on the comparison with recorded results.
pub enum Effect {
    /// Changes the recorded and our result before they are compared.
    Normalise(fn(&Case, &mut Value, &mut Value)),
    /// Cases that are not run, because no part of their result can be equal.
    Skip(fn(&Case) -> bool),
}

/// All deliberate differences.
pub const ON_PURPOSE: &[OnPurpose] = &[
    OnPurpose {
        id: "event-error-code",
        reason: "Action events carry the code of an error in `error_info.code`, which upstream leaves empty, so that \
                 users can tell an `OOMKilled` from an `Interrupted` without reading the message.",
        effect: Effect::Normalise(rules::ignore_error_codes_of_events),
    },
    OnPurpose {
        id: "failed-attempt-reported",
        reason: "When an attempt fails and another follows, the failed attempt is reported with a FAILED event before \
                 the QUEUED of the next one; upstream never reports it.",
        effect: Effect::Normalise(rules::ignore_failed_attempt_before_next),
    },
    OnPurpose {
        id: "no-polling",
        reason: "An action is reconciled again when something changed or a timer is due; upstream reconciles it every \
                 `executor.requeueDuration`, whether or not anything changed.",
        effect: Effect::Normalise(rules::ignore_polls),
    },
    OnPurpose {
        id: "own-finalizer-only",
        reason: "Only our own finalizer is removed from an object, by a patch; upstream empties the whole list by an \
                 update and so also removes the finalizers of other controllers.",
        effect: Effect::Normalise(rules::patch_instead_of_update),
    },
    OnPurpose {
        id: "adopt-from-watch",
        reason: "An object of the attempt that is already in the watch cache is adopted without trying to create it again.",
        effect: Effect::Normalise(rules::ignore_creates_of_existing),
    },
    OnPurpose {
        id: "no-foreign-objects",
        reason: "An object that has the name of an attempt but another owner is never adopted, watched or deleted; the \
                 task reports it and waits, while upstream adopts the foreign pod and deletes it with the action.",
        effect: Effect::Normalise(rules::cut_at_foreign_object),
    },
    OnPurpose {
        id: "wait-for-terminating",
        reason: "A relaunch waits until the object of the failed launch is gone; upstream takes the terminating \
                 object for the new one and fails again.",
        effect: Effect::Normalise(rules::cut_at_terminating_object),
    },
    OnPurpose {
        id: "wait-for-quota",
        reason: "A create that is refused because a quota is used up or because the API server is overloaded makes the \
                 task wait without using an attempt; upstream charges a full quota to the user's retries and an \
                 overloaded server to the platform's failures.",
        effect: Effect::Normalise(rules::cut_at_waiting_for_quota),
    },
    OnPurpose {
        id: "discarded-object-released",
        reason: "Our finalizer is removed from the object of a failed launch, so that the object is deleted and the \
                 relaunch can use its name; upstream leaves the finalizer, and the name stays in use.",
        effect: Effect::Normalise(rules::cut_at_released_object),
    },
    OnPurpose {
        id: "system-failures-kept-over-relaunch",
        reason: "The count of system failures is reset when a task gets further than before, not already when it is \
                 relaunched; upstream relaunches a task that always fails in the same way for ever.",
        effect: Effect::Normalise(rules::ignore_failures_kept_over_relaunch),
    },
    OnPurpose {
        id: "pending-condition",
        reason: "While an action waits, a condition of type `Pending` says for what, by a code that is the same for all \
                 plugins and by a sentence; upstream has only the phase, whose text differs between plugins.",
        effect: Effect::Normalise(rules::ignore_pending_condition),
    },
    OnPurpose {
        id: "plugin-choice-reported",
        reason: "Where an action's plugin does not declare its task type, a condition of type `PluginChosen` says which \
                 plugin serves it and why; upstream gives unknown types to the default plugin without a message.",
        effect: Effect::Normalise(rules::ignore_plugin_condition),
    },
    OnPurpose {
        id: "missing-kind-waits",
        reason: "A task whose kind of object the cluster does not serve waits for it, up to \
                 `executor.missingKindTimeout`, and continues when its operator is installed; upstream counts system \
                 failures and fails the task within a minute.",
        effect: Effect::Normalise(rules::no_recorded_case),
    },
    OnPurpose {
        id: "no-pod-outlives-its-task",
        reason: "A pod with containers that still run is deleted ten seconds after the end of its task; upstream leaves \
                 them running until the action is deleted.",
        effect: Effect::Normalise(rules::no_recorded_case),
    },
    OnPurpose {
        id: "stuck-object-deleted",
        reason: "An object that can never run, such as a pod with an invalid image name, is deleted after its task has \
                 failed; upstream leaves it, so that it holds its quota until the action is deleted.",
        effect: Effect::Normalise(rules::ignore_delete_of_stuck_object),
    },
    OnPurpose {
        id: "plugin-rules-checked",
        reason: "A rule in `tasks.task-plugins` that names a plugin which does not exist or is not enabled keeps the \
                 executor from starting; upstream warns, and runs the tasks elsewhere.",
        effect: Effect::Normalise(rules::no_recorded_case),
    },
    OnPurpose {
        id: "events-of-our-objects",
        reason: "Kubernetes events are watched for the kinds of tasks' objects only, and are kept while the object \
                 exists; upstream keeps every event of the cluster for ever.",
        effect: Effect::Normalise(rules::no_recorded_case),
    },
    OnPurpose {
        id: "ray-memory-variables",
        reason: "`MEMORY_REQUESTS` and `MEMORY_LIMITS` of Ray workers show their memory; upstream shows their CPUs.",
        effect: Effect::Normalise(memory_env_may_select_memory),
    },
    OnPurpose {
        id: "own-pods-only",
        reason: "The log context of a task lists pods of its own namespace only; upstream lists those of the whole \
                 cluster, also other tenants'.",
        effect: Effect::Normalise(rules::ignore_foreign_pods),
    },
    OnPurpose {
        id: "crash-is-no-maintenance",
        reason: "A clustered task whose rank 0 exited with its own exit code has crashed and uses the user's retries; \
                 upstream treats it as evicted by host maintenance and starts it again without using a retry.",
        effect: Effect::Normalise(rules::crash_is_no_maintenance),
    },
    OnPurpose {
        id: "own-container-ends-task",
        reason: "A task ends when its own container ends, also where a pod template adds containers; upstream marks \
                 the task's container for sidecar tasks only, and waits for the whole pod of all other tasks.",
        effect: Effect::Normalise(rules::own_container_ends_task),
    },
    OnPurpose {
        id: "empty-outputs-stay-success",
        reason: "A task that succeeded with an empty outputs file stays successful, however often its object is observed; \
                 upstream writes an error document beside the outputs, and a second observation fails the task.",
        effect: Effect::Normalise(success_stays_success),
    },
    OnPurpose {
        id: "corrupt-state-message",
        reason: "When the stored state of a plugin cannot be decoded, the error says what is wrong with the bytes; \
                 upstream always says that version 0 was found where version 1 was expected.",
        effect: Effect::Normalise(rules::own_message_for_corrupt_state),
    },
    OnPurpose {
        id: "template-resources-for-side-containers",
        reason: "A container that is not the task's own and sets no CPU or memory gets the amounts of the pod template; \
                 upstream writes zeros into such a container, which hide the amounts of the template.",
        effect: Effect::Normalise(rules::template_resources_apply),
    },
    OnPurpose {
        id: "accelerator-classes-in-upper-case",
        reason: "The printed configuration shows the names of accelerator classes in upper case, as they take effect; \
                 upstream converts them at their first use, and prints them in lower case before that.",
        effect: Effect::Normalise(rules::accelerator_classes_in_upper_case),
    },
    OnPurpose {
        id: "file-output-base",
        reason: "A run's output base may be a `file:///` location, so that a single machine needs no object store; \
                 upstream refuses a location without a bucket.",
        effect: Effect::Skip(rules::has_file_output_base),
    },
    OnPurpose {
        id: "pod-specs-always-there",
        reason: "Merging pod specs takes two pod specs, so upstream's error for a missing one cannot happen.",
        effect: Effect::Skip(rules::merges_nothing),
    },
];

/// Removes deliberate differences from both results.
pub fn normalise(case: &Case, expected: &mut Value, got: &mut Value) {
    for difference in ON_PURPOSE {
        if let Effect::Normalise(change) = difference.effect {
            change(case, expected, got);
        }
    }
}

/// The difference because of which the case is not run, if there is one.
pub fn skipped(case: &Case) -> Option<&'static OnPurpose> {
    ON_PURPOSE.iter().find(|difference| matches!(difference.effect, Effect::Skip(applies) if applies(case)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::vectors::judge::judge;
    use serde_json::json;

    fn scenario(events: &Value) -> Case {
        serde_json::from_value(json!({
            "family": "reconcile", "name": "x", "now": "2009-11-10T23:00:00Z",
            "expected": {"steps": [{"actionEvents": events}]},
        }))
        .unwrap()
    }

    fn event(phase: &str, attempt: u32) -> Value {
        json!({"phase": format!("ACTION_PHASE_{phase}"), "attempt": attempt})
    }

    #[test]
    fn the_error_code_of_an_event_may_differ_and_its_message_may_not() {
        let with = |error: Value| json!({"steps": [{"actionEvents": [{"error_info": error}]}]});
        let case = scenario(&json!([{"error_info": {"message": "m"}}]));
        assert!(judge(&case, &with(json!({"message": "m", "code": "C"}))).is_empty());
        assert!(!judge(&case, &with(json!({"message": "n", "code": "C"}))).is_empty());
    }

    #[test]
    fn only_pods_of_the_namespace_of_the_task_are_compared() {
        let pod = |namespace: &str| json!({"pod_name": "p", "namespace": namespace});
        let recorded = |pods: Value| -> Case {
            let expected = json!({"info": {"logContext": {"pods": pods}}});
            serde_json::from_value(json!({"family": "phase", "name": "x", "now": "2009-11-10T23:00:00Z",
                "context": {"namespace": "own"}, "expected": expected}))
            .unwrap()
        };
        let got = |pods: Value| json!({"info": {"logContext": {"pods": pods}}});
        assert!(judge(&recorded(json!([pod("other")])), &json!({"info": {"logContext": null}})).is_empty());
        assert!(judge(&recorded(json!([pod("own"), pod("other")])), &got(json!([pod("own")]))).is_empty());
        assert!(!judge(&recorded(json!([pod("own"), pod("other")])), &got(json!([]))).is_empty());
    }

    #[test]
    fn a_crash_must_be_the_failure_that_the_jobset_reports() {
        let case: Case = serde_json::from_value(json!({
            "family": "phase", "name": "x", "now": "2009-11-10T23:00:00Z",
            "upstreamBugs": ["failed-exit-classified-system"],
            "resource": {"status": {"conditions": [{"type": "Failed", "reason": "R", "message": "M"}]}},
            "expected": {"cleanupOnFailure": true, "error": {"kind": "SYSTEM", "code": "HostMaintenance",
                "message": "pod evicted due to host maintenance; retrying without charging max_restarts"}},
        }))
        .unwrap();
        let got = |code: &str| {
            let error = json!({"kind": "USER", "code": code, "message": "M"});
            json!({"cleanupOnFailure": false, "error": error})
        };
        assert!(judge(&case, &got("R")).is_empty());
        assert!(!judge(&case, &got("Other")).is_empty());
    }

    #[test]
    fn a_failed_attempt_may_be_reported_right_before_the_next_one() {
        let case = scenario(&json!([event("QUEUED", 2)]));
        let got = |events: Value| json!({"steps": [{"actionEvents": events}]});
        assert!(judge(&case, &got(json!([event("FAILED", 1), event("QUEUED", 2)]))).is_empty());
        assert!(judge(&case, &got(json!([event("QUEUED", 2)]))).is_empty());
        assert!(!judge(&case, &got(json!([event("FAILED", 2), event("QUEUED", 2)]))).is_empty());
        assert!(!judge(&case, &got(json!([event("QUEUED", 2), event("FAILED", 1)]))).is_empty());
    }

    fn steps(steps: &Value) -> Value {
        json!({"steps": steps})
    }

    fn calls(calls: &Value) -> Value {
        steps(&json!([{"calls": calls}]))
    }

    fn recorded(expected: &Value) -> Case {
        serde_json::from_value(json!({
            "family": "manager", "name": "x", "now": "2009-11-10T23:00:00Z", "expected": expected,
        }))
        .unwrap()
    }

    #[test]
    fn a_finalizer_is_removed_by_a_patch_of_the_same_object() {
        let update = json!({"verb": "update", "kind": "Pod", "name": "p", "result": "ok", "object": {"kind": "Pod"}});
        let patch = |name: &str| json!({"verb": "patch", "kind": "Pod", "name": name, "result": "ok"});
        let case = recorded(&calls(&json!([update])));
        assert!(judge(&case, &calls(&json!([patch("p")]))).is_empty());
        assert!(!judge(&case, &calls(&json!([patch("q")]))).is_empty());
        assert!(!judge(&case, &calls(&json!([]))).is_empty());
    }

    #[test]
    fn only_a_create_of_an_existing_object_may_be_missing() {
        let create = |result: &str| json!({"verb": "create", "kind": "Pod", "name": "p", "result": result});
        assert!(judge(&recorded(&calls(&json!([create("AlreadyExists")]))), &calls(&json!([]))).is_empty());
        assert!(!judge(&recorded(&calls(&json!([create("ok")]))), &calls(&json!([]))).is_empty());
        assert!(
            !judge(&recorded(&calls(&json!([create("Conflict")]))), &calls(&json!([create("AlreadyExists")])))
                .is_empty()
        );
    }

    #[test]
    fn steps_are_compared_until_a_foreign_object_is_found() {
        let expected = recorded(&steps(&json!([{"stateVersion": 1}, {"stateVersion": 2}])));
        let refused = json!({"error": {"code": "ForeignObject", "message": "m"}});
        assert!(judge(&expected, &steps(&json!([{"stateVersion": 1}, refused]))).is_empty());
        assert!(!judge(&expected, &steps(&json!([{"stateVersion": 3}, refused]))).is_empty());
    }

    #[test]
    fn steps_are_compared_until_a_task_waits_after_a_transient_refusal() {
        let refused = |result: &str| json!([{"verb": "create", "kind": "Pod", "name": "p", "result": result}]);
        let waits = |result: &str| {
            steps(&json!([{"calls": refused(result), "stateVersion": 2,
                "transition": {"phaseInfo": {"phase": "PhaseWaitingForResources", "reason": "waiting for quota q"}}}]))
        };
        let recorded = |result: &str| recorded(&steps(&json!([{"calls": refused(result), "stateVersion": 1}])));
        assert!(judge(&recorded("Forbidden"), &waits("Forbidden")).is_empty());
        assert!(judge(&recorded("ServerTimeout"), &waits("ServerTimeout")).is_empty());
        assert!(!judge(&recorded("Invalid"), &waits("Invalid")).is_empty());
    }

    #[test]
    fn only_a_corrupt_state_may_have_another_message() {
        let failed = |message: &str| {
            steps(
                &json!([{"transition": {"phaseInfo": {"error": {"code": "CorruptedPluginState", "message": message}}},
                "kubernetesEvents": [format!("Warning Failed [CorruptedPluginState] {message}")]}]),
            )
        };
        let case = recorded(&failed("plugin state version mismatch expected [1] got [0]"));
        assert!(judge(&case, &failed("plugin state ends at byte 3 in the middle of a value")).is_empty());
        assert!(!judge(&case, &failed("out of memory")).is_empty());
    }

    #[test]
    fn amounts_of_a_template_may_replace_only_zeros_of_upstream() {
        let pod = |limits: Value| json!({"resource": {"spec": {"containers": [{"resources": {"limits": limits}}]}}});
        let case = |templates: Value| -> Case {
            serde_json::from_value(json!({"family": "build", "name": "x", "now": "2009-11-10T23:00:00Z",
                "context": {"podTemplates": templates}, "expected": pod(json!({"cpu": "0", "memory": "1Gi"}))}))
            .unwrap()
        };
        let with_template = case(json!([{"metadata": {"name": "t"}}]));
        assert!(judge(&with_template, &pod(json!({"cpu": "2", "memory": "1Gi"}))).is_empty());
        assert!(judge(&with_template, &pod(json!({"memory": "1Gi"}))).is_empty());
        assert!(!judge(&with_template, &pod(json!({"cpu": "2", "memory": "2Gi"}))).is_empty());
        assert!(!judge(&case(json!([])), &pod(json!({"cpu": "2", "memory": "1Gi"}))).is_empty());
    }

    #[test]
    fn names_of_accelerator_classes_are_printed_in_upper_case() {
        let classes = |name: &str, resource: &str| json!({"value": {"plugins": {"k8s": {"accelerator-device-classes": {name: {"resource-name": resource}}}}}});
        let case: Case = serde_json::from_value(json!({"family": "config", "name": "x", "fn": "config.dump",
            "now": "2009-11-10T23:00:00Z", "expected": classes("nvidia_gpu", "g")}))
        .unwrap();
        assert!(judge(&case, &classes("NVIDIA_GPU", "g")).is_empty());
        assert!(!judge(&case, &classes("nvidia_gpu", "g")).is_empty());
        assert!(!judge(&case, &classes("NVIDIA_GPU", "h")).is_empty());
    }

    #[test]
    fn only_a_patch_right_after_a_delete_of_the_object_may_be_added() {
        let call = |verb: &str| json!({"verb": verb, "kind": "Pod", "name": "p", "result": "ok"});
        let case = recorded(&calls(&json!([call("delete")])));
        assert!(judge(&case, &calls(&json!([call("delete"), call("patch")]))).is_empty());
        assert!(!judge(&case, &calls(&json!([call("patch"), call("delete")]))).is_empty());
    }

    #[test]
    fn only_the_object_of_a_task_that_failed_without_starting_may_be_deleted() {
        let call = |verb: &str, name: &str| json!({"verb": verb, "kind": "Pod", "name": name, "result": "ok"});
        let step = |code: &str, calls: Value| {
            let status = json!({"pluginPhase": "PhasePermanentFailure", "errorState": {"code": code}});
            json!({"calls": calls, "taskAction": {"status": status}})
        };
        let stuck = "ContainersNotReady|InvalidImageName";
        let case =
            |code: &str| recorded(&steps(&json!([step(code, json!([])), step(code, json!([call("delete", "p")]))])));
        let got =
            |code: &str, later: Value| steps(&json!([step(code, json!([call("delete", "p")])), step(code, later)]));
        assert!(
            judge(&case(stuck), &got(stuck, json!([]))).is_empty(),
            "the object is already deleted when the action is deleted"
        );
        assert!(!judge(&case(stuck), &got(stuck, json!([call("delete", "q")]))).is_empty());
        assert!(!judge(&case("Hopeless"), &got("Hopeless", json!([]))).is_empty());
        let unfinished = |code: &str| {
            steps(&json!([{"calls": [call("delete", "p")], "taskAction": {"status": {
            "pluginPhase": "PhaseQueued", "errorState": {"code": code}}}}]))
        };
        let expected = steps(&json!([{"calls": [], "taskAction": {"status": {
            "pluginPhase": "PhaseQueued", "errorState": {"code": stuck}}}}]));
        assert!(!judge(&recorded(&expected), &unfinished(stuck)).is_empty(), "the action has not ended");
    }

    #[test]
    fn a_requeue_time_counts_unless_a_timer_or_the_next_step_replaces_a_poll() {
        let case = recorded(&steps(&json!([{"requeueAfterSeconds": 10}])));
        let woken = |wake: &str, pause: u32| steps(&json!([{"requeueAfterSeconds": pause, "wake": wake}]));
        assert!(judge(&case, &woken("at", 3)).is_empty());
        assert!(judge(&case, &woken("now", 0)).is_empty());
        assert!(judge(&case, &woken("onChange", 10)).is_empty());
        assert!(!judge(&case, &woken("never", 0)).is_empty());
        assert!(!judge(&case, &woken("retry", 5)).is_empty());
    }
}
