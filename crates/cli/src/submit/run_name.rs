//! Generated names of runs.

use std::hash::{BuildHasher, RandomState};

/// The characters of the random part: no vowels, so that no words appear, and none that look like another one.
const CHARACTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// The length of the random part. 27^6 names make a collision in one namespace very unlikely.
const RANDOM_LENGTH: usize = 6;
/// At most this many characters of the task's name are used, so that the whole name has at most 30 characters.
const TASK_NAME_LENGTH: usize = 20;

/// A unique name for a run of a task: the name of the task and a random part.
pub fn run_name(task: &str) -> String {
    let mut name: String = task
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' })
        .skip_while(|letter| !letter.is_ascii_alphabetic())
        .take(TASK_NAME_LENGTH)
        .collect();
    name.truncate(name.trim_end_matches('-').len());
    if name.is_empty() {
        name.push('r');
    }
    name.push('-');
    // The keys of a new `RandomState` are random, which is random enough for a name.
    let mut rest = RandomState::new().hash_one(std::process::id());
    for _ in 0..RANDOM_LENGTH {
        let count = CHARACTERS.len() as u64;
        name.push(char::from(CHARACTERS[usize::try_from(rest % count).unwrap_or_default()]));
        rest /= count;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_are_valid_object_names_and_unique() {
        let name = run_name("My.Module.greet_all_the_people_of_the_world");
        assert!(name.starts_with("my-module-greet-all"), "{name}");
        assert!(name.len() <= 30 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{name}");
        assert!(run_name("42").starts_with("r-"));
        assert_ne!(run_name("a"), run_name("a"));
    }
}
