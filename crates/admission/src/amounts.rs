//! Amounts of several resources, keyed by the names that ResourceQuotas use.
//!
//! Examples of names: `pods`, `requests.cpu`, `count/rayjobs.ray.io`.

use std::collections::BTreeMap;

use aileron_kubekit::quantity::{Format, Quantity};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;

/// One amount for each resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// Parses the quantities of a Kubernetes object. An entry whose text is not a quantity is skipped; API servers reject
/// such entries, so this does not happen in practice.
pub(crate) fn parse(map: Option<&BTreeMap<String, QuantityText>>) -> Amounts {
    map.into_iter().flatten().filter_map(|(name, text)| Some((name.clone(), text.0.parse().ok()?))).collect()
}

/// The quantity 1, for resources that are counted.
pub(crate) fn one() -> Quantity {
    Quantity::new(1, Format::DecimalSi)
}

/// Adds `more` to `amounts`. A resource that `amounts` does not have yet is inserted.
pub(crate) fn add(amounts: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = amounts.get(name).map_or_else(|| amount.clone(), |own| own.plus(amount));
        amounts.insert(name.clone(), sum);
    }
}

/// Subtracts `less` from the resources that `amounts` has; others are ignored. A result may be negative.
pub(crate) fn subtract(amounts: &mut Amounts, less: &Amounts) {
    for (name, own) in amounts.iter_mut() {
        if let Some(amount) = less.get(name) {
            *own = own.minus(amount);
        }
    }
}

/// Raises each resource of `amounts` to at least the amount in `minimum`. A missing resource is inserted.
pub(crate) fn raise_to(amounts: &mut Amounts, minimum: &Amounts) {
    for (name, amount) in minimum {
        if amounts.get(name).is_none_or(|own| own < amount) {
            amounts.insert(name.clone(), amount.clone());
        }
    }
}

/// Lowers each resource that `amounts` has to at most the amount in `maximum`.
pub(crate) fn lower_to(amounts: &mut Amounts, maximum: &Amounts) {
    for (name, own) in amounts.iter_mut() {
        if let Some(amount) = maximum.get(name).filter(|amount| *amount < own) {
            *own = amount.clone();
        }
    }
}

/// The resources of `amounts` whose name satisfies `keep`.
pub(crate) fn filtered(amounts: &Amounts, keep: impl Fn(&String) -> bool) -> Amounts {
    amounts.iter().filter(|(name, _)| keep(name)).map(|(name, amount)| (name.clone(), amount.clone())).collect()
}

/// `cpu=1,memory=2Gi`: the format that API servers use in quota messages. Names without an amount are skipped.
pub(crate) fn to_text<'a>(amounts: &Amounts, names: impl IntoIterator<Item = &'a str>) -> String {
    let pairs = names.into_iter().filter_map(|name| Some(format!("{name}={}", amounts.get(name)?)));
    pairs.collect::<Vec<_>>().join(",")
}

/// Amounts from pairs of name and text, for tests.
#[cfg(test)]
pub(crate) fn of(list: &[(&str, &str)]) -> Amounts {
    list.iter().filter_map(|(name, amount)| Some(((*name).to_owned(), amount.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_inserts_only_where_documented() {
        let mut amounts = of(&[("pods", "3")]);
        add(&mut amounts, &of(&[("pods", "1"), ("cpu", "500m")]));
        assert_eq!(amounts, of(&[("pods", "4"), ("cpu", "500m")]));
        subtract(&mut amounts, &of(&[("pods", "5"), ("memory", "1Gi")]));
        assert_eq!(amounts, of(&[("pods", "-1"), ("cpu", "500m")]), "memory is not inserted");
        raise_to(&mut amounts, &of(&[("pods", "2"), ("cpu", "100m"), ("memory", "1Gi")]));
        assert_eq!(amounts, of(&[("pods", "2"), ("cpu", "500m"), ("memory", "1Gi")]));
        lower_to(&mut amounts, &of(&[("pods", "1"), ("cpu", "1"), ("disk", "1")]));
        assert_eq!(amounts, of(&[("pods", "1"), ("cpu", "500m"), ("memory", "1Gi")]), "disk is not inserted");
        assert_eq!(to_text(&filtered(&amounts, |name| name != "cpu"), ["pods", "cpu", "memory"]), "pods=1,memory=1Gi");
    }
}
