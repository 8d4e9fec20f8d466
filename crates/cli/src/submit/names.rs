//! Names of runs.

use std::hash::{BuildHasher, RandomState};

/// Letters that spell no words, and none that look like others.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// So many of them that a person can submit all day.
const RANDOM: usize = 6;
/// Longest piece of a task's name; with the random part it fits into a name of a run.
const TAKEN: usize = 20;

/// A name for a run of a task that no other run has.
pub fn run_name(task: &str) -> String {
    let mut name: String = task
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' })
        .skip_while(|letter| !letter.is_ascii_alphabetic())
        .take(TAKEN)
        .collect();
    name.truncate(name.trim_end_matches('-').len());
    if name.is_empty() {
        name.push('r');
    }
    name.push('-');
    // Hash keys are random and new each time, which is all the randomness a name needs.
    let mut rest = RandomState::new().hash_one(std::process::id());
    for _ in 0..RANDOM {
        let count = LETTERS.len() as u64;
        name.push(char::from(LETTERS[usize::try_from(rest % count).unwrap_or_default()]));
        rest /= count;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_fit_for_objects_and_differ() {
        let name = run_name("My.Module.greet_all_the_people_of_the_world");
        assert!(name.starts_with("my-module-greet-all"), "{name}");
        assert!(name.len() <= 30 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{name}");
        assert!(run_name("42").starts_with("r-"));
        assert_ne!(run_name("a"), run_name("a"));
    }
}
