//! The changes that the mutation check makes, one at a time.

/// A change of the sources that breaks one promise.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    /// What the changed executor does wrong.
    pub breaks: &'static str,
    /// The changes that do it.
    pub edits: &'static [Edit],
}

/// A replacement in one file.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    /// Path below `crates/`.
    pub file: &'static str,
    /// Occurs in the file exactly once.
    pub find: &'static str,
    /// What takes its place.
    pub replace: &'static str,
}

const fn edit(file: &'static str, find: &'static str, replace: &'static str) -> Edit {
    Edit { file, find, replace }
}

/// All changes. Each must be noticed.
pub const MUTATIONS: &[Mutation] = &[
    Mutation {
        breaks: "writes to the API server pass without the fence",
        edits: &[edit(
            "executor/src/cluster/kube/connection.rs",
            "if is_read { answer.await } else { fence.guard(answer).await? }",
            "if is_read || fence.check().is_err() { answer.await } else { answer.await }",
        )],
    },
    Mutation {
        breaks: "events are sent without the fence",
        edits: &[edit(
            "executor/src/services/fenced.rs",
            "self.fence.guard(self.inner.record(events)).await.unwrap_or_else(|closed| Err(refused(closed)))",
            "self.inner.record(events).await",
        )],
    },
    Mutation {
        breaks: "the fence stays open long after the last renewal",
        edits: &[edit(
            "lease/src/elector.rs",
            "self.fence.open_until(sent + self.config.renew_deadline);",
            "self.fence.open_until(sent + self.config.renew_deadline * 6);",
        )],
    },
    Mutation {
        breaks: "a replica takes a lease before it expires",
        edits: &[edit(
            "lease/src/record.rs",
            "unchanged_for >= duration(observed)",
            "unchanged_for >= duration(observed) / 3",
        )],
    },
    Mutation {
        breaks: "a replica trusts its clock about the lease of another one",
        edits: &[edit(
            "lease/src/record.rs",
            "|| unchanged_for >= duration(observed) {",
            "|| observed.renew_time.as_ref().is_some_and(|time| {\n        let _ = unchanged_for;\n        \
             now.duration_since(time.0).unsigned_abs() >= duration(observed)\n    }) {",
        )],
    },
    Mutation {
        breaks: "the status is written before the event",
        edits: &[edit(
            "executor/src/status_writer.rs",
            "let shown = self.report(action, &[(status, phase)]).await?;\n                \
             self.put(action, status, when, shown).await?;",
            "self.put(action, status, when, None).await?;\n                self.report(action, &[(status, phase)]).await?;",
        )],
    },
    Mutation {
        breaks: "a retry does not report the end of the attempt before",
        edits: &[edit(
            "executor/src/status_writer.rs",
            "self.report(action, &[failed, next]).await?;",
            "self.report(action, &[next]).await?;\n        let _ = failed;",
        )],
    },
    Mutation {
        breaks: "an abort is not reported",
        edits: &[edit(
            "executor/src/status_writer.rs",
            "match self.events.record(event).await {\n            Err(error) => go_on_if_refused(error),\n            \
             Ok(()) => Ok(()),\n        }",
            "let _ = event;\n        Ok(())",
        )],
    },
    Mutation {
        breaks: "events of a failed call are dropped as if they were recorded",
        edits: &[edit(
            "executor/src/services/events/dispatch.rs",
            "state.queue.push_retry(Batch { due: None, ..batch });\n            }\n        }\n    }",
            "batch.items.into_iter().for_each(|item| state.queue.finish(item, Ok(())));\n            }\n        }\n    }",
        )],
    },
    Mutation {
        breaks: "events are not sent again after an outage",
        edits: &[edit(
            "executor/src/services/events/dispatch.rs",
            "state.circuit_breaker.probing = false;\n        let error",
            "let error",
        )],
    },
    Mutation {
        breaks: "a status is written over one that was written without an answer",
        edits: &[
            edit(
                "executor/src/controller.rs",
                "if self.action_store.is_uncertain(key)\n            && let",
                "if self.action_store.is_uncertain(key)\n            && self.max_rounds == 0\n            && let",
            ),
            edit(
                "executor/src/cluster/kube/actions.rs",
                "if let Some(version) = version {",
                "if let Some(version) = version.filter(|_| false) {",
            ),
        ],
    },
    Mutation {
        breaks: "any object with the right name counts as the object of the attempt",
        edits: &[edit(
            "action/src/object_identity.rs",
            "owned && same(ATTEMPT_LABEL)",
            "owned || same(ATTEMPT_LABEL) || true",
        )],
    },
    Mutation {
        breaks: "the object of an earlier attempt counts as that of this one",
        edits: &[edit("action/src/object_identity.rs", "owned && same(ATTEMPT_LABEL)", "owned")],
    },
    Mutation {
        breaks: "objects are deleted by name, whatever their UID and owner",
        edits: &[
            edit(
                "executor/src/cluster/kube/objects.rs",
                "let preconditions = Some(Preconditions { uid: Some(uid.clone()), resource_version });",
                "let _ = resource_version;\n        let preconditions: Option<Preconditions> = None;",
            ),
            edit(
                "executor/src/cluster/kube/objects.rs",
                "let uid = found.uid.clone().filter(|_| check(&found));",
                "let _ = check;\n        let uid = found.uid.clone();",
            ),
        ],
    },
    Mutation {
        breaks: "an object that exists already is not adopted",
        edits: &[edit(
            "executor/src/manager/launch/decide.rs",
            "Found::Ours => Ok(Launched { phase: submitted(round), check_at: Some(round.now) }),",
            "Found::Ours => Err(PluginError::new(FOREIGN_OBJECT, \"exists\")),",
        )],
    },
    Mutation {
        breaks: "an adopted object is not read at once",
        edits: &[edit(
            "executor/src/manager/launch/decide.rs",
            "Found::Ours => Ok(Launched { phase: submitted(round), check_at: Some(round.now) }),",
            "Found::Ours => Ok(Launched { phase: submitted(round), check_at: None }),",
        )],
    },
    Mutation {
        breaks: "an object that the watch does not show counts as lost",
        edits: &[edit(
            "executor/src/cluster/kube/objects.rs",
            "Trusted::Unknown => match self.get_live(plugin, namespace, name).await {",
            "Trusted::Unknown => match Err::<Arc<dyn AnyResource>, _>(ApiError { code: 404, reason: \"NotFound\".into(), \
             message: \"not shown\".into(), retry_after: None }) {",
        )],
    },
    Mutation {
        breaks: "an object that was just created counts as lost until the watch shows it",
        edits: &[edit(
            "executor/src/manager/observe.rs",
            "Ok(Observed::NotYetVisible) => return Ok(Observation::NotYetVisible),",
            "Ok(Observed::NotYetVisible) => ApiError { code: 404, reason: \"NotFound\".into(), message: \"n\".into(), \
             retry_after: None },",
        )],
    },
    Mutation {
        breaks: "objects are created before the action has our finalizer",
        edits: &[edit(
            "executor/src/reconcile/start.rs",
            "Ok((plugin, why)) if has_finalizer(action) => Start::Drive { plugin, why },",
            "Ok((plugin, why)) if has_finalizer(action) || action.object.status.is_none() => Start::Drive { plugin, why },\n        \
             Ok((plugin, why)) if action.object.status.is_some() => Start::Drive { plugin, why },",
        )],
    },
    Mutation {
        breaks: "the objects of an aborted action keep our finalizer",
        edits: &[
            edit(
                "executor/src/reconcile/abort.rs",
                "guarded(plugin.abort(&request)).await?;\n        guarded(plugin.finalize(&request)).await",
                "guarded(plugin.abort(&request)).await",
            ),
            edit(
                "executor/src/cleanup/objects.rs",
                "CleanupDecision::Release => self.release(&left.plugin.kind(), left.object.as_ref()).await,",
                "CleanupDecision::Release => {}",
            ),
        ],
    },
    Mutation {
        breaks: "an ended action is worked on again",
        edits: &[edit(
            "executor/src/reconcile/start.rs",
            "return Start::Label;",
            "if aileron_action::labels::are_terminal(object.metadata.labels.as_ref()) {\n            return Start::Label;\n        }",
        )],
    },
    Mutation {
        breaks: "an attempt too many is allowed",
        edits: &[edit(
            "executor/src/reconcile/decide/failure.rs",
            "if attempt >= facts.max_attempts {",
            "if attempt > facts.max_attempts {",
        )],
    },
    Mutation {
        breaks: "a retry is charged twice",
        edits: &[edit(
            "executor/src/reconcile/decide/failure.rs",
            "status.attempts = attempt.saturating_add(1);",
            "status.attempts = attempt.saturating_add(2);",
        )],
    },
    Mutation {
        breaks: "an outage of the storage is charged to the task",
        edits: &[edit(
            "executor/src/manager.rs",
            "if error.is_outage() { StorageOutage::new(message).into() } else { PluginError::uncoded(message) }",
            "let _ = (error, StorageOutage::new(\"\"));\n    PluginError::uncoded(message)",
        )],
    },
    Mutation {
        breaks: "a failed attempt without an error document counts as success",
        edits: &[edit(
            "executor/src/manager/observe/decide.rs",
            "result.filter(|_| phase.phase().is_success())",
            "result.filter(|_| phase.phase().is_success() && being_deleted)",
        )],
    },
    Mutation {
        breaks: "a change during a round is forgotten",
        edits: &[edit("executor/src/queue.rs", "State::Running => slot.dirty = true,", "State::Running => {}")],
    },
    Mutation {
        breaks: "a round that failed is not repeated",
        edits: &[edit(
            "executor/src/controller.rs",
            "Next::At(self.reconciler.clock.instant() + pause)\n    }",
            "let _ = pause;\n        Next::Safety(self.reconciler.clock.instant() + SAFETY_INTERVAL)\n    }",
        )],
    },
    Mutation {
        breaks: "actions that existed before a restart get no round",
        edits: &[edit(
            "executor/src/controller.rs",
            "self.queue.open();\n        for (_, key) in keys {",
            "self.queue.open();\n        for (_, key) in keys.into_iter().take(0) {",
        )],
    },
    Mutation {
        breaks: "a change of a pod wakes nobody",
        edits: &[edit(
            "executor/src/watch/pods.rs",
            "self.cx.caches.pods.insert(pod);\n        self.cx.wake_owner(&metadata);",
            "self.cx.caches.pods.insert(pod);\n        let _ = metadata;",
        )],
    },
    Mutation {
        breaks: "pods that were deleted while the watch was interrupted stay in the cache",
        edits: &[edit(
            "executor/src/watch/pods.rs",
            "self.drop_pod(place, &metadata.unwrap_or_default());",
            "let _ = (place, metadata);",
        )],
    },
    Mutation {
        breaks: "a free place in a quota wakes nobody",
        edits: &[edit(
            "executor/src/queue.rs",
            "fn wake(&self, key: &ActionKey) {\n        self.queue.wake(key);\n    }\n\n    fn created_at",
            "fn wake(&self, _: &ActionKey) {}\n\n    fn created_at",
        )],
    },
    Mutation {
        breaks: "the watch may replace an action by an older state",
        edits: &[edit(
            "executor/src/caches/actions.rs",
            "if version < entry.version || (version == entry.version && !entry.known.lacks(&object)) {",
            "if version == entry.version && !entry.known.lacks(&object) {",
        )],
    },
    Mutation {
        breaks: "a pool has no limit",
        edits: &[
            edit(
                "admission/src/pools/table.rs",
                "match check_limits(&pool.limits, &taken, &claim.account) {\n            Ok(()) => {",
                "match check_limits(&pool.limits, &[], &claim.account) {\n            Ok(()) => {",
            ),
            edit(
                "admission/src/pools/broker.rs",
                "is_admitted(&pool.limits, tokens, &claim.holder))",
                "is_admitted(&pool.limits, tokens, &claim.holder) || true)",
            ),
        ],
    },
    Mutation {
        breaks: "tokens are not returned",
        edits: &[edit(
            "executor/src/watch/tokens.rs",
            "Ok(false) => store.delete(&pool, &holder).await,",
            "Ok(false) => Ok(()),",
        )],
    },
    Mutation {
        breaks: "a request to the API server may hang for ever",
        edits: &[edit(
            "executor/src/cluster/kube/connection.rs",
            "const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);",
            "const REQUEST_TIMEOUT: Duration = Duration::from_secs(650_000);",
        )],
    },
    Mutation {
        breaks: "an ended action that could not be read once is never deleted",
        edits: &[edit(
            "executor/src/watch/ended.rs",
            "let failures = fetches.failed(key.clone(), Instant::now(), random());",
            "fetches.succeeded(&key);\n                    let failures = 0;\n                    let _ = random;",
        )],
    },
    Mutation {
        breaks: "the labels of the end are missing",
        edits: &[edit(
            "executor/src/status_writer.rs",
            "if !status.is_terminal() || labels::are_terminal(action.object.metadata.labels.as_ref()) {",
            "if !status.is_terminal() || !labels::are_terminal(action.object.metadata.labels.as_ref()) {",
        )],
    },
    Mutation {
        breaks: "actions that were deleted stay in memory",
        edits: &[edit(
            "executor/src/caches/actions.rs",
            "let is_other = inner.entries.get(key).is_some_and(|entry| entry.known.is_other_than(uid));",
            "let is_other = inner.entries.get(key).is_some_and(|entry| entry.known.is_other_than(uid) || true);",
        )],
    },
    Mutation {
        breaks: "an action that is gone before its last read is answered stays in memory",
        edits: &[edit(
            "executor/src/watch/ended/last_rounds.rs",
            "if deleting.get(key) != Some(&metadata.uid) {",
            "if deleting.get(key).is_some_and(|uid| *uid != metadata.uid) {",
        )],
    },
    Mutation {
        breaks: "a new leader begins with what its watch shows, however old",
        edits: &[edit(
            "executor/src/assembly/leadership.rs",
            "            until_current(&watch).await;\n",
            "            if false {\n                until_current(&watch).await;\n            }\n",
        )],
    },
    Mutation {
        breaks: "a kind that a request shows to be missing is not remembered",
        edits: &[edit(
            "executor/src/cluster/kube/objects.rs",
            "if answer.as_ref().is_err_and(ApiError::is_kind_not_served) {",
            "if false {",
        )],
    },
    Mutation {
        breaks: "a late answer about the end of an action drops its last round",
        edits: &[edit(
            "executor/src/caches/actions.rs",
            "&& written >= entry.version\n            && !entry.known.is_in_last_round()\n        {\n            entry.version = written;",
            "{\n            entry.version = entry.version.max(written);",
        )],
    },
    Mutation {
        breaks: "a request that arrives twice adds our finalizer twice",
        edits: &[
            edit(
                "executor/src/cluster/kube/actions.rs",
                "{\"op\": \"test\", \"path\": \"/metadata/finalizers\", \"value\": others},",
                "{\"op\": \"test\", \"path\": \"/metadata/finalizers/0\", \"value\": others[0]},",
            ),
            edit(
                "executor/src/cluster/kube/actions.rs",
                "let ours = names.iter().enumerate().rev().filter(",
                "let ours = names.iter().enumerate().rev().take(1).filter(",
            ),
        ],
    },
    Mutation {
        breaks: "a standby replica keeps a work queue",
        edits: &[edit(
            "executor/src/queue.rs",
            "fn wake_by(&mut self, key: &ActionKey, safety: bool) {\n        if !self.is_open {\n            return;\n        }",
            "fn wake_by(&mut self, key: &ActionKey, safety: bool) {",
        )],
    },
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_change_still_applies_to_the_sources() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for Edit { file, find, .. } in MUTATIONS.iter().flat_map(|mutation| mutation.edits) {
            let text = std::fs::read_to_string(crates.join(file)).unwrap();
            assert_eq!(text.matches(find).count(), 1, "{file}: {find}");
        }
    }
}
