//! Which waiting actions of a namespace are woken, and when.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use super::{NamespaceAdmission, ToWake};
use crate::create_request::CreateRequest;
use crate::gate::hold::Hold;
use crate::gate::selection::{Supply, WaitingGroup, select};
use crate::gate::settings::GateSettings;
use crate::gate::waiting_queue::QueuePosition;
use crate::time::after;

impl NamespaceAdmission {
    /// Reserves quota for the waiting actions that fit now, the oldest first. Returns the actions to wake: these, the
    /// actions whose reservation timed out, and the actions whose create request can never fit.
    pub(in crate::gate) fn wake_fitting(&mut self, settings: &GateSettings, now: Instant) -> ToWake {
        let mut woken = self.expire(settings, now);
        if self.creates.queue().is_empty() {
            return woken;
        }
        let groups = self.creates.queue().groups();
        let (never_fit, may_fit): (Vec<_>, Vec<_>) =
            groups.partition(|(request, _)| !self.quotas.never_fits(request).is_empty());
        // A quota was lowered. These actions learn that they can never run when they ask again.
        woken.extend(
            never_fit.iter().flat_map(|(_, positions)| *positions).map(|position| Arc::clone(&position.action)),
        );
        if self.waits_for_recount(settings, now) {
            return woken;
        }
        for position in self.select_fitting(&may_fit, settings, now) {
            self.reserve(&position, now);
            woken.push(position.action);
        }
        woken
    }

    /// When [`wake_fitting`](Self::wake_fitting) may have another result by time alone.
    pub(in crate::gate) fn next_wake(&self, settings: &GateSettings, now: Instant) -> Option<Instant> {
        let timeout = self.creates.next_timeout();
        let queue = self.creates.queue();
        if queue.is_empty() {
            return timeout;
        }
        let throttles = queue.groups().filter_map(|(request, _)| self.throttles.get(&request.kind));
        let backoff = throttles.filter_map(|throttle| throttle.backoff_ends_at(now)).min();
        let oldest = queue.oldest().and_then(|position| self.creates.get(&position.action));
        let hold = oldest.and_then(|create| Hold::at(create.first_asked, settings, now).changes_at);
        [timeout, backoff, self.quotas.next_change(settings.settle), hold].into_iter().flatten().min()
    }

    /// Chooses the actions of these groups of the waiting queue that may create their objects now.
    fn select_fitting(
        &self,
        groups: &[(&Arc<CreateRequest>, &BTreeSet<QueuePosition>)],
        settings: &GateSettings,
        now: Instant,
    ) -> Vec<QueuePosition> {
        let groups: Vec<_> = groups
            .iter()
            .map(|&(request, positions)| {
                let usage = self.quotas.usage_of(request);
                let usage_is_known = self.quotas.know_usage_of(&usage);
                let backoff_allows = self.allows_send(request, now);
                WaitingGroup { positions, kind: &request.kind, usage, usage_is_known, backoff_allows }
            })
            .collect();
        let free_slots = self.throttles.iter().filter_map(|(kind, throttle)| Some((kind, throttle.free_slots()?)));
        let supply = Supply { available: self.quotas.available(), free_slots: free_slots.collect() };
        let oldest = groups.iter().filter_map(|group| group.positions.first()).min();
        let held_for = oldest.filter(|position| {
            let create = self.creates.get(&position.action);
            create.is_some_and(|create| Hold::at(create.first_asked, settings, now).is_active)
        });
        select(groups, supply, held_for)
    }

    /// Whether waiting actions should wait a little longer, because the ResourceQuota controller is recounting. An action
    /// that finds the queue empty, or one that has just started to wait, is not delayed.
    fn waits_for_recount(&self, settings: &GateSettings, now: Instant) -> bool {
        let has_queue =
            self.creates.queue().not_empty_since().is_some_and(|since| after(since, settings.settle) <= now);
        has_queue && self.quotas.recounted_at(settings.settle).is_some_and(|at| now < at)
    }

    /// Reserves quota for a waiting action.
    fn reserve(&mut self, position: &QueuePosition, now: Instant) {
        let Some(create) = self.creates.get(&position.action) else { return };
        let request = Arc::clone(&create.request);
        let reservation = self.quotas.reserve(&request);
        self.creates.reserve(&position.action, reservation, now);
        if let Some(throttle) = self.throttles.get_mut(&request.kind) {
            throttle.create_started();
        }
    }

    /// Applies what changed by time alone. Returns the actions whose reservation timed out: if their wake-up was lost, they
    /// would otherwise not ask again for minutes.
    fn expire(&mut self, settings: &GateSettings, now: Instant) -> ToWake {
        self.quotas.expire(settings.settle, now);
        let mut timed_out = Vec::new();
        while let Some(action) = self.creates.first_timed_out(now) {
            self.withdraw(&action, settings, now);
            timed_out.push(action);
        }
        self.drop_unused_throttles(now);
        timed_out
    }
}
