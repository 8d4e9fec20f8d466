//! Which cases of a folder are run.

use super::case::Case;

/// A selection of cases by `family`, `family/group` or `family/group/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    prefixes: Vec<String>,
}

impl Selection {
    /// Every case.
    pub fn all() -> Self {
        Self::default()
    }

    /// The cases below any of these comma-separated paths; an empty text selects everything.
    pub fn parse(text: &str) -> Self {
        let prefixes = text.split(',').map(|part| part.trim().trim_matches('/')).filter(|part| !part.is_empty());
        Self { prefixes: prefixes.map(str::to_owned).collect() }
    }

    /// Whether the case is selected.
    pub fn includes(&self, case: &Case) -> bool {
        let id = case.id();
        self.prefixes.is_empty() || self.prefixes.iter().any(|prefix| is_below(&id, prefix))
    }

    /// The paths that select none of these cases, so that a misspelt path is reported.
    pub fn unused<'a>(&'a self, cases: &'a [Case]) -> impl Iterator<Item = &'a str> {
        self.prefixes.iter().filter(|prefix| !cases.iter().any(|case| is_below(&case.id(), prefix))).map(String::as_str)
    }
}

fn is_below(id: &str, prefix: &str) -> bool {
    id.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::is_below;

    #[test]
    fn a_path_ends_at_a_slash() {
        assert!(is_below("build/pod/x", "build"));
        assert!(is_below("build/pod/x", "build/pod"));
        assert!(is_below("build/pod/x", "build/pod/x"));
        assert!(!is_below("build/pod/x", "build/po"));
        assert!(!is_below("connector-route/x", "connector"));
    }
}
