//! The downward API: fields of a pod and resources of its containers, as values for variables and files.

use std::collections::BTreeMap;

use aileron_kubekit::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};

use crate::node::options::NODE_ADDRESS;
use crate::node::resources::Amounts;

/// Why a field has no value. The texts are those of a kubelet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FieldError {
    #[error("unsupported fieldPath: {0}")]
    Path(String),
    #[error("unsupported container resource : {0}")]
    Resource(String),
    #[error("container {0} not found")]
    Container(String),
}

/// The value of a field by its path, such as `metadata.labels['app']`.
pub(crate) fn field(pod: &Pod, path: &str) -> Result<String, FieldError> {
    let metadata = &pod.metadata;
    let spec = pod.spec.as_ref();
    let text = |value: Option<&String>| value.cloned().unwrap_or_default();
    if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        let map = match map {
            "metadata.labels" => metadata.labels.as_ref(),
            "metadata.annotations" => metadata.annotations.as_ref(),
            _ => return Err(FieldError::Path(path.to_owned())),
        };
        return Ok(text(map.and_then(|map| map.get(key))));
    }
    Ok(match path {
        "metadata.name" => text(metadata.name.as_ref()),
        "metadata.namespace" => text(metadata.namespace.as_ref()),
        "metadata.uid" => text(metadata.uid.as_ref()),
        "metadata.labels" => format_map(metadata.labels.as_ref()),
        "metadata.annotations" => format_map(metadata.annotations.as_ref()),
        "spec.nodeName" => text(spec.and_then(|spec| spec.node_name.as_ref())),
        "spec.serviceAccountName" => text(spec.and_then(|spec| spec.service_account_name.as_ref())),
        "status.podIP" | "status.podIPs" | "status.hostIP" | "status.hostIPs" => NODE_ADDRESS.to_owned(),
        _ => return Err(FieldError::Path(path.to_owned())),
    })
}

/// All entries of a map, one per line, sorted, with quoted values. Mirrors `fieldpath.FormatMap`.
fn format_map(map: Option<&BTreeMap<String, String>>) -> String {
    let lines: Vec<_> = map.into_iter().flatten().map(|(key, value)| format!("{key}={value:?}")).collect();
    lines.join("\n")
}

/// A request or limit in units of the divisor, rounded up. A limit that is not set is the allocatable amount of the
/// node.
///
/// Mirrors `resource.ExtractContainerResourceValue`.
pub(crate) fn resource(
    pod: &Pod,
    own: Option<&Container>,
    selector: &ResourceFieldSelector,
    allocatable: &Amounts,
) -> Result<String, FieldError> {
    let container = match &selector.container_name {
        Some(name) => {
            let spec = pod.spec.iter();
            let mut all = spec.flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
            all.find(|container| container.name == *name).ok_or_else(|| FieldError::Container(name.clone()))?
        }
        None => own.ok_or_else(|| FieldError::Container(String::new()))?,
    };
    let unsupported = || FieldError::Resource(selector.resource.clone());
    let (kind, name) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    let resources = container.resources.as_ref();
    let set = match kind {
        "limits" => resources.and_then(|all| all.limits.as_ref()),
        "requests" => resources.and_then(|all| all.requests.as_ref()),
        _ => return Err(unsupported()),
    };
    let amount = set.and_then(|set| set.get(name)).and_then(|amount| amount.0.parse::<Quantity>().ok());
    let amount = match (amount, kind) {
        (Some(amount), _) => amount,
        (None, "limits") => allocatable.get(name).cloned().unwrap_or_default(),
        (None, _) => Quantity::default(),
    };
    let divisor = selector.divisor.as_ref().and_then(|divisor| divisor.0.parse::<Quantity>().ok());
    let divisor = divisor.filter(|divisor| !divisor.is_zero());
    let in_units = |quantity: &Quantity| if name == "cpu" { quantity.milli_value() } else { quantity.value() };
    let one = if name == "cpu" { 1000 } else { 1 };
    let divisor = divisor.as_ref().map_or(one, in_units).max(1);
    let amount = in_units(&amount);
    Ok((amount / divisor + i64::from(amount % divisor > 0)).to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Pod {
        let resources = json!({"limits": {"cpu": "1500m", "memory": "64Mi"}});
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "x", "a/b": "q\"q"}},
            "spec": {"nodeName": "n", "serviceAccountName": "sa", "containers": [{"name": "c", "resources": resources}]},
        }))
        .unwrap()
    }

    #[test]
    fn fields_are_found_by_path() {
        for (path, expected) in [
            ("metadata.name", "p"),
            ("metadata.namespace", "ns"),
            ("metadata.uid", "u"),
            ("metadata.labels['app']", "x"),
            ("metadata.annotations['none']", ""),
            ("metadata.labels", "a/b=\"q\\\"q\"\napp=\"x\""),
            ("spec.nodeName", "n"),
            ("spec.serviceAccountName", "sa"),
            ("status.podIP", NODE_ADDRESS),
        ] {
            assert_eq!(field(&pod(), path).unwrap(), expected, "{path}");
        }
        assert_eq!(field(&pod(), "spec.volumes").unwrap_err().to_string(), "unsupported fieldPath: spec.volumes");
    }

    #[test]
    fn resources_are_counted_in_units_of_the_divisor() {
        let pod = pod();
        let own = &pod.spec.as_ref().unwrap().containers[0];
        let node = Amounts::from([("ephemeral-storage".to_owned(), "2Ki".parse().unwrap())]);
        let value = |what: &str, divisor: &str| {
            let selector = serde_json::from_value(json!({"resource": what, "divisor": divisor})).unwrap();
            resource(&pod, Some(own), &selector, &node).unwrap()
        };
        assert_eq!(value("limits.cpu", "0"), "2");
        assert_eq!(value("limits.cpu", "1m"), "1500");
        assert_eq!(value("limits.memory", "1Mi"), "64");
        assert_eq!(value("requests.memory", "1"), "0");
        assert_eq!(value("limits.ephemeral-storage", "0"), "2048", "the amount of the node");
    }
}
