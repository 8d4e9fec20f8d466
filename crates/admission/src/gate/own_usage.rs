//! What our own objects take, as far as this process made them.
//!
//! The controller that counts usage works from a cache of its own. When something ends it writes what it counted, and
//! what was created a moment ago is often missing: for some time a full quota shows room. The server believes it too, so
//! creates go through until the count is put right, and those after are refused. So usage never counts as less than what
//! we know to be there.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::amounts::{self, Amounts};
use crate::backoff::later;
use crate::request::Request;

/// How long the controller that counts takes to take notice.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountingDelay {
    /// What was made longer ago is in a count that is made now.
    pub(super) made: Duration,
    /// What ended longer ago is in no count. Until then it may hide in a count that another object is missing.
    pub(super) ended: Duration,
}

/// What was made longer ago is in every count: the controller counts again from time to time. It bounds what an object
/// that we lost track of can take from others.
const COUNTED_WITHIN: Duration = Duration::from_secs(30);

/// The objects of the actions of a namespace that have not ended, as far as is known.
#[derive(Debug, Default)]
pub(super) struct OwnUsage {
    objects: HashMap<Arc<str>, Object>,
    /// Those that ended a moment ago, the first one first.
    ended: VecDeque<(Timestamp, Arc<Request>)>,
    /// Of all objects and of those that ended a moment ago.
    total: Amounts,
    /// The younger ones, the oldest first; some may be gone.
    young: VecDeque<(Timestamp, Arc<str>)>,
    young_total: Amounts,
}

#[derive(Debug)]
struct Object {
    request: Arc<Request>,
    at: Timestamp,
    is_young: bool,
}

impl OwnUsage {
    /// The object of an action was made.
    pub(super) fn add(&mut self, action: &Arc<str>, request: &Arc<Request>, now: Timestamp) {
        self.remove(action);
        amounts::add(&mut self.total, &request.amounts);
        amounts::add(&mut self.young_total, &request.amounts);
        self.young.push_back((now, Arc::clone(action)));
        let object = Object { request: Arc::clone(request), at: now, is_young: true };
        self.objects.insert(Arc::clone(action), object);
    }

    /// The object of an action has ended. The answer is whether there was one.
    pub(super) fn end(&mut self, action: &str, now: Timestamp) -> bool {
        let Some(request) = self.take_out(action) else { return false };
        self.ended.push_back((now, request));
        true
    }

    /// Nothing is known of an object of an action any more.
    pub(super) fn remove(&mut self, action: &str) {
        if let Some(request) = self.take_out(action) {
            amounts::take(&mut self.total, &request.amounts);
        }
    }

    /// When time alone changes what is known.
    pub(super) fn next_noticed(&self, notice: CountingDelay) -> Option<Timestamp> {
        let ended = self.ended.front().map(|(at, _)| later(*at, notice.ended));
        let made = self.young.front().map(|(at, _)| later(*at, COUNTED_WITHIN));
        [ended, made].into_iter().flatten().min()
    }

    fn take_out(&mut self, action: &str) -> Option<Arc<Request>> {
        let Object { request, is_young, .. } = self.objects.remove(action)?;
        if is_young {
            amounts::take(&mut self.young_total, &request.amounts);
        }
        Some(request)
    }

    /// Forgets those whose action is not known any more.
    pub(super) fn retain(&mut self, is_known: impl Fn(&Arc<str>) -> bool) {
        let lost: Vec<_> = self.objects.keys().filter(|action| !is_known(action)).cloned().collect();
        for action in lost {
            self.remove(&action);
        }
    }

    /// Lets objects grow old, and forgets those that ended.
    pub(super) fn expire(&mut self, notice: CountingDelay, now: Timestamp) {
        while let Some((_, request)) = self.ended.pop_front_if(|(at, _)| later(*at, notice.ended) <= now) {
            amounts::take(&mut self.total, &request.amounts);
        }
        self.grow_old(COUNTED_WITHIN, now);
    }

    /// A count was made a moment ago. One that is wrong stays so until the next, which the end of an object brings about.
    pub(super) fn counted(&mut self, notice: CountingDelay, now: Timestamp) {
        self.grow_old(notice.made, now);
    }

    fn grow_old(&mut self, age: Duration, now: Timestamp) {
        while let Some((at, action)) = self.young.pop_front_if(|(at, _)| later(*at, age) <= now) {
            if let Some(object) = self.objects.get_mut(&action).filter(|object| object.is_young && object.at == at) {
                object.is_young = false;
                amounts::take(&mut self.young_total, &object.request.amounts);
            }
        }
    }

    /// The least that may be used, given what a count says and what of ours is known not to be in it yet.
    pub(super) fn at_least(&self, counted: &Amounts, uncounted: &Amounts) -> Amounts {
        let mut own = self.total.clone();
        amounts::take(&mut own, uncounted);
        let mut used = counted.clone();
        for (name, used) in &mut used {
            let Some(own) = own.get(name).filter(|own| *own > used) else { continue };
            let most = self.young_total.get(name).map_or_else(|| used.clone(), |young| used.plus(young));
            *used = if *own < most { own.clone() } else { most };
        }
        used
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_machinery::ResourceKind;
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::amounts::of;

    const NOTICE: CountingDelay = CountingDelay { made: Duration::from_secs(3), ended: Duration::from_millis(300) };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn live(count: usize, now: Timestamp) -> OwnUsage {
        let mut live = OwnUsage::default();
        let amounts = of(&[("pods", "1")]);
        let request = Arc::new(Request { kind: ResourceKind::of::<Pod>(), amounts, traits: None });
        for number in 0..count {
            live.add(&number.to_string().into(), &request, now);
        }
        live
    }

    fn used(live: &OwnUsage, counted: &str, uncounted: &str) -> String {
        live.at_least(&of(&[("pods", counted)]), &of(&[("pods", uncounted)]))["pods"].to_string()
    }

    #[test]
    fn usage_is_never_less_than_what_is_known_to_be_there() {
        let mut live = live(5, at(0));
        assert_eq!(used(&live, "3", "0"), "5", "the count misses two");
        assert_eq!(used(&live, "3", "1"), "4", "one of them is known to be missing, and is added by others");
        assert_eq!(used(&live, "7", "0"), "7", "others take too");
        assert!(live.end("4", at(1)) && !live.end("4", at(1)));
        assert_eq!(
            (used(&live, "3", "0").as_str(), live.next_noticed(NOTICE)),
            ("5", Some(later(at(1), NOTICE.ended)))
        );
        live.expire(NOTICE, later(at(1), NOTICE.ended));
        assert_eq!(used(&live, "3", "0"), "4");
        live.retain(|action| **action != *"3");
        assert_eq!(used(&live, "0", "0"), "3");
    }

    #[test]
    fn a_count_after_an_object_was_there_for_long_is_believed() {
        let mut live = live(5, at(0));
        live.expire(NOTICE, at(10));
        live.counted(NOTICE, at(2));
        assert_eq!(used(&live, "3", "0"), "5");
        live.counted(NOTICE, at(3));
        assert_eq!(used(&live, "3", "0"), "3");
        let request = Arc::clone(&live.objects["0"].request);
        live.add(&"new".into(), &request, at(3));
        assert_eq!(used(&live, "3", "0"), "4", "no more is in doubt than what is young");
    }
}
