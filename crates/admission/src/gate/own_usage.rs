//! The quota usage of the objects that this process created: a lower bound for the real usage.
//!
//! The ResourceQuota controller recounts usage from its own cache. When an object ends it writes the result, in which
//! objects that were created a moment ago are often missing. For a short time a full quota then seems to have something
//! left. The API server believes the quota too: it accepts create requests until the next recount corrects the usage, and
//! then refuses create requests until the usage is below the limit. So the gate never takes the usage to be less than that of the objects it knows to exist.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::amounts::{self, Amounts};
use crate::create_request::CreateRequest;
use crate::time::after;

/// How long the ResourceQuota controller takes to notice created and ended objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountingDelay {
    /// A recount includes every object that was created longer ago than this.
    pub(super) created: Duration,
    /// No recount includes an object that ended longer ago than this. Until then the object may be included in a recount
    /// in which another object is missing.
    pub(super) ended: Duration,
}

/// Every object that was created longer ago than this is included in the watched usage, because the ResourceQuota
/// controller has recounted since. It bounds how long an object whose end the executor missed can block others.
const INCLUDED_AFTER: Duration = Duration::from_secs(30);

/// The objects of the actions of one namespace.
#[derive(Debug, Default)]
pub(super) struct OwnUsage {
    /// Objects that have not ended, by action.
    objects: HashMap<Arc<str>, Object>,
    /// Objects that ended a moment ago and may still be included in a recount, the earliest end first.
    ended: VecDeque<(Instant, Arc<CreateRequest>)>,
    /// The usage of `objects` and `ended` together.
    total: Amounts,
    /// Objects that a recount may miss, the oldest first. Some may have ended since.
    recent: VecDeque<(Instant, Arc<str>)>,
    /// The usage of the objects that are marked as recent.
    recent_total: Amounts,
}

#[derive(Debug)]
struct Object {
    request: Arc<CreateRequest>,
    created_at: Instant,
    is_recent: bool,
}

impl OwnUsage {
    /// How many objects have not ended.
    pub(super) fn known_objects(&self) -> usize {
        self.objects.len()
    }

    /// Records that the object of an action was created.
    pub(super) fn object_created(&mut self, action: &Arc<str>, request: &Arc<CreateRequest>, now: Instant) {
        self.forget(action);
        amounts::add(&mut self.total, &request.amounts);
        amounts::add(&mut self.recent_total, &request.amounts);
        self.recent.push_back((now, Arc::clone(action)));
        let object = Object { request: Arc::clone(request), created_at: now, is_recent: true };
        self.objects.insert(Arc::clone(action), object);
    }

    /// Records that the object of an action ended. Returns whether an object of the action was known.
    pub(super) fn object_ended(&mut self, action: &str, now: Instant) -> bool {
        let Some(request) = self.take(action) else { return false };
        self.ended.push_back((now, request));
        true
    }

    /// Forgets the objects of actions that the executor no longer knows.
    pub(super) fn retain(&mut self, is_known: impl Fn(&Arc<str>) -> bool) {
        let unknown: Vec<_> = self.objects.keys().filter(|action| !is_known(action)).cloned().collect();
        for action in unknown {
            self.forget(&action);
        }
    }

    /// When the result of [`at_least`](Self::at_least) changes next by time alone.
    pub(super) fn next_change(&self, delay: CountingDelay) -> Option<Instant> {
        let ended = self.ended.front().map(|(at, _)| after(*at, delay.ended));
        let created = self.recent.front().map(|(at, _)| after(*at, INCLUDED_AFTER));
        [ended, created].into_iter().flatten().min()
    }

    /// Applies what changed by time alone.
    pub(super) fn expire(&mut self, delay: CountingDelay, now: Instant) {
        while let Some((_, request)) = self.ended.pop_front_if(|(at, _)| after(*at, delay.ended) <= now) {
            amounts::subtract(&mut self.total, &request.amounts);
        }
        self.end_recent(INCLUDED_AFTER, now);
    }

    /// Records that a recount was seen. A wrong recount stays until the next one, which the end of an object causes.
    pub(super) fn recounted(&mut self, delay: CountingDelay, now: Instant) {
        self.end_recent(delay.created, now);
    }

    /// The least usage that is possible: `counted`, the usage that a quota shows, raised to the usage of the own objects.
    /// `hidden` is the usage of created objects that is known to be missing from the quota and that the caller adds itself.
    pub(super) fn at_least(&self, counted: &Amounts, hidden: &Amounts) -> Amounts {
        let mut own = self.total.clone();
        amounts::subtract(&mut own, hidden);
        let mut used = counted.clone();
        for (name, used) in &mut used {
            let Some(own) = own.get(name).filter(|own| *own > used) else { continue };
            // Only recent objects can be missing from the count.
            let most = self.recent_total.get(name).map_or_else(|| used.clone(), |recent| used.plus(recent));
            *used = if *own < most { own.clone() } else { most };
        }
        used
    }

    fn forget(&mut self, action: &str) {
        if let Some(request) = self.take(action) {
            amounts::subtract(&mut self.total, &request.amounts);
        }
    }

    /// Removes an object from `objects`, but leaves its usage in `total`.
    fn take(&mut self, action: &str) -> Option<Arc<CreateRequest>> {
        let Object { request, is_recent, .. } = self.objects.remove(action)?;
        if is_recent {
            amounts::subtract(&mut self.recent_total, &request.amounts);
        }
        Some(request)
    }

    /// Objects of at least this age are no longer recent.
    fn end_recent(&mut self, age: Duration, now: Instant) {
        while let Some((at, action)) = self.recent.pop_front_if(|(at, _)| after(*at, age) <= now) {
            let is_same = |object: &&mut Object| object.is_recent && object.created_at == at;
            if let Some(object) = self.objects.get_mut(&action).filter(is_same) {
                object.is_recent = false;
                amounts::subtract(&mut self.recent_total, &object.request.amounts);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_machinery::ResourceKind;
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::amounts::of;
    use crate::time::testing::at_second as at;

    const DELAY: CountingDelay = CountingDelay { created: Duration::from_secs(3), ended: Duration::from_millis(300) };

    fn usage_of_pods(count: usize, now: Instant) -> OwnUsage {
        let mut usage = OwnUsage::default();
        let amounts = of(&[("pods", "1")]);
        let request = Arc::new(CreateRequest { kind: ResourceKind::of::<Pod>(), amounts, pod_traits: None });
        for number in 0..count {
            usage.object_created(&number.to_string().into(), &request, now);
        }
        usage
    }

    fn used(usage: &OwnUsage, counted: &str, hidden: &str) -> String {
        usage.at_least(&of(&[("pods", counted)]), &of(&[("pods", hidden)]))["pods"].to_string()
    }

    #[test]
    fn usage_is_never_less_than_that_of_the_objects_known_to_exist() {
        let mut usage = usage_of_pods(5, at(0));
        assert_eq!(used(&usage, "3", "0"), "5", "two objects are missing from the count");
        assert_eq!(used(&usage, "3", "1"), "4", "one of them is known to be missing, and the caller adds it");
        assert_eq!(used(&usage, "7", "0"), "7", "objects of other creators count too");
        assert!(usage.object_ended("4", at(1)) && !usage.object_ended("4", at(1)));
        assert_eq!((used(&usage, "3", "0").as_str(), usage.next_change(DELAY)), ("5", Some(after(at(1), DELAY.ended))));
        usage.expire(DELAY, after(at(1), DELAY.ended));
        assert_eq!(used(&usage, "3", "0"), "4");
        usage.retain(|action| **action != *"3");
        assert_eq!(used(&usage, "0", "0"), "3");
    }

    #[test]
    fn a_recount_long_after_an_object_was_created_is_believed() {
        let mut usage = usage_of_pods(5, at(0));
        usage.expire(DELAY, at(10));
        usage.recounted(DELAY, at(2));
        assert_eq!(used(&usage, "3", "0"), "5");
        usage.recounted(DELAY, at(3));
        assert_eq!(used(&usage, "3", "0"), "3");
        let request = Arc::clone(&usage.objects["0"].request);
        usage.object_created(&"new".into(), &request, at(3));
        assert_eq!(used(&usage, "3", "0"), "4", "only recent objects can be missing from the count");
    }
}
