//! Strategic merge patch: lists whose items have a key are merged item by item.

use serde_json::{Map, Value};

/// Lists that are merged, with the key of their items. A list of this name has this key in all built-in kinds. `ports`
/// is an exception; see `key_of`.
const KEYS: [(&str, &str); 22] = [
    ("containers", "name"),
    ("initContainers", "name"),
    ("ephemeralContainers", "name"),
    ("volumes", "name"),
    ("env", "name"),
    ("volumeMounts", "mountPath"),
    ("volumeDevices", "devicePath"),
    ("imagePullSecrets", "name"),
    ("secrets", "name"),
    ("hostAliases", "ip"),
    ("topologySpreadConstraints", "topologyKey"),
    ("resourceClaims", "name"),
    ("schedulingGates", "name"),
    ("readinessGates", "conditionType"),
    ("ownerReferences", "uid"),
    ("conditions", "type"),
    ("addresses", "type"),
    ("taints", "key"),
    ("podIPs", "ip"),
    ("hostIPs", "ip"),
    ("webhooks", "name"),
    ("matchConditions", "name"),
];
/// Lists of strings that are merged as sets.
const SETS: [&str; 1] = ["finalizers"];

/// The merge key of a list; `None` if a patch replaces the list. The key of `ports` is different for containers and for
/// services, which the fields of the items tell apart.
pub(super) fn key_of(list: &str, items: &[Value]) -> Option<&'static str> {
    if list == "ports" {
        return Some(if items.iter().any(|item| item.get("containerPort").is_some()) {
            "containerPort"
        } else {
            "port"
        });
    }
    KEYS.iter().find(|(name, _)| *name == list).map(|(_, key)| *key)
}

/// The current value with the patch applied.
pub(super) fn merge(current: &Value, patch: &Value) -> Value {
    let (Value::Object(current), Value::Object(patch)) = (current, patch) else { return without_nulls(patch) };
    Value::Object(merge_fields(current, patch))
}

fn merge_fields(current: &Map<String, Value>, patch: &Map<String, Value>) -> Map<String, Value> {
    if patch.get("$patch").is_some_and(|directive| directive == "replace") {
        let kept = patch.iter().filter(|(name, _)| !name.starts_with('$'));
        return kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect();
    }
    let mut result = current.clone();
    if let Some(kept) = patch.get("$retainKeys").and_then(Value::as_array) {
        result.retain(|name, _| kept.iter().any(|key| key == name));
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            if let Some(items) = result.get_mut(list).and_then(Value::as_array_mut) {
                items.retain(|item| !value.as_array().is_some_and(|gone| gone.contains(item)));
            }
            continue;
        }
        if name.starts_with('$') {
            continue;
        }
        match (result.get(name), value) {
            (_, Value::Null) => {
                result.shift_remove(name);
            }
            (Some(Value::Object(old)), Value::Object(new)) => {
                let is_gone = new.get("$patch").is_some_and(|directive| directive == "delete");
                let merged = if is_gone { Map::new() } else { merge_fields(old, new) };
                result.insert(name.clone(), Value::Object(merged));
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                let mut merged = merge_list(name, old, new);
                if let Some(order) = patch.get(&format!("$setElementOrder/{name}")).and_then(Value::as_array) {
                    reorder(name, &mut merged, order);
                }
                result.insert(name.clone(), Value::Array(merged));
            }
            _ => {
                result.insert(name.clone(), without_nulls(value));
            }
        }
    }
    result
}

fn merge_list(name: &str, old: &[Value], new: &[Value]) -> Vec<Value> {
    if SETS.contains(&name) {
        let kept = old.iter().filter(|item| !new.contains(item));
        return new.iter().chain(kept).cloned().collect();
    }
    let directive = |item: &Value, wanted: &str| item.get("$patch").is_some_and(|found| found == wanted);
    let all: Vec<Value> = old.iter().chain(new).cloned().collect();
    let Some(key) = key_of(name, &all).filter(|_| !new.iter().any(|item| directive(item, "replace"))) else {
        let kept = new.iter().filter(|item| !directive(item, "replace"));
        return kept.map(without_nulls).collect();
    };
    let mut result = old.to_vec();
    for item in new {
        let index = result.iter().position(|known| known.get(key) == item.get(key));
        match index {
            Some(index) if directive(item, "delete") => {
                result.remove(index);
            }
            Some(index) => result[index] = merge(&result[index], item),
            None if directive(item, "delete") => {}
            None => result.push(without_nulls(item)),
        }
    }
    result
}

/// Sorts the items as `$setElementOrder` demands. Items that it does not name follow in their old order.
fn reorder(name: &str, items: &mut [Value], order: &[Value]) {
    let key = key_of(name, items);
    let rank = |item: &Value| {
        let is_it = |named: &Value| match key {
            Some(key) => named.get(key) == item.get(key),
            None => named == item,
        };
        order.iter().position(is_it).unwrap_or(order.len())
    };
    items.sort_by_key(rank);
}

/// A value that did not exist before: without nulls and directives, which refer to existing values only.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, value)| !value.is_null() && !name.starts_with('$'));
            Value::Object(kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_are_merged_by_their_key() {
        let pod = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}});
        let patch = json!({"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c"}]}});
        let expected = json!({"spec": {"containers":
            [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c"}]}});
        assert_eq!(merge(&pod, &patch), expected);
    }

    #[test]
    fn directives_delete_replace_and_order() {
        let pod =
            json!({"c": {"x": 1}, "volumes": [{"name": "a"}, {"name": "b"}], "metadata": {"finalizers": ["x", "y"]}});
        let patch = json!({
            "volumes": [{"name": "a", "$patch": "delete"}, {"name": "c"}],
            "$setElementOrder/volumes": [{"name": "c"}, {"name": "b"}],
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["x"], "finalizers": ["z"]},
            "c": {"$patch": "replace", "y": 2},
        });
        let expected =
            json!({"c": {"y": 2}, "volumes": [{"name": "c"}, {"name": "b"}], "metadata": {"finalizers": ["z", "y"]}});
        assert_eq!(merge(&pod, &patch), expected);
    }

    #[test]
    fn other_lists_are_replaced() {
        let merged =
            merge(&json!({"args": ["a"], "tolerations": [{"key": "k"}]}), &json!({"args": ["b"], "tolerations": null}));
        assert_eq!(merged, json!({"args": ["b"]}));
    }
}
