//! Documents reduced to what they mean, so that equal meaning is equal JSON.
//!
//! The rules are those of "Judging equality" in the description of the vectors. They depend on where a value stands:
//! `0` is nothing in a Kubernetes field, but it is a result in the table of a function. The [`Style`] says where we are.
//!
//! Two rules are applied more strictly than they are written. Fields that are pointers in the Kubernetes API keep
//! their zero (`enableServiceLinks: false` is not the default). And lists that upstream fills from maps are compared in
//! order, because the recording has them sorted and so has every list of ours.

use aileron_kubekit::quantity::{Format, Quantity, Scale};
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

/// What kind of document a value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A result of ours: only null and empty lists are nothing.
    Plain,
    /// A Kubernetes object: zero values of most fields are nothing, quantities compare by value.
    Kubernetes,
    /// A Kubernetes object that a builder returned: as above, and its status is not the builder's business.
    Built,
    /// A protobuf message as JSON: zero values are nothing.
    Proto,
    /// Data that nobody interprets: compared as it is.
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

/// Maps from names that users choose: every entry counts, also an empty text, but a map without entries is nothing.
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

/// Structures that mean nothing when nothing is in them. Others do: `emptyDir: {}` selects a kind of volume.
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

/// The document reduced to what it means; null if that is nothing.
pub fn canonical(style: Style, value: &Value) -> Value {
    reduce(style, "", value).unwrap_or(Value::Null)
}

/// The meaning of a value found under a key, or `None` if it means nothing.
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

/// Elements always count, whatever they are; their place is their meaning.
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

/// The style of a member, given the members it stands among.
fn style_below(style: Style, name: &str, siblings: &Map<String, Value>) -> Style {
    match (style, name) {
        (Style::Plain, "resource" | "podSpec") => Style::Built,
        (Style::Plain, "object") if siblings.get("verb").is_some_and(|verb| verb == "create") => Style::Built,
        (Style::Plain, "object" | "overrideResources" | "ownerReference" | "platformResources" | "taskAction") => {
            Style::Kubernetes
        }
        (Style::Plain, "logs" | "logContext" | "actionEvents" | "taskExecutionId" | "securityContext") => Style::Proto,
        (Style::Plain | Style::Proto, "customInfo" | "custom_info") => Style::Opaque,
        // Only the status at the top is the object's own.
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

/// A quantity as its exact amount, whatever the suffix. Text that is no quantity stays as it is.
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

/// JSON knows one kind of number: `1.0` is `1`.
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
    fn a_changed_value_and_a_missing_container_are_seen() {
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
    fn quantities_compare_by_value_where_quantities_stand() {
        let with = |cpu: &str| pod(&json!({"resources": {"limits": {"cpu": cpu}}}));
        assert!(equal(Style::Built, &with("1"), &with("1000m")));
        assert!(equal(Style::Built, &with("1Gi"), &with("1024Mi")));
        assert!(equal(Style::Built, &with("0.5"), &with("500m")));
        assert!(!equal(Style::Built, &with("1"), &with("1001m")));
        assert!(!equal(Style::Built, &with("0"), &pod(&json!({}))), "a zero limit is a limit");
        assert!(!equal(Style::Built, &pod(&json!({"image": "1"})), &pod(&json!({"image": "1000m"}))));
    }

    #[test]
    fn zeros_are_nothing_except_where_the_api_has_pointers() {
        let spec = |spec: Value| json!({"spec": spec});
        assert!(equal(Style::Kubernetes, &spec(json!({"hostNetwork": false, "schedulerName": ""})), &spec(json!({}))));
        assert!(!equal(Style::Kubernetes, &spec(json!({"enableServiceLinks": false})), &spec(json!({}))));
        assert!(!equal(Style::Plain, &json!({"version": 0}), &json!({})));
        assert!(equal(Style::Proto, &json!({"version": 0, "name": ""}), &json!({})));
    }

    #[test]
    fn an_empty_label_is_a_label_and_no_labels_are_nothing() {
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
