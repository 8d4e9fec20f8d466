//! Two versions of a document side by side: which item of a list became which, and what changed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::path::{FieldPath, leaves};

/// How items of two lists of the same length are told to be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// By name first: a step of building may add, reorder and replace items.
    Names,
    /// By place first: the same steps ran on nearly the same values, so a name that differs is a change of the name.
    Places,
}

/// For each item after, which item before it was.
pub fn matched(before: &[Value], after: &[Value], matching: Matching) -> Vec<Option<usize>> {
    let same_length = before.len() == after.len();
    if same_length && matching == Matching::Places {
        return (0..after.len()).map(Some).collect();
    }
    if let (Some(old), Some(new)) = (names(before), names(after)) {
        return new.iter().map(|name| old.iter().position(|other| other == name)).collect();
    }
    let mut found = equal_items(before, after);
    if same_length {
        // What is left on both sides at the same place was changed there.
        let taken: BTreeSet<_> = found.iter().flatten().copied().collect();
        for (place, item) in found.iter_mut().enumerate() {
            if item.is_none() && !taken.contains(&place) {
                *item = Some(place);
            }
        }
    }
    found
}

/// The leaves of `before` that are not the same in `after`, and what is there instead, if anything.
pub fn changes(before: &Value, after: &Value) -> BTreeMap<FieldPath, Option<Value>> {
    let mut found = BTreeMap::new();
    compare(&FieldPath::default(), before, after, &mut found);
    found
}

fn compare(path: &FieldPath, before: &Value, after: &Value, found: &mut BTreeMap<FieldPath, Option<Value>>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) if !old.is_empty() => {
            for (key, old) in old {
                match new.get(key) {
                    Some(new) => compare(&path.key(key), old, new, found),
                    None => gone(&path.key(key), old, found),
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if !old.is_empty() => {
            let mut successors = vec![None; old.len()];
            for (place, origin) in matched(old, new, Matching::Places).into_iter().enumerate() {
                if let Some(origin) = origin {
                    successors[origin] = new.get(place);
                }
            }
            for (place, (old, new)) in old.iter().zip(successors).enumerate() {
                match new {
                    Some(new) => compare(&path.index(place), old, new, found),
                    None => gone(&path.index(place), old, found),
                }
            }
        }
        (old, new) if old == new => {}
        (Value::Object(fields), _) if !fields.is_empty() => gone(path, before, found),
        (Value::Array(items), _) if !items.is_empty() => gone(path, before, found),
        _ => {
            found.insert(path.clone(), Some(after.clone()));
        }
    }
}

fn gone(path: &FieldPath, value: &Value, found: &mut BTreeMap<FieldPath, Option<Value>>) {
    for (below, _) in leaves(value) {
        let path = below.segments().iter().fold(path.clone(), |path, segment| match segment {
            super::path::Segment::Key(key) => path.key(key),
            super::path::Segment::Index(index) => path.index(*index),
        });
        found.insert(path, None);
    }
}

/// The names of all items, if all have one and no two the same.
fn names(items: &[Value]) -> Option<Vec<&str>> {
    let names: Option<Vec<_>> = items.iter().map(|item| item.get("name").and_then(Value::as_str)).collect();
    names.filter(|names| names.iter().collect::<BTreeSet<_>>().len() == names.len())
}

/// Items that did not change, each used once, in the order of their first appearance.
fn equal_items(before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    let mut free: Vec<bool> = vec![true; before.len()];
    let mut take = |item: &Value| {
        let place = before.iter().enumerate().position(|(place, other)| free[place] && other == item)?;
        free[place] = false;
        Some(place)
    };
    after.iter().map(&mut take).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(value: &Value) -> &[Value] {
        value.as_array().map(Vec::as_slice).unwrap_or_default()
    }

    #[test]
    fn items_are_found_again_by_name_by_value_or_by_place() {
        let (old, new) = (json!([{"name": "a", "v": 1}, {"name": "b"}]), json!([{"name": "b"}, {"name": "a", "v": 2}]));
        assert_eq!(matched(list(&old), list(&new), Matching::Names), [Some(1), Some(0)]);
        assert_eq!(matched(list(&old), list(&new), Matching::Places), [Some(0), Some(1)]);
        let (old, new) = (json!(["x", "y"]), json!(["new", "x", "y"]));
        assert_eq!(matched(list(&old), list(&new), Matching::Places), [None, Some(0), Some(1)]);
        let (old, new) = (json!(["x", "y"]), json!(["x", "z"]));
        assert_eq!(matched(list(&old), list(&new), Matching::Names), [Some(0), Some(1)]);
    }

    #[test]
    fn a_change_names_the_old_place_and_the_new_value() {
        let before = json!({"a": 1, "b": {"c": [1, 2]}, "d": {}, "same": [1]});
        let after = json!({"a": 2, "b": {"c": [2]}, "d": {"e": 1}, "same": [1], "more": 1});
        let found: Vec<_> =
            changes(&before, &after).into_iter().map(|(path, value)| (path.to_string(), value)).collect();
        assert_eq!(
            found,
            [("a".to_owned(), Some(json!(2))), ("b.c[0]".to_owned(), None), ("d".to_owned(), Some(json!({"e": 1}))),]
        );
    }
}
