//! Who led when, from the states of the leader lease.
//!
//! A state of the lease was written after the time in `spec.renewTime`, which its holder reads before the request, and before
//! a follower delivered it. Between these times it is not known whether the lease was already in that state. In doubt, both
//! the old and the new holder lead. All times are from the clock of one machine.
//!
//! A replica of Aileron may take the lease from a Go executor that holds it ([`beside_go`](aileron_lease::record::beside_go)).
//! Then the Go executor leads until its lease expires, and the replica only after the duration of that lease.
//!
//! A process that does not lead may be excused in two cases:
//!
//! - A request is judged by the time when the API server received it, which is later than when it was sent. Writes stop 5 s
//!   before the lease expires, so this matters only when a leader releases the lease. [`TOLERANCE`] covers it.
//! - A process that is stopped with SIGSTOP may already have decided to send a request, and sends it when it goes on. No
//!   client can prevent this (see "not promised" in `docs/reliability.md`). It takes microseconds from the decision to
//!   the socket, so more than [`MOST_IN_TRANSIT`] such requests are a violation.

use std::collections::BTreeMap;

use aileron_history::history::Change;
use aileron_lease::LEASE_NAME;
use aileron_lease::record::RELEASED;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::time_in;
use crate::cluster::User;

/// How much later than sent a request may be received. Loopback needs microseconds, a loaded machine more.
pub const TOLERANCE: SignedDuration = SignedDuration::from_millis(250);
/// How long after a pause a request that was under way at its begin may be received.
pub const TRANSIT_TIME: SignedDuration = SignedDuration::from_secs(1);
/// How many requests may have been under way at the begin of one pause.
pub const MOST_IN_TRANSIT: usize = 2;
/// How long after the end of a process its last request may be received. A new process needs longer for its first write.
const LAST_REQUEST_WITHIN: SignedDuration = SignedDuration::from_millis(500);

/// The states of the leader lease, oldest first.
#[derive(Debug, Default)]
pub(super) struct Leases {
    states: Vec<LeaseState>,
}

#[derive(Debug, Clone)]
struct LeaseState {
    /// It was not written before this time.
    from: Timestamp,
    /// It was written by this time.
    delivered: Timestamp,
    holder: String,
    duration: SignedDuration,
    /// The holder took the lease from a holder whose lease had not expired, and leads from this time on.
    took_over: Option<Timestamp>,
}

/// The processes that have acted as a user.
#[derive(Debug, Default)]
pub(super) struct Lives {
    lives: Vec<Life>,
}

#[derive(Debug, Clone)]
pub(super) struct Life {
    pub name: String,
    user: User,
    started: Timestamp,
    ended: Option<Timestamp>,
    continued: Vec<Timestamp>,
}

/// How many requests were excused, by process and by the time when it went on.
#[derive(Debug, Default)]
pub(super) struct InTransit {
    excused: BTreeMap<(String, Timestamp), usize>,
}

impl Leases {
    pub fn changed(&mut self, at: Timestamp, change: Change, lease: &Value) {
        if lease["metadata"]["name"] != LEASE_NAME {
            return;
        }
        let seconds = lease["spec"]["leaseDurationSeconds"].as_i64().unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str().filter(|_| change != Change::Deleted);
        let holder = holder.filter(|holder| *holder != RELEASED).unwrap_or_default();
        // A lease that was changed by others has the time of its last holder, which is earlier: in doubt for the holder.
        let from = time_in(lease, "/spec/renewTime").unwrap_or(at).min(at);
        let took_over = self.states.last().and_then(|last| {
            if last.holder == holder {
                return last.took_over;
            }
            let may_be_alive = !last.holder.is_empty() && !holder.is_empty() && at < last.from + last.duration;
            may_be_alive.then(|| from + last.duration - TOLERANCE)
        });
        let duration = SignedDuration::from_secs(seconds);
        self.states.push(LeaseState { from, delivered: at, holder: holder.to_owned(), duration, took_over });
    }

    /// Who holds the lease now.
    pub fn holder(&self) -> Option<String> {
        self.states.last().map(|state| state.holder.clone()).filter(|holder| !holder.is_empty())
    }

    /// Whether a process may have held an unexpired lease at this time. Without any lease, there is no election.
    pub fn leads(&self, process: &str, at: Timestamp) -> bool {
        let may_lead = |(place, state): (usize, &LeaseState)| {
            let others = self.states[place..].iter().find(|later| later.holder != state.holder);
            let expires = state.delivered + state.duration;
            let taken = others.filter(|other| other.took_over.is_none());
            let until = taken.map_or(expires, |other| expires.min(other.delivered)) + TOLERANCE;
            let from = state.took_over.map_or(state.from, |leads_from| leads_from.max(state.from));
            is_identity_of(&state.holder, process) && from <= at && at <= until
        };
        self.states.is_empty() || self.states.iter().enumerate().any(may_lead)
    }

    /// Drops states that say nothing about this time or later times.
    pub fn forget_before(&mut self, at: Timestamp) {
        let is_old = |state: &LeaseState| state.delivered + state.duration + TOLERANCE < at;
        let old = self.states.iter().take_while(|state| is_old(state)).count();
        // The last state stays, because an empty list means that there is no election.
        self.states.drain(..old.min(self.states.len().saturating_sub(1)));
    }
}

/// The identity of a process is the name of its pod with something random.
fn is_identity_of(identity: &str, process: &str) -> bool {
    identity == process || identity.rsplit_once('_').is_some_and(|(pod, _)| pod == process)
}

impl Lives {
    pub fn started(&mut self, user: User, name: &str, at: Timestamp) {
        // Only the last processes of a user can still have requests that were not examined.
        let same = |life: &Life| life.user == user;
        if self.lives.iter().filter(|life| same(life)).count() > 64
            && let Some(oldest) = self.lives.iter().position(same)
        {
            self.lives.remove(oldest);
        }
        let life = Life { name: name.to_owned(), user, started: at, ended: None, continued: Vec::new() };
        self.lives.push(life);
    }

    pub fn ended(&mut self, name: &str, at: Timestamp) {
        self.last(name).for_each(|life| life.ended = Some(at));
    }

    pub fn continued(&mut self, name: &str, at: Timestamp) {
        self.last(name).for_each(|life| life.continued.push(at));
    }

    fn last(&mut self, name: &str) -> impl Iterator<Item = &mut Life> {
        self.lives.iter_mut().rev().filter(move |life| life.name == name).take(1)
    }

    /// The processes that may have sent a request as this user that was received at this time; the likeliest one first.
    pub fn senders(&self, user: User, at: Timestamp) -> impl Iterator<Item = &Life> {
        self.lives.iter().rev().filter(move |life| {
            let until = life.ended.map_or(Timestamp::MAX, |ended| ended + LAST_REQUEST_WITHIN);
            life.user == user && life.started <= at && at <= until
        })
    }

    /// The process with this name.
    pub fn named(&self, name: &str) -> Option<&Life> {
        self.lives.iter().rev().find(|life| life.name == name)
    }
}

impl InTransit {
    /// Whether a request that a process sent without leading was under way when the process was paused.
    pub fn excuses(&mut self, life: &Life, at: Timestamp) -> bool {
        let just_before = life.continued.iter().rev().find(|time| **time <= at && at <= **time + TRANSIT_TIME);
        let Some(continued) = just_before else { return false };
        let excused = self.excused.entry((life.name.clone(), *continued)).or_default();
        *excused += 1;
        *excused <= MOST_IN_TRANSIT
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A lease that was renewed in the first second and delivered in the next one.
    fn renewed(leases: &mut Leases, holder: &str, at: i64) {
        let spec = json!({
            "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": second(at).to_string(),
        });
        let lease = json!({"metadata": {"name": LEASE_NAME}, "spec": spec});
        leases.changed(second(at + 1), Change::Modified, &lease);
    }

    #[test]
    fn a_process_leads_while_its_lease_is_fresh_and_nobody_else_has_it() {
        let mut leases = Leases::default();
        assert!(leases.leads("a", second(5)), "there is no election");
        renewed(&mut leases, "a_1f", 100);
        renewed(&mut leases, "a_1f", 102);
        renewed(&mut leases, "b_77", 130);
        for (process, at, leads) in [
            ("a", 99, false),
            ("a", 100, true),
            ("a", 118, true), // delivered at 103, and 15 s
            ("a", 119, false),
            ("b", 119, false),
            ("b", 130, true),
            ("b", 146, true),
            ("b", 147, false),
            ("a", 131, false),
        ] {
            assert_eq!(leases.leads(process, second(at)), leads, "{process} at {at}");
        }
        leases.forget_before(second(125));
        assert!(!leases.leads("a", second(104)) && leases.leads("b", second(140)));
        assert_eq!(leases.holder().as_deref(), Some("b_77"));
    }

    #[test]
    fn a_lease_that_is_taken_ends_the_time_of_its_holder() {
        let mut leases = Leases::default();
        renewed(&mut leases, "a_1", 100);
        renewed(&mut leases, "", 105);
        renewed(&mut leases, "b_1", 107);
        assert!(leases.leads("a", second(106)) && !leases.leads("a", second(107)));
        assert!(leases.leads("b", second(108)));
        assert!(!leases.leads("another", second(108)));
    }

    #[test]
    fn a_process_that_takes_over_leads_when_the_lease_of_the_other_one_would_have_expired() {
        let mut leases = Leases::default();
        renewed(&mut leases, "go_1", 100);
        renewed(&mut leases, "a_1", 103);
        renewed(&mut leases, "a_1", 117);
        for (process, at, leads) in [
            ("go", 110, true),
            ("go", 116, true), // delivered at 101, and 15 s
            ("go", 117, false),
            ("a", 116, false),
            ("a", 117, false),
            ("a", 118, true),
        ] {
            assert_eq!(leases.leads(process, second(at)), leads, "{process} at {at}");
        }
    }

    #[test]
    fn a_lease_that_was_released_for_a_replica_is_not_taken_over() {
        let mut leases = Leases::default();
        renewed(&mut leases, "a_1", 100);
        renewed(&mut leases, RELEASED, 102);
        renewed(&mut leases, "b_1", 104);
        assert!(!leases.leads("a", second(105)) && leases.leads("b", second(105)));
    }

    #[test]
    fn a_request_belongs_to_the_process_that_lived_at_that_time() {
        let mut lives = Lives::default();
        lives.started(User::Executor, "a-1", second(10));
        lives.started(User::OtherExecutor, "b-1", second(10));
        lives.ended("a-1", second(20));
        lives.started(User::Executor, "a-2", second(20));
        let names =
            |at: i64| lives.senders(User::Executor, second(at)).map(|life| life.name.clone()).collect::<Vec<_>>();
        assert_eq!((names(9), names(15)), (vec![], vec!["a-1".to_owned()]));
        assert_eq!(names(20), ["a-2", "a-1"], "in doubt, both");
        assert_eq!(names(21), ["a-2"]);
    }

    #[test]
    fn few_requests_after_a_pause_are_excused() {
        let (mut lives, mut in_transit) = (Lives::default(), InTransit::default());
        lives.started(User::Executor, "a", second(0));
        lives.continued("a", second(50));
        let life = lives.named("a").unwrap();
        assert!(!in_transit.excuses(life, second(49)) && !in_transit.excuses(life, second(52)));
        let excused = [50, 50, 51].map(|at| in_transit.excuses(life, second(at)));
        assert_eq!(excused, [true, true, false]);
    }
}
