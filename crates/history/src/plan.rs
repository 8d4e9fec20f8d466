//! The tasks of a run, and how each of them must end.

/// A task of a run, as far as the rules are about it.
#[derive(Clone, Debug)]
pub struct PlannedTask {
    /// Its namespace, which is also the name of its run.
    pub namespace: String,
    /// Name of the action.
    pub name: String,
    /// The task type.
    pub task_type: String,
    /// Whether its outputs may come from the cache. It then succeeds without an attempt of its own.
    pub is_cached: bool,
    /// How it ends if nobody interferes.
    pub expected: Expected,
}

/// How a task ends if nobody interferes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It succeeds in this attempt.
    Success(u32),
    /// It fails in this attempt.
    Failure(u32),
}

impl Expected {
    /// How a task ends whose pods do what these words say, one for each attempt, as in the scripts of suites.
    #[must_use]
    pub fn of_attempts(words: &[String]) -> Self {
        for (attempt, word) in (1..).zip(words) {
            if word.starts_with("succeed") {
                return Self::Success(attempt);
            }
            if word.contains(":permanent") {
                return Self::Failure(attempt);
            }
        }
        Self::Failure(u32::try_from(words.len()).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_task_follows_from_its_attempts() {
        let end =
            |words: &[&str]| Expected::of_attempts(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(end(&["fail:1@5", "succeed@9"]), Expected::Success(2));
        assert_eq!(end(&["error:Broken:permanent@5", "succeed@9"]), Expected::Failure(1));
        assert_eq!(end(&["fail:1@5", "error:Broken:recoverable@1"]), Expected::Failure(2));
    }
}
