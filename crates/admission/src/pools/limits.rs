//! Whether one more token is within the limits of a pool: pure functions.

use aileron_machinery::ActionKey;

/// The account that a token is counted on. Compared as a whole, so that project `a` is not charged for project `ab`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The project.
    pub project: String,
    /// The domain.
    pub domain: String,
}

/// How many tokens of a pool may be held at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// By all projects together.
    pub total: u32,
    /// By one project.
    pub per_project: Option<u32>,
    /// By one domain of one project.
    pub per_domain: Option<u32>,
}

/// A token that exists in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The action that holds it.
    pub holder: ActionKey,
    /// The account that it is counted on.
    pub account: Account,
    /// The resourceVersion of the token object: the order in which tokens were created, because tokens are never changed.
    pub version: u64,
}

/// The limit that does not allow one more token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// The limit of the whole pool.
    Pool {
        /// The limit.
        limit: u32,
    },
    /// The limit of one project.
    Project {
        /// The limit.
        limit: u32,
    },
    /// The limit of one domain of a project.
    Domain {
        /// The limit.
        limit: u32,
    },
}

/// Checks whether `wanted` may have one more token while the accounts in `taken` hold one each.
///
/// # Errors
/// The first limit that is reached.
pub fn check_limits(limits: &Limits, taken: &[Account], wanted: &Account) -> Result<(), LimitReached> {
    let is_reached = |limit: u32, count: usize| usize::try_from(limit).is_ok_and(|limit| count >= limit);
    if is_reached(limits.total, taken.len()) {
        return Err(LimitReached::Pool { limit: limits.total });
    }
    let of_project = taken.iter().filter(|account| account.project == wanted.project).count();
    if let Some(limit) = limits.per_project.filter(|limit| is_reached(*limit, of_project)) {
        return Err(LimitReached::Project { limit });
    }
    let of_domain = taken.iter().filter(|account| *account == wanted).count();
    match limits.per_domain.filter(|limit| is_reached(*limit, of_domain)) {
        Some(limit) => Err(LimitReached::Domain { limit }),
        None => Ok(()),
    }
}

/// Whether the token of `holder` is within the limits. Tokens are admitted in the order in which they were created. So all
/// executors that see the same tokens come to the same result, and a later token never displaces an earlier one.
pub fn is_admitted(limits: &Limits, mut tokens: Vec<Token>, holder: &ActionKey) -> bool {
    tokens.sort_by_key(|token| token.version);
    let mut taken = Vec::new();
    for token in tokens {
        let fits = check_limits(limits, &taken, &token.account).is_ok();
        if token.holder == *holder {
            return fits;
        }
        if fits {
            taken.push(token.account);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn account(project: &str, domain: &str) -> Account {
        Account { project: project.into(), domain: domain.into() }
    }

    fn token(number: u64, project: &str) -> Token {
        let holder = ActionKey::new("ns", &number.to_string());
        Token { holder, account: account(project, "d"), version: number }
    }

    #[test]
    fn projects_and_domains_are_compared_by_exact_names() {
        let limits = Limits { total: 4, per_project: Some(2), per_domain: Some(1) };
        let taken = [account("foobar", "d"), account("foobar", "e")];
        assert_eq!(check_limits(&limits, &taken, &account("foo", "d")), Ok(()), "another project");
        assert_eq!(check_limits(&limits, &taken, &account("foobar", "f")), Err(LimitReached::Project { limit: 2 }));
        assert_eq!(check_limits(&limits, &taken[..1], &account("foobar", "d")), Err(LimitReached::Domain { limit: 1 }));
        assert_eq!(check_limits(&limits, &taken[..1], &account("foobar", "e")), Ok(()));
        let full = vec![account("x", "y"); 4];
        assert_eq!(check_limits(&limits, &full, &account("foo", "d")), Err(LimitReached::Pool { limit: 4 }));
    }

    #[test]
    fn tokens_over_the_limit_of_a_project_leave_room_for_other_projects() {
        let limits = Limits { total: 2, per_project: Some(1), per_domain: None };
        let tokens = || vec![token(3, "b"), token(1, "a"), token(2, "a")];
        let admitted = |number: u64| is_admitted(&limits, tokens(), &ActionKey::new("ns", &number.to_string()));
        assert_eq!((admitted(1), admitted(2), admitted(3), admitted(4)), (true, false, true, false));
    }

    proptest! {
        #[test]
        fn the_limits_are_never_exceeded(total in 1..6_u32, cap in 0..4_u32, projects in prop::collection::vec(0..3_u8, 0..20)) {
            let limits = Limits { total, per_project: (cap > 0).then_some(cap), per_domain: None };
            let tokens: Vec<_> =
                projects.iter().zip(0..).map(|(project, number)| token(number, &project.to_string())).collect();
            let admitted: Vec<_> =
                tokens.iter().filter(|token| is_admitted(&limits, tokens.clone(), &token.holder)).collect();
            prop_assert!(admitted.len() <= total as usize);
            for project in 0..3_u8 {
                let held = admitted.iter().filter(|token| token.account.project == project.to_string()).count();
                prop_assert!(cap == 0 || held <= cap as usize);
            }
        }
    }
}
