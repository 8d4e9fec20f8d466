//! Pools of tokens: things there are only so many of, such as licences, that tasks hold while they run.
//!
//! Tokens are objects in the cluster ([`cluster`]), one for each holder and owned by its action, so that none is lost when
//! an action, or the executor, goes away. Who may have one is decided from them alone ([`limits`]): first from the watch,
//! without a request, and when a token was made once more from the server itself, so that two executors that do not know
//! of one another cannot give out one too many.

pub mod cluster;
pub mod limits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aileron_machinery::{AnyK8sPlugin, TaskContext, TokenRequest};
use async_trait::async_trait;

use crate::cluster::ApiError;
use crate::config::sections::pools::PoolConfig;
use crate::controller::memory::ActionKey;
use limits::{Account, Full, Limits, Token, room};

/// The tokens in the cluster.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// Makes a token; one that is there already is as good.
    async fn create(&self, pool: &str, task: &TaskContext) -> Result<(), ApiError>;
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

/// What a task that wants a token is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has one.
    Held,
    /// It may make one, and must tell what came of it.
    Take,
    /// It has to wait, and why.
    Wait(String),
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
    tokens: BTreeMap<(String, ActionKey), Account>,
    /// Who waits, in the order of arrival.
    waiting: BTreeMap<String, Vec<(ActionKey, Account)>>,
}

impl Pools {
    /// The pools of a configuration.
    pub fn new(config: &BTreeMap<String, PoolConfig>) -> Self {
        let pool = |pool: &PoolConfig| Pool {
            limits: Limits { quota: pool.quota, project: cap(pool.project_cap), domain: cap(pool.domain_cap) },
            task_types: pool.task_types.iter().cloned().collect(),
        };
        let pools = config.iter().map(|(name, config)| (name.clone(), pool(config))).collect();
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

    /// Asks for a token. Whoever has waited longer comes first, as far as the limits let it.
    pub fn ask(&self, name: &str, pool: &Pool, key: &ActionKey, account: &Account) -> Answer {
        let mut state = self.lock();
        let place = (name.to_owned(), key.clone());
        if state.tokens.contains_key(&place) {
            return Answer::Held;
        }
        let mut taken: Vec<Account> = state.holders(name).cloned().collect();
        let line = state.waiting.entry(name.to_owned()).or_default();
        for (_, older) in line.iter().take_while(|(other, _)| other != key) {
            if room(&pool.limits, &taken, older).is_ok() {
                taken.push(older.clone());
            }
        }
        match room(&pool.limits, &taken, account) {
            Ok(()) => {
                line.retain(|(other, _)| other != key);
                state.tokens.insert(place, account.clone());
                Answer::Take
            }
            Err(full) => {
                if !line.iter().any(|(other, _)| other == key) {
                    line.push((key.clone(), account.clone()));
                }
                Answer::Wait(words(name, &full, account))
            }
        }
    }

    /// The token that an answer let somebody take was not to be had after all; it goes back to the front of the line.
    pub fn missed(&self, name: &str, key: &ActionKey, account: &Account) {
        let mut state = self.lock();
        state.tokens.remove(&(name.to_owned(), key.clone()));
        state.waiting.entry(name.to_owned()).or_default().insert(0, (key.clone(), account.clone()));
    }

    /// Somebody no longer waits.
    pub fn leave(&self, key: &ActionKey) {
        for line in self.lock().waiting.values_mut() {
            line.retain(|(other, _)| other != key);
        }
    }

    /// Who waits for a pool, longest first.
    pub fn waiting(&self, name: &str) -> Vec<ActionKey> {
        self.lock().waiting.get(name).into_iter().flatten().map(|(key, _)| key.clone()).collect()
    }

    /// All tokens that are known.
    pub fn holders(&self) -> Vec<(String, ActionKey)> {
        self.lock().tokens.keys().cloned().collect()
    }

    /// A token is there.
    pub(crate) fn seen(&self, pool: &str, holder: ActionKey, account: Account) {
        self.lock().tokens.insert((pool.to_owned(), holder), account);
    }

    /// A token is gone.
    pub(crate) fn gone(&self, pool: &str, holder: &ActionKey) {
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
        self.tokens.iter().filter(move |((name, _), _)| name == pool).map(|(_, account)| account)
    }
}

/// In the configuration, 0 means that there is no cap.
fn cap(cap: u32) -> Option<u32> {
    (cap > 0).then_some(cap)
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
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn pools(quota: u32, project_cap: u32) -> Pools {
        let config = PoolConfig { quota, project_cap, ..PoolConfig::default() };
        Pools::new(&[("licences".to_owned(), config)].into())
    }

    fn ask(pools: &Pools, name: &str, project: &str) -> Answer {
        let account = Account { project: project.into(), domain: "d".into() };
        pools.ask("licences", pools.pool("licences").unwrap(), &ActionKey::new("ns", name), &account)
    }

    #[test]
    fn a_token_is_given_once_and_those_who_wait_come_in_order() {
        let pools = pools(1, 0);
        assert_eq!(ask(&pools, "a", "p"), Answer::Take);
        assert_eq!(ask(&pools, "a", "p"), Answer::Held);
        let full = Answer::Wait("pool licences: all 1 tokens are taken".into());
        assert_eq!(ask(&pools, "b", "p"), full);
        assert_eq!(ask(&pools, "c", "p"), full);
        assert_eq!(pools.counts()["licences"], (1, 2));
        pools.gone("licences", &ActionKey::new("ns", "a"));
        assert_eq!(ask(&pools, "c", "p"), full, "b was there before");
        assert_eq!(ask(&pools, "b", "p"), Answer::Take);
        pools.gone("licences", &ActionKey::new("ns", "b"));
        assert_eq!(ask(&pools, "c", "p"), Answer::Take);
        assert_eq!(pools.waiting("licences"), []);
    }

    #[test]
    fn who_cannot_have_one_does_not_keep_others_from_it() {
        let pools = pools(2, 1);
        assert_eq!(ask(&pools, "a", "p"), Answer::Take);
        assert!(matches!(ask(&pools, "b", "p"), Answer::Wait(words) if words.contains("project p holds the 1 tokens")));
        assert_eq!(ask(&pools, "c", "q"), Answer::Take);
        pools.leave(&ActionKey::new("ns", "b"));
        assert_eq!(pools.waiting("licences"), []);
    }

    #[test]
    fn a_token_that_was_not_to_be_had_leaves_its_place() {
        let pools = pools(1, 0);
        assert_eq!(ask(&pools, "a", "p"), Answer::Take);
        pools.missed("licences", &ActionKey::new("ns", "a"), &Account { project: "p".into(), domain: "d".into() });
        assert!(matches!(ask(&pools, "b", "p"), Answer::Wait(_)), "a is still first");
        assert_eq!(ask(&pools, "a", "p"), Answer::Take);
    }
}
