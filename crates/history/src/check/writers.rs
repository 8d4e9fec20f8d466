//! Who writes, and what.

use std::collections::BTreeMap;

use aileron_action::ACTION_FINALIZER;
use aileron_action::object_identity::OBJECT_FINALIZER;
use serde_json::Value;

use super::{Facts, text};
use crate::history::What;

/// The prefix of labels and annotations that belong to the executor.
const OWN_PREFIX: &str = "flyte.org/";
/// The finalizers of the executor: on actions and on the objects of tasks.
const OWN_FINALIZERS: [&str; 2] = [ACTION_FINALIZER, OBJECT_FINALIZER];

pub(super) fn one(facts: &Facts<'_>) -> Vec<String> {
    let without_lease = facts.entries.iter().filter(|entry| matches!(&entry.what, What::Sent { leads: false, .. }));
    without_lease.map(ToString::to_string).collect()
}

pub(super) fn events(facts: &Facts<'_>) -> Vec<String> {
    let without_lease = facts.entries.iter().filter(|entry| matches!(&entry.what, What::Event { leads: false, .. }));
    without_lease.map(ToString::to_string).collect()
}

/// A write of an executor removes or changes only what belongs to the executor.
pub(super) fn fields_of_others(facts: &Facts<'_>) -> Vec<String> {
    let mut writers = BTreeMap::new();
    for entry in &facts.entries {
        if let What::Answered { who, version: Some(version), code, .. } = &entry.what
            && *code < 300
        {
            // A later write that changes nothing is answered with the same version.
            writers.entry(*version).or_insert(who);
        }
    }
    let mut wrong = Vec::new();
    for versions in facts.objects.values() {
        for pair in versions.windows(2) {
            let Some(writer) = writers.get(&pair[1].revision).filter(|who| who.starts_with("executor")) else {
                continue;
            };
            let lost = lost_fields(&pair[0].object, &pair[1].object);
            let name = text(&pair[1].object, "/metadata/name");
            wrong.extend(lost.map(|field| format!("{writer} removed {field} of {name}")));
        }
    }
    wrong
}

/// Labels, annotations and finalizers of others that the later version does not have.
fn lost_fields<'a>(before: &'a Value, after: &'a Value) -> impl Iterator<Item = String> + 'a {
    let maps = ["/metadata/labels", "/metadata/annotations"].into_iter().flat_map(move |path| {
        let entries = before.pointer(path).and_then(Value::as_object).into_iter().flatten();
        let kept = after.pointer(path);
        let lost = entries.filter(move |(key, value)| {
            !key.starts_with(OWN_PREFIX) && kept.and_then(|kept| kept.get(key.as_str())) != Some(*value)
        });
        lost.map(|(key, _)| key.clone())
    });
    let list =
        |object: &'a Value| object.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
    let kept: Vec<_> = list(after).collect();
    let finalizers = list(before)
        .filter(move |finalizer| !OWN_FINALIZERS.iter().any(|own| *finalizer == own) && !kept.contains(finalizer));
    maps.chain(finalizers.map(|finalizer| format!("finalizer {finalizer}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_belongs_to_the_executor_may_go_away() {
        let before = json!({"metadata": {
            "labels": {"owner": "x", "flyte.org/a": "1", "kept": "y"},
            "annotations": {"edited": "yes"},
            "finalizers": [ACTION_FINALIZER, "example.org/hold"],
        }});
        let after = json!({"metadata": {"labels": {"kept": "y", "owner": "z"}}});
        let lost: Vec<_> = lost_fields(&before, &after).collect();
        assert_eq!(lost, ["owner", "edited", "finalizer \"example.org/hold\""]);
        assert_eq!(lost_fields(&before, &before).count(), 0);
    }
}
