//! Amounts of several resources, named as quotas name them: `pods`, `requests.cpu`, `count/rayjobs.ray.io`.

use std::collections::BTreeMap;

use aileron_kubekit::quantity::{Format, Quantity};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;

/// Amounts by resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// The amounts of an object's map. A server never sends a text that is no quantity; one that did is not counted.
pub(super) fn read(map: Option<&BTreeMap<String, QuantityText>>) -> Amounts {
    map.into_iter().flatten().filter_map(|(name, text)| Some((name.clone(), text.0.parse().ok()?))).collect()
}

/// One whole thing.
pub(super) fn one() -> Quantity {
    Quantity::new(1, Format::DecimalSi)
}

/// Adds, resource by resource.
pub(super) fn add(left: &mut Amounts, right: &Amounts) {
    for (name, amount) in right {
        let sum = left.get(name).map_or_else(|| amount.clone(), |own| own.plus(amount));
        left.insert(name.clone(), sum);
    }
}

/// Takes away from those resources that are there; what is left may be less than nothing.
pub(super) fn take(left: &mut Amounts, right: &Amounts) {
    for (name, own) in left.iter_mut() {
        if let Some(amount) = right.get(name) {
            *own = own.minus(amount);
        }
    }
}

/// Raises to the larger of both, resource by resource.
pub(super) fn raise(left: &mut Amounts, right: &Amounts) {
    for (name, amount) in right {
        if left.get(name).is_none_or(|own| own < amount) {
            left.insert(name.clone(), amount.clone());
        }
    }
}

/// `cpu=1,memory=2Gi`, as API servers write it.
pub(super) fn text<'a>(amounts: &Amounts, names: impl IntoIterator<Item = &'a str>) -> String {
    let shown = names.into_iter().filter_map(|name| Some(format!("{name}={}", amounts.get(name)?)));
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
pub(super) fn of(list: &[(&str, &str)]) -> Amounts {
    list.iter().filter_map(|(name, amount)| Some(((*name).to_owned(), amount.parse().ok()?))).collect()
}
