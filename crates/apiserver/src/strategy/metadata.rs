//! Rules for `metadata`, which are the same for all kinds.

use aileron_kubekit::names::{label_key_problems, label_problems, label_value_problems, subdomain_problems};
use jiff::Timestamp;
use serde_json::Value;

use crate::errors::{ApiError, Cause};
use crate::kinds::Kind;
use crate::object::{is_terminating, meta, metadata_of, set_meta, string_map, strings, timestamp};

/// Upper bound of all annotations of an object, in bytes of keys and values, as in Kubernetes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;
/// Longest prefix of a generated name, as in Kubernetes: with the suffix it has 63 characters.
const MAX_NAME_PREFIX: usize = 58;

/// Generates a name from `generateName` and a random suffix, unless the object has a name.
pub(crate) fn generate_name(object: &mut Value, suffix: impl FnOnce() -> String) {
    let base = meta(object, "generateName");
    if meta(object, "name").is_empty() && !base.is_empty() {
        let end = (0..=base.len().min(MAX_NAME_PREFIX)).rev().find(|&at| base.is_char_boundary(at)).unwrap_or_default();
        let name = format!("{}{}", &base[..end], suffix());
        set_meta(object, "name", name.into());
    }
}

/// Sets the metadata that only the server may set on a new object.
pub(crate) fn prepare_new(kind: &Kind, object: &mut Value, uid: String, now: Timestamp) {
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        set_meta(object, field, Value::Null);
    }
    set_meta(object, "uid", uid.into());
    set_meta(object, "creationTimestamp", timestamp(now));
    if kind.behaviour.has_generation {
        set_meta(object, "generation", 1.into());
    }
}

/// Drops empty fields of `metadata`, which Go does not encode.
pub(crate) fn drop_empty_fields(object: &mut Value) {
    let Some(metadata) = metadata_of(object) else { return };
    metadata.retain(|_, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    });
}

/// Validation errors of the metadata of a new object.
pub(crate) fn problems(kind: &Kind, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = meta(object, "name");
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else {
        let problems = match &*kind.resource {
            "namespaces" => label_problems(name),
            // Names of roles and bindings may contain colons and capital letters.
            resource if resource.ends_with("rbac.authorization.k8s.io") => Vec::new(),
            _ => subdomain_problems(name),
        };
        let value = Value::from(name);
        causes.extend(problems.iter().map(|problem| Cause::invalid("metadata.name", &value, &problem.to_string())));
    }
    causes.extend(map_problems(object));
    let finalizers = strings(&object["metadata"]["finalizers"]);
    for (index, finalizer) in finalizers.iter().enumerate() {
        let field = format!("metadata.finalizers[{index}]");
        let value = Value::from(finalizer.as_str());
        for problem in label_key_problems(finalizer) {
            causes.push(Cause::invalid(&field, &value, &problem.to_string()));
        }
        if !finalizer.contains('/') && !["orphan", "foregroundDeletion", "kubernetes"].contains(&finalizer.as_str()) {
            let text = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(&field, &value, text));
        }
    }
    causes.extend(owner_problems(&object["metadata"]["ownerReferences"]));
    causes
}

fn map_problems(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in string_map(&object["metadata"]["labels"]) {
        for problem in label_key_problems(&key) {
            causes.push(Cause::invalid("metadata.labels", &key.as_str().into(), &problem.to_string()));
        }
        for problem in label_value_problems(&value) {
            causes.push(Cause::invalid("metadata.labels", &value.as_str().into(), &problem.to_string()));
        }
    }
    let mut size = 0;
    for (key, value) in string_map(&object["metadata"]["annotations"]) {
        size += key.len() + value.len();
        for problem in label_key_problems(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &key.as_str().into(), &problem.to_string()));
        }
    }
    if size > ANNOTATIONS_LIMIT {
        let message = format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes");
        causes.push(Cause { reason: "FieldValueTooLong", message, field: "metadata.annotations".to_owned() });
    }
    causes
}

fn owner_problems(owners: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut controllers = Vec::new();
    for owner in owners.as_array().into_iter().flatten() {
        for (field, text) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                let path = format!("metadata.ownerReferences.{field}");
                causes.push(Cause::invalid(path, &"".into(), text));
            }
        }
        if owner["controller"] == true {
            controllers.push(owner["name"].as_str().unwrap_or_default().to_owned());
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let text = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        causes.push(Cause::invalid("metadata.ownerReferences", owners, &text));
    }
    causes
}

/// Restores the metadata that a request cannot change, before the objects are compared.
pub(crate) fn prepare_update(object: &mut Value, current: &Value) {
    let old = &current["metadata"];
    for field in ["creationTimestamp", "selfLink", "generation"] {
        set_meta(object, field, old[field].clone());
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        // An update cannot remove these fields. If it sets them, validation refuses it.
        if !old[field].is_null() {
            set_meta(object, field, old[field].clone());
        }
    }
    if meta(object, "uid").is_empty() {
        set_meta(object, "uid", old["uid"].clone());
    }
    if object["metadata"]["managedFields"].is_null() {
        set_meta(object, "managedFields", old["managedFields"].clone());
    }
    set_meta(object, "resourceVersion", old["resourceVersion"].clone());
}

/// Validation errors of changed metadata.
pub(crate) fn update_problems(object: &Value, current: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if is_terminating(current) {
        let before = strings(&current["metadata"]["finalizers"]);
        let after = strings(&object["metadata"]["finalizers"]);
        let new: Vec<_> = after.iter().filter(|name| !before.contains(name)).collect();
        if !new.is_empty() {
            let list = new.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
            let text = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
            );
            causes.push(Cause::forbidden("metadata.finalizers", &text));
        }
    }
    for field in ["name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (old, new) = (&current["metadata"][field], &object["metadata"][field]);
        if old != new {
            causes.push(Cause::invalid(format!("metadata.{field}"), new, "field is immutable"));
        }
    }
    causes.extend(map_problems(object));
    causes
}

/// The resourceVersion in a request; `None` if the request accepts any.
pub(crate) fn expected_version(object: &Value) -> Result<Option<u64>, ApiError> {
    match meta(object, "resourceVersion") {
        "" | "0" => Ok(None),
        text => {
            let problem = |_| ApiError::internal(format!("strconv.ParseUint: parsing {text:?}: invalid syntax"));
            text.parse().map(Some).map_err(problem)
        }
    }
}
