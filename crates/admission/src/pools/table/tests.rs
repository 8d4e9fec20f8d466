#![allow(clippy::unwrap_used, clippy::panic)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::*;
use crate::time::testing::date as at;

const POOL: &str = "licences";

/// One pool. A project limit of 0 stands for none.
fn pools(total: u32, project_limit: u32) -> Pools {
    let per_project = (project_limit > 0).then_some(project_limit);
    let pool = Pool { limits: Limits { total, per_project, per_domain: None }, task_types: BTreeSet::new() };
    Pools::new([(POOL.to_owned(), pool)].into())
}

fn claim(name: &str, project: &str, created: i64) -> TokenClaim {
    TokenClaim {
        holder: ActionKey::new("ns", name),
        owner: OwnerReference::default(),
        account: Account { project: project.into(), domain: "d".into() },
        identity: String::new(),
        created_at: at(created),
        now: at(100),
    }
}

fn claim_as(pools: &Pools, claim: &TokenClaim) -> ClaimAnswer {
    pools.claim(POOL, pools.pool(POOL).unwrap(), claim)
}

/// The claim of an action; all actions are of the same age.
fn claim_token(pools: &Pools, name: &str, project: &str) -> ClaimAnswer {
    claim_as(pools, &claim(name, project, 0))
}

fn wait_text(answer: &ClaimAnswer) -> &str {
    let ClaimAnswer::Wait(wait) = answer else { panic!("{answer:?}") };
    &wait.pending.message
}

#[test]
fn a_token_is_given_to_one_action_and_waiting_actions_follow_in_order() {
    let pools = pools(1, 0);
    assert_eq!(claim_token(&pools, "a", "p"), ClaimAnswer::Create);
    pools.confirmed(POOL, &claim("a", "p", 0));
    assert_eq!(claim_token(&pools, "a", "p"), ClaimAnswer::Held);
    assert_eq!(wait_text(&claim_token(&pools, "b", "p")), "pool licences: all 1 tokens are taken");
    assert!(matches!(claim_token(&pools, "c", "p"), ClaimAnswer::Wait(TokenWait { retry_at: None, .. })));
    assert_eq!(pools.counts()[POOL], (1, 2));
    assert_eq!(pools.next_holders(POOL, at(100)), []);
    pools.token_deleted(POOL, &ActionKey::new("ns", "a"));
    assert_eq!(pools.next_holders(POOL, at(100)), [ActionKey::new("ns", "b")]);
    assert!(matches!(claim_token(&pools, "c", "p"), ClaimAnswer::Wait(_)), "b claimed before c");
    assert_eq!(claim_token(&pools, "b", "p"), ClaimAnswer::Create);
    pools.token_deleted(POOL, &ActionKey::new("ns", "b"));
    assert_eq!(claim_token(&pools, "c", "p"), ClaimAnswer::Create);
    assert_eq!(pools.waiting(POOL), []);
}

#[test]
fn the_oldest_action_comes_first_whenever_it_claimed() {
    let pools = pools(1, 0);
    assert_eq!(claim_as(&pools, &claim("a", "p", 1)), ClaimAnswer::Create);
    for (name, created) in [("young", 9), ("old", 2), ("middle", 5)] {
        assert!(matches!(claim_as(&pools, &claim(name, "p", created)), ClaimAnswer::Wait(_)));
    }
    assert_eq!(pools.waiting(POOL), ["old", "middle", "young"].map(|name| ActionKey::new("ns", name)));
    pools.token_deleted(POOL, &ActionKey::new("ns", "a"));
    assert_eq!(claim_as(&pools, &claim("older", "p", 0)), ClaimAnswer::Create, "it is older than all waiting actions");
}

#[test]
fn an_action_over_the_limit_of_its_project_does_not_block_other_projects() {
    let pools = pools(2, 1);
    assert_eq!(claim_token(&pools, "a", "p"), ClaimAnswer::Create);
    assert!(wait_text(&claim_token(&pools, "b", "p")).contains("project p holds the 1 tokens"));
    assert_eq!(claim_token(&pools, "c", "q"), ClaimAnswer::Create);
    pools.stop_waiting(&ActionKey::new("ns", "b"));
    assert_eq!(pools.waiting(POOL), []);
}

#[test]
fn an_action_whose_token_was_over_the_limit_keeps_its_place_in_the_queue() {
    let pools = pools(1, 0);
    assert_eq!(claim_token(&pools, "a", "p"), ClaimAnswer::Create);
    pools.over_limit(POOL, &claim("a", "p", 0));
    assert!(matches!(claim_as(&pools, &claim("b", "p", 1)), ClaimAnswer::Wait(_)), "a is still first");
    assert_eq!(claim_token(&pools, "a", "p"), ClaimAnswer::Create);
}

#[test]
fn a_token_that_only_the_watch_shows_is_confirmed_before_it_is_held() {
    let pools = pools(1, 0);
    assert_eq!(claim_token(&pools, "a", "p"), ClaimAnswer::Create);
    pools.over_limit(POOL, &claim("a", "p", 0));
    // The watch shows the token that was over the limit, a moment before it shows that the token was deleted.
    pools.token_seen(POOL, ActionKey::new("ns", "a"), Account { project: "p".into(), domain: "d".into() });
    assert_eq!(claim_token(&pools, "a", "p"), ClaimAnswer::Create, "a list must confirm the token");
    assert!(
        matches!(claim_token(&pools, "b", "p"), ClaimAnswer::Wait(_)),
        "the token counts against the limit nevertheless"
    );
}

#[test]
fn after_a_failed_request_no_action_requests_a_token_until_the_back_off_ends() {
    let pools = pools(5, 0);
    let busy = ApiError { code: 503, reason: "ServiceUnavailable".into(), ..ApiError::default() };
    assert_eq!(claim_token(&pools, "a", "p"), ClaimAnswer::Create);
    let wait = pools.request_failed(POOL, &claim("a", "p", 0), &busy, at(100));
    assert_eq!(wait.pending.reason, PendingReason::BackOff);
    assert!(wait.retry_at.is_some_and(|until| until > at(100)));
    assert_eq!(
        claim_token(&pools, "b", "p"),
        ClaimAnswer::Wait(wait.clone()),
        "a token is free, but the pool is in back-off"
    );
    assert_eq!(
        (pools.next_holders(POOL, at(100)).len(), pools.next_holders(POOL, wait.retry_at.unwrap()).len()),
        (0, 2)
    );
    let later = TokenClaim { now: wait.retry_at.unwrap(), ..claim("a", "p", 0) };
    assert_eq!(claim_as(&pools, &later), ClaimAnswer::Create);
    let again = pools.request_failed(POOL, &later, &busy, later.now);
    let length = |wait: &TokenWait, since: Timestamp| wait.retry_at.unwrap().duration_since(since);
    assert!(length(&again, later.now) > length(&wait, at(100)), "each back-off is longer");
    pools.confirmed(POOL, &later);
    assert_eq!(claim_token(&pools, "b", "p"), ClaimAnswer::Create);
}

/// A holder that stayed in the waiting queue would count twice for as long as it holds its token.
#[test]
fn the_holder_of_a_token_is_not_counted_as_waiting() {
    let busy = ApiError { code: 503, reason: "ServiceUnavailable".into(), ..ApiError::default() };
    let account = || Account { project: "p".into(), domain: "d".into() };
    for after_a_failure in [false, true] {
        let pools = pools(2, 0);
        let mut holder = claim("holder", "p", 0);
        assert_eq!(claim_as(&pools, &holder), ClaimAnswer::Create);
        if after_a_failure {
            // The token was created, but it could be neither confirmed nor deleted.
            let wait = pools.request_failed(POOL, &holder, &busy, at(100));
            pools.token_seen(POOL, ActionKey::new("ns", "holder"), account());
            assert!(matches!(claim_as(&pools, &holder), ClaimAnswer::Wait(_)), "the pool is in back-off");
            holder.now = wait.retry_at.unwrap();
        } else {
            pools.over_limit(POOL, &holder);
            pools.token_seen(POOL, ActionKey::new("ns", "holder"), account());
        }
        assert_eq!(pools.next_holders(POOL, holder.now), [], "it has its token, and no other action waits");
        assert_eq!(claim_as(&pools, &holder), ClaimAnswer::Create);
        let other = TokenClaim { now: holder.now, ..claim("other", "p", 1) };
        assert_eq!(
            claim_as(&pools, &other),
            ClaimAnswer::Create,
            "one of two tokens is free while the other is being confirmed"
        );
        pools.token_deleted(POOL, &other.holder);
        pools.confirmed(POOL, &holder);
        assert_eq!((pools.waiting(POOL), pools.counts()[POOL]), (Vec::new(), (1, 0)));
        assert_eq!(claim_as(&pools, &other), ClaimAnswer::Create, "one of two tokens is free");
    }
}
