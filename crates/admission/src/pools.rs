//! Pools of tokens: things there are only so many of, such as licences, that tasks hold while they run.
//!
//! Tokens are objects in the cluster , one for each holder and owned by its action, so that none is lost when
//! an action, or the executor, goes away. Who may have one is decided from them alone ([`limits`]): first from the watch,
//! without a request, and when a token was made once more from the server itself ([`broker`]), so that two executors that do
//! not know of one another cannot give out one too many.

pub mod broker;
pub mod limits;
mod pause;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aileron_kubekit::ApiError;
use aileron_machinery::{ActionKey, AnyK8sPlugin, Pending, PendingReason, TaskContext, TokenRequest};
use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use self::limits::{Account, Full, Limits, Token, room};
use self::pause::Pause;

/// The tokens in the cluster.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// Makes a token; one that this action has already is as good.
    async fn create(&self, pool: &str, claim: &Claim) -> Result<(), ApiError>;
    /// All tokens of a pool, as the server has them.
    async fn list(&self, pool: &str) -> Result<Vec<Token>, ApiError>;
    /// Gives a token back; one that is gone is given back.
    async fn delete(&self, pool: &str, holder: &ActionKey) -> Result<(), ApiError>;
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// How many tokens there are, in all and for each.
    pub limits: Limits,
    /// Task types whose tasks need one.
    pub task_types: BTreeSet<String>,
}

/// Who wants a token.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The action.
    pub holder: ActionKey,
    /// The action, as owner of the token.
    pub owner: OwnerReference,
    /// On whose account.
    pub account: Account,
    /// Who that is, for people.
    pub identity: String,
    /// When the action was made: the oldest comes first.
    pub created: Timestamp,
    /// The clock.
    pub now: Timestamp,
}

/// What a task that wants a token is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has one.
    Held,
    /// It may make one, and must tell what came of it.
    Take,
    /// It has to wait.
    Wait(Wait),
}

/// Why a task has to wait for a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What for.
    pub pending: Pending,
    /// When to ask again; nothing if it is called.
    pub until: Option<Timestamp>,
}

/// All pools and who holds their tokens.
#[derive(Default)]
pub struct Pools {
    pools: BTreeMap<String, Pool>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By pool and holder, as the watch shows them and as we have made them since.
    tokens: BTreeMap<(String, ActionKey), Entry>,
    /// Who waits, oldest action first.
    waiting: BTreeMap<String, Vec<Waiter>>,
    /// Pools whose tokens could not be taken.
    pauses: BTreeMap<String, Pause>,
}

struct Entry {
    account: Account,
    /// The server was asked whether there was room for it. One that the watch alone shows may be one too many, which is
    /// about to be given back.
    confirmed: bool,
}

struct Waiter {
    key: ActionKey,
    account: Account,
    created: Timestamp,
}

impl Claim {
    /// The claim of a task whose action was made at that time.
    pub fn of(task: &TaskContext, created: Timestamp) -> Self {
        let metadata = &task.metadata;
        let id = &metadata.id;
        Self {
            holder: ActionKey::new(&metadata.namespace, &metadata.owner.name),
            owner: metadata.owner.clone(),
            account: Account { project: id.project.clone(), domain: id.domain.clone() },
            identity: format!("{}/{}/{}/{}", id.project, id.domain, id.run, id.action),
            created,
            now: task.now,
        }
    }
}

impl Pools {
    /// These pools, by name. No token is held yet.
    pub fn new(pools: BTreeMap<String, Pool>) -> Self {
        Self { pools, state: Mutex::default() }
    }

    /// There are none, so nothing has to be watched.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// The pool of this name.
    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools.get(name)
    }

    /// The pools whose tokens a task needs, in the order in which it must get them: the same for all, so that no two
    /// wait for one another.
    pub fn needed(&self, plugin: &dyn AnyK8sPlugin, task: &TaskContext) -> BTreeSet<TokenRequest> {
        let by_type = self.pools.iter().filter(|(_, pool)| pool.task_types.contains(&task.template.r#type));
        by_type.map(|(name, _)| TokenRequest { pool: name.clone() }).chain(plugin.token(task)).collect()
    }

    /// Asks for a token. The oldest action comes first, as far as the limits let it.
    pub fn ask(&self, name: &str, pool: &Pool, claim: &Claim) -> Answer {
        let mut state = self.lock();
        let place = (name.to_owned(), claim.holder.clone());
        let seen = state.tokens.get(&place).map(|entry| entry.confirmed);
        if seen == Some(true) {
            return Answer::Held;
        }
        if let Some(pause) = state.pauses.get(name).filter(|pause| pause.until > claim.now) {
            let wait = Wait { pending: pause.pending.clone(), until: Some(pause.until) };
            state.enqueue(name, claim);
            return Answer::Wait(wait);
        }
        if seen.is_some() {
            return Answer::Take;
        }
        state.enqueue(name, claim);
        let mut taken: Vec<Account> = state.holders(name).cloned().collect();
        for older in state.line(name).take_while(|other| other.key != claim.holder) {
            if room(&pool.limits, &taken, &older.account).is_ok() {
                taken.push(older.account.clone());
            }
        }
        match room(&pool.limits, &taken, &claim.account) {
            Ok(()) => {
                state.dequeue(name, &claim.holder);
                state.tokens.insert(place, Entry { account: claim.account.clone(), confirmed: false });
                Answer::Take
            }
            Err(full) => {
                let words = words(name, &full, &claim.account);
                Answer::Wait(Wait { pending: Pending::new(PendingReason::Pool, words), until: None })
            }
        }
    }

    /// The server has the token, and there was room for it.
    pub fn confirmed(&self, name: &str, claim: &Claim) {
        let mut state = self.lock();
        state.pauses.remove(name);
        state.dequeue(name, &claim.holder);
        let entry = Entry { account: claim.account.clone(), confirmed: true };
        state.tokens.insert((name.to_owned(), claim.holder.clone()), entry);
    }

    /// The token that an answer let somebody take was not to be had after all; it goes back to its place in line.
    pub fn missed(&self, name: &str, claim: &Claim) {
        let mut state = self.lock();
        state.pauses.remove(name);
        state.give_up(name, claim);
    }

    /// A token could not be taken because the server did not let us. NoWaker tries again before some time has passed.
    pub fn failed(&self, name: &str, claim: &Claim, error: &ApiError, now: Timestamp) -> Wait {
        let mut state = self.lock();
        state.give_up(name, claim);
        let pause = Pause::after(state.pauses.get(name), name, error, now);
        let wait = Wait { pending: pause.pending.clone(), until: Some(pause.until) };
        state.pauses.insert(name.to_owned(), pause);
        wait
    }

    /// Somebody no longer waits.
    pub fn leave(&self, key: &ActionKey) {
        for line in self.lock().waiting.values_mut() {
            line.retain(|other| other.key != *key);
        }
    }

    /// Who waits for a pool, oldest first.
    pub fn waiting(&self, name: &str) -> Vec<ActionKey> {
        self.lock().waiting.get(name).into_iter().flatten().map(|waiter| waiter.key.clone()).collect()
    }

    /// Who waits for a pool and would get a token now. The others need not even ask.
    pub fn next(&self, name: &str, now: Timestamp) -> Vec<ActionKey> {
        let state = self.lock();
        let Some(pool) = self.pools.get(name) else { return Vec::new() };
        if state.pauses.get(name).is_some_and(|pause| pause.until > now) {
            return Vec::new();
        }
        let mut taken: Vec<Account> = state.holders(name).cloned().collect();
        let mut next = Vec::new();
        for waiter in state.line(name) {
            if room(&pool.limits, &taken, &waiter.account).is_ok() {
                taken.push(waiter.account.clone());
                next.push(waiter.key.clone());
            }
        }
        next
    }

    /// All tokens that are known.
    pub fn holders(&self) -> Vec<(String, ActionKey)> {
        self.lock().tokens.keys().cloned().collect()
    }

    /// A token is there.
    pub fn seen(&self, pool: &str, holder: ActionKey, account: Account) {
        self.lock().tokens.entry((pool.to_owned(), holder)).or_insert(Entry { account, confirmed: false });
    }

    /// A token is gone.
    pub fn gone(&self, pool: &str, holder: &ActionKey) {
        self.lock().tokens.remove(&(pool.to_owned(), holder.clone()));
    }

    /// Every pool with how many hold and how many wait.
    pub fn counts(&self) -> BTreeMap<String, (usize, usize)> {
        let state = self.lock();
        let waiting = |name: &String| state.waiting.get(name).map_or(0, Vec::len);
        self.pools.keys().map(|name| (name.clone(), (state.holders(name).count(), waiting(name)))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn holders(&self, pool: &str) -> impl Iterator<Item = &Account> {
        self.tokens.iter().filter(move |((name, _), _)| name == pool).map(|(_, entry)| &entry.account)
    }

    /// Who waits for a pool and has no token of it, oldest first. One that the watch shows with a token is among the
    /// holders, and must not count twice.
    fn line(&self, pool: &str) -> impl Iterator<Item = &Waiter> {
        let holders: BTreeSet<_> = self.tokens.keys().filter(|(name, _)| name == pool).map(|(_, key)| key).collect();
        self.waiting.get(pool).into_iter().flatten().filter(move |waiter| !holders.contains(&waiter.key))
    }

    /// Puts a claim in its place in line, unless it is there.
    fn enqueue(&mut self, pool: &str, claim: &Claim) {
        let line = self.waiting.entry(pool.to_owned()).or_default();
        if line.iter().any(|other| other.key == claim.holder) {
            return;
        }
        // Times are whole seconds: among equals, who came first.
        let place = line.partition_point(|other| other.created <= claim.created);
        let (key, account) = (claim.holder.clone(), claim.account.clone());
        line.insert(place, Waiter { key, account, created: claim.created });
    }

    fn dequeue(&mut self, pool: &str, key: &ActionKey) {
        if let Some(line) = self.waiting.get_mut(pool) {
            line.retain(|other| other.key != *key);
        }
    }

    fn give_up(&mut self, pool: &str, claim: &Claim) {
        self.tokens.remove(&(pool.to_owned(), claim.holder.clone()));
        self.enqueue(pool, claim);
    }
}

fn words(pool: &str, full: &Full, account: &Account) -> String {
    match full {
        Full::Pool { limit } => format!("pool {pool}: all {limit} tokens are taken"),
        Full::Project { limit } => {
            format!("pool {pool}: project {} holds the {limit} tokens that a project may hold", account.project)
        }
        Full::Domain { limit } => format!(
            "pool {pool}: domain {} of project {} holds the {limit} tokens that a domain may hold",
            account.domain, account.project
        ),
    }
}

#[cfg(test)]
mod tests;
