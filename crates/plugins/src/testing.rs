//! Settings for the property tests of plugins.

use proptest::prelude::{Strategy, any, prop};
use serde_json::{Value, json};

/// Settings that fit now and then: objects whose keys are often ones that a plugin knows.
pub(crate) fn any_settings(keys: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let leaf = proptest::prop_oneof![
        proptest::strategy::Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        proptest::prop_oneof!["[0-9]{1,3}(m|Gi|e9)?", "\\PC{0,8}"].prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(4, 40, 6, move |inner| {
        let key = proptest::prop_oneof![4 => proptest::sample::select(keys).prop_map(str::to_owned), 1 => "[a-z]{1,5}"];
        proptest::prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..6).prop_map(|map| json!(map)),
        ]
    });
    value.prop_map(|value| if value.is_object() { value } else { json!({"value": value}) })
}
