//! The pools, the actions that hold their tokens, and the actions that wait for one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aileron_kubekit::ApiError;
use aileron_machinery::{ActionKey, Pending, PendingReason, TaskContext, TokenRequest};
use jiff::Timestamp;

use super::backoff::PoolBackoff;
use super::claim::TokenClaim;
use super::limits::{Account, LimitReached, Limits, check_limits};

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// How many tokens may be held.
    pub limits: Limits,
    /// Every task of these types needs a token.
    pub task_types: BTreeSet<String>,
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimAnswer {
    /// The action holds a token.
    Held,
    /// The action may create a token. Report the result with [`Pools::confirmed`], [`Pools::over_limit`] or
    /// [`Pools::request_failed`].
    Create,
    /// The action must wait.
    Wait(TokenWait),
}

/// Why an action must wait for a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenWait {
    /// The reason that the action reports.
    pub pending: Pending,
    /// When to claim again. `None` if the action is woken when a token is free.
    pub retry_at: Option<Timestamp>,
}

/// All pools, with the holders of their tokens and the actions that wait for one.
#[derive(Default)]
pub struct Pools {
    pools: BTreeMap<String, Pool>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By pool and holder: the tokens that the watch shows, and those that this process has taken since.
    tokens: BTreeMap<(String, ActionKey), HeldToken>,
    /// The waiting queue of each pool, the oldest action first.
    waiting: BTreeMap<String, Vec<WaitingClaim>>,
    /// The last back-off period of each pool, until a request succeeds.
    backoffs: BTreeMap<String, PoolBackoff>,
}

struct HeldToken {
    account: Account,
    /// A list from the API server showed that the token is within the limits. A token that only the watch shows may be
    /// over a limit and about to be deleted.
    is_confirmed: bool,
}

struct WaitingClaim {
    action: ActionKey,
    account: Account,
    created_at: Timestamp,
}

impl Pools {
    /// Pools by name, without any token.
    pub fn new(pools: BTreeMap<String, Pool>) -> Self {
        Self { pools, state: Mutex::default() }
    }

    /// Whether no pool is configured, so that tokens need not be watched.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// The pool with this name.
    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools.get(name)
    }

    /// The pools whose tokens a task needs, in the order in which it must take them. The order is the same for all tasks,
    /// so that no two tasks wait for each other's tokens.
    pub fn needed(&self, requested: Option<TokenRequest>, task: &TaskContext) -> BTreeSet<TokenRequest> {
        let by_type = self.pools.iter().filter(|(_, pool)| pool.task_types.contains(&task.template.r#type));
        by_type.map(|(name, _)| TokenRequest { pool: name.clone() }).chain(requested).collect()
    }

    /// An action claims a token. Among waiting actions within the limits the oldest comes first.
    pub fn claim(&self, name: &str, pool: &Pool, claim: &TokenClaim) -> ClaimAnswer {
        let mut state = self.lock();
        let token = (name.to_owned(), claim.holder.clone());
        let is_confirmed = state.tokens.get(&token).map(|token| token.is_confirmed);
        if is_confirmed == Some(true) {
            return ClaimAnswer::Held;
        }
        if let Some(backoff) = state.backoffs.get(name).filter(|backoff| backoff.ends_at > claim.now) {
            let wait = TokenWait { pending: backoff.pending.clone(), retry_at: Some(backoff.ends_at) };
            state.enqueue(name, claim);
            return ClaimAnswer::Wait(wait);
        }
        // The watch shows a token of the action. Creating it again succeeds, and the list then confirms it.
        if is_confirmed.is_some() {
            return ClaimAnswer::Create;
        }
        state.enqueue(name, claim);
        let mut taken = state.accounts(name);
        for older in state.queue(name).take_while(|other| other.action != claim.holder) {
            if check_limits(&pool.limits, &taken, &older.account).is_ok() {
                taken.push(older.account.clone());
            }
        }
        match check_limits(&pool.limits, &taken, &claim.account) {
            Ok(()) => {
                state.dequeue(name, &claim.holder);
                state.tokens.insert(token, HeldToken { account: claim.account.clone(), is_confirmed: false });
                ClaimAnswer::Create
            }
            Err(reached) => {
                let text = limit_reached_text(name, reached, &claim.account);
                ClaimAnswer::Wait(TokenWait { pending: Pending::new(PendingReason::Pool, text), retry_at: None })
            }
        }
    }

    /// A list from the API server shows the token of the claim within the limits.
    pub fn confirmed(&self, name: &str, claim: &TokenClaim) {
        let mut state = self.lock();
        state.backoffs.remove(name);
        state.dequeue(name, &claim.holder);
        let token = HeldToken { account: claim.account.clone(), is_confirmed: true };
        state.tokens.insert((name.to_owned(), claim.holder.clone()), token);
    }

    /// A list from the API server shows the token of the claim over a limit, and the token was deleted. The action returns
    /// to its place in the waiting queue.
    pub fn over_limit(&self, name: &str, claim: &TokenClaim) {
        let mut state = self.lock();
        state.backoffs.remove(name);
        state.requeue(name, claim);
    }

    /// A request for the token of the claim failed. No action requests a token of this pool before the back-off ends.
    pub fn request_failed(&self, name: &str, claim: &TokenClaim, error: &ApiError, now: Timestamp) -> TokenWait {
        let mut state = self.lock();
        state.requeue(name, claim);
        let backoff = PoolBackoff::after(state.backoffs.get(name), name, error, now);
        let wait = TokenWait { pending: backoff.pending.clone(), retry_at: Some(backoff.ends_at) };
        state.backoffs.insert(name.to_owned(), backoff);
        wait
    }

    /// An action no longer waits for any token.
    pub fn stop_waiting(&self, action: &ActionKey) {
        for queue in self.lock().waiting.values_mut() {
            queue.retain(|other| other.action != *action);
        }
    }

    /// The actions that wait for a token of a pool, the oldest first.
    pub fn waiting(&self, name: &str) -> Vec<ActionKey> {
        self.lock().waiting.get(name).into_iter().flatten().map(|claim| claim.action.clone()).collect()
    }

    /// The waiting actions that would get a token of a pool now. The others need not be woken.
    pub fn next_holders(&self, name: &str, now: Timestamp) -> Vec<ActionKey> {
        let state = self.lock();
        let Some(pool) = self.pools.get(name) else { return Vec::new() };
        if state.backoffs.get(name).is_some_and(|backoff| backoff.ends_at > now) {
            return Vec::new();
        }
        let mut taken = state.accounts(name);
        let mut next = Vec::new();
        for claim in state.queue(name) {
            if check_limits(&pool.limits, &taken, &claim.account).is_ok() {
                taken.push(claim.account.clone());
                next.push(claim.action.clone());
            }
        }
        next
    }

    /// All known tokens, by pool and holder.
    pub fn holders(&self) -> Vec<(String, ActionKey)> {
        self.lock().tokens.keys().cloned().collect()
    }

    /// The watch shows a token.
    pub fn token_seen(&self, pool: &str, holder: ActionKey, account: Account) {
        let token = HeldToken { account, is_confirmed: false };
        self.lock().tokens.entry((pool.to_owned(), holder)).or_insert(token);
    }

    /// The watch shows that a token was deleted.
    pub fn token_deleted(&self, pool: &str, holder: &ActionKey) {
        self.lock().tokens.remove(&(pool.to_owned(), holder.clone()));
    }

    /// How many actions hold a token of each pool, and how many wait for one.
    pub fn counts(&self) -> BTreeMap<String, (usize, usize)> {
        let state = self.lock();
        let waiting = |name: &String| state.waiting.get(name).map_or(0, Vec::len);
        self.pools.keys().map(|name| (name.clone(), (state.accounts(name).len(), waiting(name)))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The accounts of all tokens of a pool.
    fn accounts(&self, pool: &str) -> Vec<Account> {
        let tokens = self.tokens.iter().filter(|((name, _), _)| name == pool);
        tokens.map(|(_, token)| token.account.clone()).collect()
    }

    /// The actions that wait for a token of a pool and have none, the oldest first. An action that waits although the
    /// watch shows its token is counted among the holders and must not count twice.
    fn queue(&self, pool: &str) -> impl Iterator<Item = &WaitingClaim> {
        let holders: BTreeSet<_> = self.tokens.keys().filter(|(name, _)| name == pool).map(|(_, key)| key).collect();
        self.waiting.get(pool).into_iter().flatten().filter(move |claim| !holders.contains(&claim.action))
    }

    /// Puts a claim into the waiting queue, unless it is in it already.
    fn enqueue(&mut self, pool: &str, claim: &TokenClaim) {
        let queue = self.waiting.entry(pool.to_owned()).or_default();
        if queue.iter().any(|other| other.action == claim.holder) {
            return;
        }
        // Creation times are whole seconds. Among actions of the same second the first claim comes first.
        let index = queue.partition_point(|other| other.created_at <= claim.created_at);
        let (action, account) = (claim.holder.clone(), claim.account.clone());
        queue.insert(index, WaitingClaim { action, account, created_at: claim.created_at });
    }

    fn dequeue(&mut self, pool: &str, action: &ActionKey) {
        if let Some(queue) = self.waiting.get_mut(pool) {
            queue.retain(|other| other.action != *action);
        }
    }

    /// The action has no token and waits again.
    fn requeue(&mut self, pool: &str, claim: &TokenClaim) {
        self.tokens.remove(&(pool.to_owned(), claim.holder.clone()));
        self.enqueue(pool, claim);
    }
}

/// The sentence for users of an action that waits because of a limit.
fn limit_reached_text(pool: &str, reached: LimitReached, account: &Account) -> String {
    match reached {
        LimitReached::Pool { limit } => format!("pool {pool}: all {limit} tokens are taken"),
        LimitReached::Project { limit } => {
            format!("pool {pool}: project {} holds the {limit} tokens that a project may hold", account.project)
        }
        LimitReached::Domain { limit } => format!(
            "pool {pool}: domain {} of project {} holds the {limit} tokens that a domain may hold",
            account.domain, account.project
        ),
    }
}

#[cfg(test)]
mod tests;
