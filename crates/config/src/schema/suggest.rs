//! "Did you mean ...?": the known name that is most similar to an unknown one.

use super::shape::{Kind, Shape};

/// A suggestion for an unknown key: a similar key of the same group, or the other groups that have exactly this key.
pub(crate) fn for_key(root: Shape<'_>, group: Shape<'_>, key: &str) -> Option<String> {
    if let Some(name) = nearest(key, group.fields().map(|field| field.name)) {
        return Some(format!("did you mean {name:?}?"));
    }
    let mut homes = Vec::new();
    collect_homes(root, key, &mut Vec::new(), &mut homes);
    // A key that more than three groups have is too common for a useful suggestion.
    (1..=3).contains(&homes.len()).then(|| format!("did you mean {}?", homes.join(" or ")))
}

/// The most similar candidate, if it is similar enough for `word` to be a misspelling of it.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = simplified(word);
    // At most a third of the letters may differ. With more differences it is probably another word.
    let allowed = (word.len() / 3).max(1);
    candidates
        .map(|candidate| (distance(&word, &simplified(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The word in lower case and without separators, because these are the most frequent mistakes.
fn simplified(word: &str) -> Vec<char> {
    word.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// How many letters must be added, removed, replaced or swapped with their neighbour (optimal string alignment).
fn distance(left: &[char], right: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let replaced = row[j] + usize::from(a != b);
            let swapped =
                if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b { before[j - 1] + 1 } else { replaced };
            next.push(replaced.min(swapped).min(row[j + 1] + 1).min(next[j] + 1));
        }
        before = std::mem::replace(&mut row, next);
    }
    row[right.len()]
}

/// Collects the paths of all keys with exactly this name. The fields of Kubernetes types are not searched: they exist
/// in many places, so they would be misleading suggestions.
fn collect_homes(shape: Shape<'_>, key: &str, path: &mut Vec<String>, homes: &mut Vec<String>) {
    for field in shape.fields() {
        path.push(field.name.to_owned());
        if simplified(field.name) == simplified(key) {
            homes.push(path.join("."));
        }
        if field.shape.kubernetes_type().is_none() && matches!(field.shape.kind(), Kind::Struct(_)) {
            collect_homes(field.shape, key, path, homes);
        }
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let keys = ["default-cpus", "default-memory", "co-pilot", "gc"];
        assert_eq!(nearest("defaultCpu", keys.into_iter()), Some("default-cpus"));
        assert_eq!(nearest("copilot", keys.into_iter()), Some("co-pilot"));
        assert_eq!(nearest("gcc", keys.into_iter()), Some("gc"));
        assert_eq!(nearest("webhook", keys.into_iter()), None);
    }

    #[test]
    fn distance_counts_edits() {
        let letters = |word: &str| word.chars().collect::<Vec<_>>();
        assert_eq!(distance(&letters("kitten"), &letters("sitting")), 3);
        assert_eq!(distance(&letters(""), &letters("abc")), 3);
        assert_eq!(distance(&letters("abc"), &letters("")), 3);
        assert_eq!(distance(&letters("sprak"), &letters("spark")), 1);
    }
}
