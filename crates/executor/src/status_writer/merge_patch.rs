//! The smallest merge patch that turns one status into another.

use serde_json::{Map, Value};

/// The JSON merge patch (RFC 7396) from one value to another; `None` if there is nothing to change.
///
/// Fields that did not change are left out, so that what others write beside us stays.
pub fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            let mut patch = Map::new();
            for (key, wanted) in to {
                match from.get(key) {
                    Some(present) => {
                        if let Some(change) = merge_patch(present, wanted) {
                            patch.insert(key.clone(), change);
                        }
                    }
                    None => {
                        patch.insert(key.clone(), wanted.clone());
                    }
                }
            }
            for key in from.keys().filter(|key| !to.contains_key(*key)) {
                patch.insert(key.clone(), Value::Null);
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        _ if from == to => None,
        _ => Some(to.clone()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_changes_are_named_and_what_went_is_null() {
        let from = json!({"a": 1, "b": {"x": 1, "y": 2}, "c": [1], "d": "same"});
        let to = json!({"b": {"x": 1, "y": 3}, "c": [1, 2], "d": "same", "e": true});
        let patch = json!({"a": null, "b": {"y": 3}, "c": [1, 2], "e": true});
        assert_eq!(merge_patch(&from, &to), Some(patch));
        assert_eq!(merge_patch(&to, &to), None);
    }

    fn without_nulls() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-c]{0,3}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| map.into_iter().collect::<Value>()),
            ]
        })
    }

    proptest! {
        #[test]
        fn applying_the_patch_gives_the_target(
            from in prop::collection::btree_map("[a-d]", without_nulls(), 0..4),
            to in prop::collection::btree_map("[a-d]", without_nulls(), 0..4),
        ) {
            let (mut from, to): (Value, Value) = (from.into_iter().collect(), to.into_iter().collect());
            if let Some(patch) = merge_patch(&from, &to) {
                json_patch::merge(&mut from, &patch);
            }
            prop_assert_eq!(from, to);
        }
    }
}
