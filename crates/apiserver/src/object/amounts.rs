//! Amounts of resources, such as `cpu` and `memory`, and what a pod requests of them.

use std::collections::BTreeMap;

use aileron_kubekit::quantity::Quantity;
use serde_json::{Map, Value};

/// Amounts by the name of the resource.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// Reads a map of quantities of an object. Values that are not quantities are skipped.
pub(crate) fn read(map: &Value) -> Amounts {
    let fields = map.as_object().into_iter().flatten();
    fields.filter_map(|(name, amount)| Some((name.clone(), amount.as_str()?.parse().ok()?))).collect()
}

/// The amounts as a map for an object.
pub(crate) fn write(amounts: &Amounts) -> Value {
    let fields: Map<_, _> = amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect();
    Value::Object(fields)
}

/// The amounts of the given resources as text: `cpu=1,memory=2Gi`.
pub(crate) fn pretty(amounts: &Amounts, names: &[&str]) -> String {
    let shown = amounts.iter().filter(|(name, _)| names.contains(&name.as_str()));
    shown.map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
}

/// Adds `right` to `left`, resource by resource.
pub(crate) fn add(left: &mut Amounts, right: &Amounts) {
    for (name, amount) in right {
        let sum = left.get(name).map_or_else(|| amount.clone(), |own| own.plus(amount));
        left.insert(name.clone(), sum);
    }
}

/// Subtracts `right` from `left`, resource by resource. Resources that `left` does not have are ignored.
pub(crate) fn subtract(left: &mut Amounts, right: &Amounts) {
    for (name, amount) in right {
        if let Some(own) = left.get_mut(name) {
            *own = own.minus(amount);
        }
    }
}

/// Raises `left` to `right` where `right` is larger.
fn raise(left: &mut Amounts, right: &Amounts) {
    for (name, amount) in right {
        if left.get(name).is_none_or(|own| own < amount) {
            left.insert(name.clone(), amount.clone());
        }
    }
}

/// The `requests` or `limits` of a whole pod: the sum of its containers, or of its largest init container with the
/// sidecars that run beside it if that is more.
pub(crate) fn of_pod(pod: &Value, which: &str) -> Amounts {
    let list = |name: &str| pod["spec"][name].as_array().cloned().unwrap_or_default();
    let mut total = Amounts::new();
    for container in list("containers") {
        add(&mut total, &read(&container["resources"][which]));
    }
    let (mut sidecars, mut largest) = (Amounts::new(), Amounts::new());
    for container in list("initContainers") {
        let own = read(&container["resources"][which]);
        if container["restartPolicy"] == "Always" {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            raise(&mut largest, &sidecars);
        } else {
            let mut together = own;
            add(&mut together, &sidecars);
            raise(&mut largest, &together);
        }
    }
    raise(&mut total, &largest);
    add(&mut total, &read(&pod["spec"]["overhead"]));
    total
}
