//! How much of what a pod takes.

use std::collections::BTreeMap;

use aileron_kubekit::quantity::Quantity;
use serde_json::{Map, Value};

/// Amounts by resource.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// The amounts that a map of an object holds; what is no quantity is left out.
pub(crate) fn read(map: &Value) -> Amounts {
    let fields = map.as_object().into_iter().flatten();
    fields.filter_map(|(name, amount)| Some((name.clone(), amount.as_str()?.parse().ok()?))).collect()
}

/// The amounts as a map of an object.
pub(crate) fn write(amounts: &Amounts) -> Value {
    let fields: Map<_, _> = amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect();
    Value::Object(fields)
}

/// `cpu=1,memory=2Gi`: the given names only.
pub(crate) fn pretty(amounts: &Amounts, names: &[&str]) -> String {
    let shown = amounts.iter().filter(|(name, _)| names.contains(&name.as_str()));
    shown.map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
}

/// The sum, resource by resource.
pub(crate) fn plus(left: &mut Amounts, right: &Amounts) {
    for (name, amount) in right {
        let sum = left.get(name).map_or_else(|| amount.clone(), |own| own.plus(amount));
        left.insert(name.clone(), sum);
    }
}

/// The difference, resource by resource; what the left does not have stays away.
pub(crate) fn minus(left: &mut Amounts, right: &Amounts) {
    for (name, amount) in right {
        if let Some(own) = left.get_mut(name) {
            *own = own.minus(amount);
        }
    }
}

fn at_least(left: &mut Amounts, right: &Amounts) {
    for (name, amount) in right {
        if left.get(name).is_none_or(|own| own < amount) {
            left.insert(name.clone(), amount.clone());
        }
    }
}

/// The `requests` or `limits` of a whole pod: its containers together, or its largest init container if that is more.
pub(crate) fn of_pod(pod: &Value, which: &str) -> Amounts {
    let list = |name: &str| pod["spec"][name].as_array().cloned().unwrap_or_default();
    let mut total = Amounts::new();
    for container in list("containers") {
        plus(&mut total, &read(&container["resources"][which]));
    }
    let (mut sidecars, mut largest) = (Amounts::new(), Amounts::new());
    for container in list("initContainers") {
        let own = read(&container["resources"][which]);
        if container["restartPolicy"] == "Always" {
            plus(&mut total, &own);
            plus(&mut sidecars, &own);
            at_least(&mut largest, &sidecars);
        } else {
            let mut together = own;
            plus(&mut together, &sidecars);
            at_least(&mut largest, &together);
        }
    }
    at_least(&mut total, &largest);
    plus(&mut total, &read(&pod["spec"]["overhead"]));
    total
}
