#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

const POOL: &str = "licences";

fn pools(quota: u32, project_cap: u32) -> Pools {
    let project = (project_cap > 0).then_some(project_cap);
    let pool = Pool { limits: Limits { quota, project, domain: None }, task_types: BTreeSet::new() };
    Pools::new([(POOL.to_owned(), pool)].into())
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn claim(name: &str, project: &str, created: i64) -> Claim {
    Claim {
        holder: ActionKey::new("ns", name),
        owner: OwnerReference::default(),
        account: Account { project: project.into(), domain: "d".into() },
        identity: String::new(),
        created: at(created),
        now: at(100),
    }
}

fn ask_as(pools: &Pools, claim: &Claim) -> Answer {
    pools.ask(POOL, pools.pool(POOL).unwrap(), claim)
}

/// All of the same age.
fn ask(pools: &Pools, name: &str, project: &str) -> Answer {
    ask_as(pools, &claim(name, project, 0))
}

fn words_of(answer: &Answer) -> &str {
    let Answer::Wait(wait) = answer else { panic!("{answer:?}") };
    &wait.pending.message
}

#[test]
fn a_token_is_given_once_and_those_who_wait_come_in_order() {
    let pools = pools(1, 0);
    assert_eq!(ask(&pools, "a", "p"), Answer::Take);
    pools.confirmed(POOL, &claim("a", "p", 0));
    assert_eq!(ask(&pools, "a", "p"), Answer::Held);
    assert_eq!(words_of(&ask(&pools, "b", "p")), "pool licences: all 1 tokens are taken");
    assert!(matches!(ask(&pools, "c", "p"), Answer::Wait(Wait { until: None, .. })));
    assert_eq!(pools.counts()[POOL], (1, 2));
    assert_eq!(pools.next(POOL, at(100)), []);
    pools.gone(POOL, &ActionKey::new("ns", "a"));
    assert_eq!(pools.next(POOL, at(100)), [ActionKey::new("ns", "b")]);
    assert!(matches!(ask(&pools, "c", "p"), Answer::Wait(_)), "b was there before");
    assert_eq!(ask(&pools, "b", "p"), Answer::Take);
    pools.gone(POOL, &ActionKey::new("ns", "b"));
    assert_eq!(ask(&pools, "c", "p"), Answer::Take);
    assert_eq!(pools.waiting(POOL), []);
}

#[test]
fn the_oldest_action_comes_first_whenever_it_asked() {
    let pools = pools(1, 0);
    assert_eq!(ask_as(&pools, &claim("a", "p", 1)), Answer::Take);
    for (name, created) in [("young", 9), ("old", 2), ("middle", 5)] {
        assert!(matches!(ask_as(&pools, &claim(name, "p", created)), Answer::Wait(_)));
    }
    assert_eq!(pools.waiting(POOL), ["old", "middle", "young"].map(|name| ActionKey::new("ns", name)));
    pools.gone(POOL, &ActionKey::new("ns", "a"));
    assert_eq!(ask_as(&pools, &claim("older", "p", 0)), Answer::Take, "older than all who wait");
}

#[test]
fn who_cannot_have_one_does_not_keep_others_from_it() {
    let pools = pools(2, 1);
    assert_eq!(ask(&pools, "a", "p"), Answer::Take);
    assert!(words_of(&ask(&pools, "b", "p")).contains("project p holds the 1 tokens"));
    assert_eq!(ask(&pools, "c", "q"), Answer::Take);
    pools.leave(&ActionKey::new("ns", "b"));
    assert_eq!(pools.waiting(POOL), []);
}

#[test]
fn a_token_that_was_not_to_be_had_leaves_its_place() {
    let pools = pools(1, 0);
    assert_eq!(ask(&pools, "a", "p"), Answer::Take);
    pools.missed(POOL, &claim("a", "p", 0));
    assert!(matches!(ask_as(&pools, &claim("b", "p", 1)), Answer::Wait(_)), "a is still first");
    assert_eq!(ask(&pools, "a", "p"), Answer::Take);
}

#[test]
fn a_token_that_only_the_watch_showed_is_not_relied_upon() {
    let pools = pools(1, 0);
    assert_eq!(ask(&pools, "a", "p"), Answer::Take);
    pools.missed(POOL, &claim("a", "p", 0));
    // The watch shows the token that was one too many, a moment before it shows that it is gone.
    pools.seen(POOL, ActionKey::new("ns", "a"), Account { project: "p".into(), domain: "d".into() });
    assert_eq!(ask(&pools, "a", "p"), Answer::Take, "the server has to say whether there is room");
    assert!(matches!(ask(&pools, "b", "p"), Answer::Wait(_)), "it counts nevertheless");
}

#[test]
fn a_server_that_does_not_answer_is_left_in_peace_by_all() {
    let pools = pools(5, 0);
    let busy = ApiError { code: 503, reason: "ServiceUnavailable".into(), ..ApiError::default() };
    assert_eq!(ask(&pools, "a", "p"), Answer::Take);
    let wait = pools.failed(POOL, &claim("a", "p", 0), &busy, at(100));
    assert_eq!(wait.pending.reason, PendingReason::BackOff);
    assert!(wait.until.is_some_and(|until| until > at(100)));
    assert_eq!(ask(&pools, "b", "p"), Answer::Wait(wait.clone()), "there is room, but nobody tries");
    assert_eq!((pools.next(POOL, at(100)).len(), pools.next(POOL, wait.until.unwrap()).len()), (0, 2));
    let later = Claim { now: wait.until.unwrap(), ..claim("a", "p", 0) };
    assert_eq!(ask_as(&pools, &later), Answer::Take);
    let again = pools.failed(POOL, &later, &busy, later.now);
    let length = |wait: &Wait, since: Timestamp| wait.until.unwrap().duration_since(since);
    assert!(length(&again, later.now) > length(&wait, at(100)), "longer each time");
    pools.confirmed(POOL, &later);
    assert_eq!(ask(&pools, "b", "p"), Answer::Take);
}

/// A holder that stayed in line would cost a token for as long as it lives.
#[test]
fn who_holds_a_token_is_not_counted_among_those_who_wait() {
    let busy = ApiError { code: 503, reason: "ServiceUnavailable".into(), ..ApiError::default() };
    let account = || Account { project: "p".into(), domain: "d".into() };
    for after_a_failure in [false, true] {
        let pools = pools(2, 0);
        let mut holder = claim("holder", "p", 0);
        assert_eq!(ask_as(&pools, &holder), Answer::Take);
        if after_a_failure {
            // The token was made, but nobody could say whether it counts, nor give it back.
            let wait = pools.failed(POOL, &holder, &busy, at(100));
            pools.seen(POOL, ActionKey::new("ns", "holder"), account());
            assert!(matches!(ask_as(&pools, &holder), Answer::Wait(_)), "everybody pauses");
            holder.now = wait.until.unwrap();
        } else {
            pools.missed(POOL, &holder);
            pools.seen(POOL, ActionKey::new("ns", "holder"), account());
        }
        assert_eq!(pools.next(POOL, holder.now), [], "it has its token, and nobody else waits");
        assert_eq!(ask_as(&pools, &holder), Answer::Take);
        let other = Claim { now: holder.now, ..claim("other", "p", 1) };
        assert_eq!(ask_as(&pools, &other), Answer::Take, "one of two tokens is free while the server is asked");
        pools.gone(POOL, &other.holder);
        pools.confirmed(POOL, &holder);
        assert_eq!((pools.waiting(POOL), pools.counts()[POOL]), (Vec::new(), (1, 0)));
        assert_eq!(ask_as(&pools, &other), Answer::Take, "one of two tokens is free");
    }
}
