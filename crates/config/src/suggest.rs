//! What somebody may have meant.

use super::shape::{Kind, Shape};

/// A remedy for an unknown key: a similar key of the same group, or the group that has exactly this key.
pub(super) fn for_key(root: Shape<'_>, group: Shape<'_>, key: &str) -> Option<String> {
    if let Some(name) = nearest(key, group.fields().map(|field| field.name)) {
        return Some(format!("did you mean {name:?}?"));
    }
    let mut homes = Vec::new();
    collect_homes(root, key, &mut Vec::new(), &mut homes);
    // More homes than that are no help.
    (1..=3).contains(&homes.len()).then(|| format!("did you mean {}?", homes.join(" or ")))
}

/// The candidate that differs least, if it differs little enough to be a slip.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = simplified(word);
    // A third of the letters may be wrong: more than that is another word.
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .map(|candidate| (strsim::osa_distance(&word, &simplified(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The word without letter case and separators, which are the commonest slips.
fn simplified(word: &str) -> String {
    word.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Paths of groups of ours that have exactly this key. Kubernetes types are left out: their keys say nothing here.
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
    fn two_letters_in_the_wrong_order_are_one_slip() {
        assert_eq!(nearest("sprak", ["spark", "sprig"].into_iter()), Some("spark"));
        assert_eq!(nearest("abc", [""].into_iter()), None);
    }
}
