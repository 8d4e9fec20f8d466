//! Canonical form of documents: documents with equal meaning become equal JSON.
//!
//! The rules are those of "Judging equality" in the description of the vectors. They depend on the place of a value:
//! `0` in a Kubernetes field means the same as no field, but as the result of a function it is a value. The [`Style`] says
//! which rules apply.
//!
//! Two rules are stricter than the description. Fields that are pointers in the Kubernetes API keep their zero value
//! (`enableServiceLinks: false` is not the default). Lists that upstream fills from maps are compared in order, because
//! both the recording and our code sort them.

use aileron_kubekit::quantity::{Format, Quantity, Scale};
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

/// What kind of document a value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A plain result: only null and empty lists equal absence.
    Plain,
    /// A Kubernetes object: zero values of most fields equal absence, quantities compare by value.
    Kubernetes,
    /// A Kubernetes object that a builder returned: as above, but its status is not compared.
    Built,
    /// A protobuf message as JSON: zero values equal absence.
    Proto,
    /// Uninterpreted data: compared as it is.
    Opaque,
}

/// Fields whose zero value differs from their absence, because they are pointers in the Kubernetes API.
const OPTIONAL_SCALARS: &[&str] = &[
    "activeDeadlineSeconds",
    "allowPrivilegeEscalation",
    "automountServiceAccountToken",
    "backoffLimit",
    "blockOwnerDeletion",
    "controller",
    "defaultMode",
    "enableServiceLinks",
    "fsGroup",
    "hostUsers",
    "maxReplicas",
    "minReplicas",
    "mode",
    "optional",
    "priority",
    "privileged",
    "readOnlyRootFilesystem",
    "replicas",
    "runAsGroup",
    "runAsNonRoot",
    "runAsUser",
    "shareProcessNamespace",
    "slotsPerWorker",
    "suspend",
    "terminationGracePeriodSeconds",
    "tolerationSeconds",
    "ttlSecondsAfterFinished",
];

/// Maps whose keys are chosen by users: every entry counts, even with an empty value. An empty map equals absence.
const MAPS: &[&str] = &[
    "annotations",
    "capacity",
    "data",
    "envVars",
    "hadoopConf",
    "labels",
    "limits",
    "matchLabels",
    "nodeSelector",
    "requests",
    "sparkConf",
    "stringData",
];

/// Structures that equal absence when they are empty. Other empty structures count: `emptyDir: {}` selects a volume type.
const EMPTY_STRUCTURES: &[&str] = &[
    "affinity",
    "metadata",
    "overrideResources",
    "platformResources",
    "resources",
    "securityContext",
    "status",
    "strategy",
];

/// Maps from resource names to quantities.
const QUANTITY_MAPS: &[&str] = &["capacity", "limits", "requests"];

/// Fields that hold one quantity.
const QUANTITIES: &[&str] = &["divisor", "sizeLimit"];

/// Endings of fields that hold a time.
const TIMES: &[&str] = &["At", "Time", "Timestamp", "_at", "_time", "lastEventUpdate", "lastTransition", "timestamp"];

/// The canonical form of a document; null if nothing is left.
pub fn canonical(style: Style, value: &Value) -> Value {
    reduce(style, "", value).unwrap_or(Value::Null)
}

/// The canonical form of the value of a key, or `None` if it equals absence.
fn reduce(style: Style, key: &str, value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Bool(flag) => (*flag || zero_counts(style, key)).then(|| value.clone()),
        Value::Number(number) => {
            (number.as_f64() != Some(0.0) || zero_counts(style, key)).then(|| Value::Number(plain_number(number)))
        }
        Value::String(text) => (!text.is_empty() || zero_counts(style, key)).then(|| reduce_text(style, key, text)),
        Value::Array(items) => (!items.is_empty()).then(|| Value::Array(reduce_list(style, key, items))),
        Value::Object(members) => {
            let reduced = reduce_members(style, key, members);
            let nothing = reduced.is_empty() && style != Style::Opaque && (is(EMPTY_STRUCTURES, key) || is(MAPS, key));
            (!nothing).then_some(Value::Object(reduced))
        }
    }
}

fn reduce_text(style: Style, key: &str, text: &str) -> Value {
    if style == Style::Opaque {
        return text.into();
    }
    if TIMES.iter().any(|ending| key.ends_with(ending))
        && let Ok(instant) = text.parse::<Timestamp>()
    {
        return instant.to_string().into();
    }
    match style {
        Style::Kubernetes | Style::Built if is(QUANTITIES, key) => amount(text).into(),
        Style::Kubernetes | Style::Built if key == "kind" && text == "pod" => "Pod".into(),
        _ => text.into(),
    }
}

/// Elements of a list always count, even zero values, because their position matters.
fn reduce_list(style: Style, key: &str, items: &[Value]) -> Vec<Value> {
    items
        .iter()
        .map(|item| match item {
            Value::String(text) => reduce_text(style, key, text),
            Value::Number(number) => Value::Number(plain_number(number)),
            Value::Object(members) => Value::Object(reduce_members(style, key, members)),
            other => reduce(style, key, other).unwrap_or_else(|| other.clone()),
        })
        .collect()
}

fn reduce_members(style: Style, key: &str, members: &Map<String, Value>) -> Map<String, Value> {
    let is_map = matches!(style, Style::Kubernetes | Style::Built) && is(MAPS, key);
    let mut reduced = Map::new();
    for (name, value) in members {
        if style == Style::Built && name == "status" {
            continue;
        }
        let value =
            if is_map { reduce_entry(key, value) } else { reduce(style_below(style, name, members), name, value) };
        if let Some(value) = value {
            reduced.insert(name.clone(), value);
        }
    }
    reduced
}

fn reduce_entry(map: &str, value: &Value) -> Option<Value> {
    match value {
        Value::String(text) if is(QUANTITY_MAPS, map) => Some(amount(text).into()),
        Value::Number(number) if is(QUANTITY_MAPS, map) => Some(amount(&number.to_string()).into()),
        Value::Null => None,
        other => Some(other.clone()),
    }
}

/// The style of a member of an object; `siblings` are all members of that object.
fn style_below(style: Style, name: &str, siblings: &Map<String, Value>) -> Style {
    match (style, name) {
        (Style::Plain, "resource" | "podSpec") => Style::Built,
        (Style::Plain, "object") if siblings.get("verb").is_some_and(|verb| verb == "create") => Style::Built,
        (Style::Plain, "object" | "overrideResources" | "ownerReference" | "platformResources" | "taskAction") => {
            Style::Kubernetes
        }
        (Style::Plain, "logs" | "logContext" | "actionEvents" | "taskExecutionId" | "securityContext") => Style::Proto,
        (Style::Plain | Style::Proto, "customInfo" | "custom_info") => Style::Opaque,
        // Only the top-level `status` is the status of the object.
        (Style::Built, _) => Style::Kubernetes,
        _ => style,
    }
}

fn zero_counts(style: Style, key: &str) -> bool {
    match style {
        Style::Plain | Style::Opaque => true,
        Style::Proto => false,
        Style::Kubernetes | Style::Built => is(OPTIONAL_SCALARS, key),
    }
}

/// A quantity as its exact amount, independent of the suffix. Text that is not a quantity stays unchanged.
fn amount(text: &str) -> String {
    let Ok(quantity) = text.parse::<Quantity>() else { return text.to_owned() };
    match quantity.checked_scaled_value(Scale::ONE) {
        Some(whole) if Quantity::new(whole, Format::DecimalSi) == quantity => format!("{whole} units"),
        _ => match quantity.checked_scaled_value(Scale(-9)) {
            Some(nanos) => format!("{nanos} nano-units"),
            None => quantity.to_string(),
        },
    }
}

/// JSON has one number type, so `1.0` equals `1`.
fn plain_number(number: &Number) -> Number {
    match number.as_f64() {
        // Whole numbers up to 2^53 are exact in both forms.
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 => {
            Number::from(float as i64)
        }
        _ => number.clone(),
    }
}

fn is(names: &[&str], key: &str) -> bool {
    names.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::diff::differences;
    use serde_json::json;

    fn equal(style: Style, a: &Value, b: &Value) -> bool {
        differences(&canonical(style, a), &canonical(style, b)).is_empty()
    }

    fn pod(container: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [container]}})
    }

    #[test]
    fn a_changed_value_and_a_missing_container_are_found() {
        let main = pod(&json!({"name": "m", "env": [{"name": "A", "value": "1"}]}));
        assert!(equal(Style::Built, &main, &main));
        assert!(!equal(Style::Built, &main, &pod(&json!({"name": "m", "env": [{"name": "A", "value": "2"}]}))));
        assert!(!equal(Style::Built, &main, &json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []}})));
    }

    #[test]
    fn order_counts_in_lists() {
        let a = pod(&json!({"args": ["a", "b"]}));
        assert!(!equal(Style::Built, &a, &pod(&json!({"args": ["b", "a"]}))));
        assert!(!equal(Style::Built, &a, &pod(&json!({"args": ["a", "b", ""]}))));
    }

    #[test]
    fn quantities_compare_by_value_only_in_quantity_fields() {
        let with = |cpu: &str| pod(&json!({"resources": {"limits": {"cpu": cpu}}}));
        assert!(equal(Style::Built, &with("1"), &with("1000m")));
        assert!(equal(Style::Built, &with("1Gi"), &with("1024Mi")));
        assert!(equal(Style::Built, &with("0.5"), &with("500m")));
        assert!(!equal(Style::Built, &with("1"), &with("1001m")));
        assert!(!equal(Style::Built, &with("0"), &pod(&json!({}))), "a zero limit is a limit");
        assert!(!equal(Style::Built, &pod(&json!({"image": "1"})), &pod(&json!({"image": "1000m"}))));
    }

    #[test]
    fn zero_values_equal_absence_except_in_pointer_fields() {
        let spec = |spec: Value| json!({"spec": spec});
        assert!(equal(Style::Kubernetes, &spec(json!({"hostNetwork": false, "schedulerName": ""})), &spec(json!({}))));
        assert!(!equal(Style::Kubernetes, &spec(json!({"enableServiceLinks": false})), &spec(json!({}))));
        assert!(!equal(Style::Plain, &json!({"version": 0}), &json!({})));
        assert!(equal(Style::Proto, &json!({"version": 0, "name": ""}), &json!({})));
    }

    #[test]
    fn an_empty_label_counts_and_an_empty_map_equals_absence() {
        let meta = |labels: Value| json!({"metadata": {"labels": labels}});
        assert!(!equal(Style::Kubernetes, &meta(json!({"a": ""})), &meta(json!({}))));
        assert!(equal(Style::Kubernetes, &meta(json!({})), &json!({})));
    }

    #[test]
    fn an_empty_structure_that_selects_a_variant_counts() {
        let volume = |source: Value| json!({"volumes": [source]});
        assert!(!equal(
            Style::Kubernetes,
            &volume(json!({"name": "v", "emptyDir": {}})),
            &volume(json!({"name": "v"}))
        ));
        assert!(equal(Style::Kubernetes, &json!({"affinity": {}}), &json!({})));
    }

    #[test]
    fn times_compare_as_instants() {
        assert!(equal(
            Style::Plain,
            &json!({"occurredAt": "2009-11-10T23:00:00Z"}),
            &json!({"occurredAt": "2009-11-11T00:00:00.000+01:00"})
        ));
        assert!(!equal(
            Style::Plain,
            &json!({"occurredAt": "2009-11-10T23:00:00Z"}),
            &json!({"occurredAt": "2009-11-10T23:00:01Z"})
        ));
    }

    #[test]
    fn only_a_built_object_loses_its_status_and_only_at_the_top() {
        let with = |status: Value| json!({"kind": "pod", "status": status, "spec": {"status": "x"}});
        assert!(equal(Style::Built, &with(json!({"phase": "a"})), &json!({"kind": "Pod", "spec": {"status": "x"}})));
        assert!(!equal(Style::Built, &with(json!({})), &json!({"kind": "Pod", "spec": {}})));
        assert!(!equal(Style::Kubernetes, &with(json!({"phase": "a"})), &with(json!({"phase": "b"}))));
    }

    #[test]
    fn opaque_data_keeps_everything_but_null() {
        let info = |value: Value| json!({"customInfo": value});
        assert!(!equal(Style::Plain, &info(json!({"a": {"labels": {}}})), &info(json!({"a": {}}))));
        assert!(equal(Style::Plain, &info(json!({"a": 1.0})), &info(json!({"a": 1}))));
    }
}
