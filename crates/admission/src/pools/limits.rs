//! Who may have a token: plain counting.

use aileron_machinery::ActionKey;

/// On whose account a token is held. Compared as a whole, so that project `a` is not charged for project `ab`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The project.
    pub project: String,
    /// The domain.
    pub domain: String,
}

/// How many tokens there are, in all and for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In all.
    pub quota: u32,
    /// For one project.
    pub project: Option<u32>,
    /// For one domain of a project.
    pub domain: Option<u32>,
}

/// A token as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The action that holds it.
    pub holder: ActionKey,
    /// On whose account.
    pub account: Account,
    /// When it was made, in the server's own order. Tokens are never changed.
    pub version: u64,
}

/// What there is no room in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The whole pool.
    Pool {
        /// Its size.
        limit: u32,
    },
    /// What a project may hold.
    Project {
        /// How many that is.
        limit: u32,
    },
    /// What a domain may hold.
    Domain {
        /// How many that is.
        limit: u32,
    },
}

/// Whether there is room for one more beside those that are taken.
pub fn room(limits: &Limits, taken: &[Account], wanted: &Account) -> Result<(), Full> {
    let reached = |limit: u32, count: usize| usize::try_from(limit).is_ok_and(|limit| count >= limit);
    if reached(limits.quota, taken.len()) {
        return Err(Full::Pool { limit: limits.quota });
    }
    let of_project = taken.iter().filter(|account| account.project == wanted.project).count();
    if let Some(limit) = limits.project.filter(|limit| reached(*limit, of_project)) {
        return Err(Full::Project { limit });
    }
    let of_domain = taken.iter().filter(|account| *account == wanted).count();
    match limits.domain.filter(|limit| reached(*limit, of_domain)) {
        Some(limit) => Err(Full::Domain { limit }),
        None => Ok(()),
    }
}

/// Whether a holder's token counts, or is one too many: tokens are admitted in the order in which they were made. All who
/// look at the same tokens come to the same answer, and a later token never takes an earlier one's place.
pub fn admitted(limits: &Limits, mut tokens: Vec<Token>, holder: &ActionKey) -> bool {
    tokens.sort_by_key(|token| token.version);
    let mut taken = Vec::new();
    for token in tokens {
        let fits = room(limits, &taken, &token.account).is_ok();
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
    fn limits_are_reached_by_exact_names() {
        let limits = Limits { quota: 4, project: Some(2), domain: Some(1) };
        let taken = [account("foobar", "d"), account("foobar", "e")];
        assert_eq!(room(&limits, &taken, &account("foo", "d")), Ok(()), "another project");
        assert_eq!(room(&limits, &taken, &account("foobar", "f")), Err(Full::Project { limit: 2 }));
        assert_eq!(room(&limits, &taken[..1], &account("foobar", "d")), Err(Full::Domain { limit: 1 }));
        assert_eq!(room(&limits, &taken[..1], &account("foobar", "e")), Ok(()));
        let full = vec![account("x", "y"); 4];
        assert_eq!(room(&limits, &full, &account("foo", "d")), Err(Full::Pool { limit: 4 }));
    }

    #[test]
    fn a_project_that_has_enough_leaves_the_rest_to_others() {
        let limits = Limits { quota: 2, project: Some(1), domain: None };
        let tokens = || vec![token(3, "b"), token(1, "a"), token(2, "a")];
        let counts = |number: u64| admitted(&limits, tokens(), &ActionKey::new("ns", &number.to_string()));
        assert_eq!((counts(1), counts(2), counts(3), counts(4)), (true, false, true, false));
    }

    proptest! {
        #[test]
        fn never_more_than_there_are(quota in 1..6_u32, cap in 0..4_u32, projects in prop::collection::vec(0..3_u8, 0..20)) {
            let limits = Limits { quota, project: (cap > 0).then_some(cap), domain: None };
            let tokens: Vec<_> =
                projects.iter().zip(0..).map(|(project, number)| token(number, &project.to_string())).collect();
            let admitted: Vec<_> =
                tokens.iter().filter(|token| admitted(&limits, tokens.clone(), &token.holder)).collect();
            prop_assert!(admitted.len() <= quota as usize);
            for project in 0..3_u8 {
                let held = admitted.iter().filter(|token| token.account.project == project.to_string()).count();
                prop_assert!(cap == 0 || held <= cap as usize);
            }
        }
    }
}
