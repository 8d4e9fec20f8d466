#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::super::fields::collect;
use super::*;

fn list(amounts: &[(&str, &str)]) -> Option<ResourceList> {
    collect(amounts.iter().map(|(name, amount)| ((*name).to_owned(), QuantityText((*amount).to_owned()))))
}

fn requirements(requests: &[(&str, &str)], limits: &[(&str, &str)]) -> ResourceRequirements {
    ResourceRequirements { requests: list(requests), limits: list(limits), ..Default::default() }
}

#[test]
fn a_container_without_wishes_gets_the_platforms_defaults() {
    let config = K8sConfig::default();
    let decided =
        apply_overrides(&ResourceRequirements::default(), &requirements(&[(CPU, "100m")], &[]), &config, Unset::Assign);
    let expected = [(CPU, "100m"), (MEMORY, "1Gi")];
    assert_eq!(decided.unwrap(), requirements(&expected, &expected));
}

#[test]
fn what_nobody_set_stays_unset_where_resources_are_only_bounded() {
    let config = K8sConfig::default();
    let own = requirements(&[(MEMORY, "8Gi")], &[]);
    let platform = requirements(&[], &[(MEMORY, "1Gi"), (CPU, "1")]);
    let decided = apply_overrides(&own, &platform, &config, Unset::Leave).unwrap();
    assert_eq!(decided, requirements(&[(MEMORY, "1Gi")], &[]));
}

#[test]
fn overrides_lie_over_the_containers_own_wishes() {
    let config = K8sConfig::default();
    let own = requirements(&[(CPU, "2")], &[(GENERIC_GPU, "1")]);
    let overrides = requirements(&[(CPU, "3"), (MEMORY, "2Gi")], &[]);
    let platform = ResourceRequirements::default();
    let merged = settle(own, Some(&overrides), &platform, None, &config, ResourceMode::Merge).unwrap();
    let all = [(CPU, "3"), (MEMORY, "2Gi"), ("nvidia.com/gpu", "1")];
    assert_eq!(merged, requirements(&all, &all));
}

#[test]
fn an_unreadable_amount_is_named() {
    let error = apply_overrides(
        &requirements(&[(CPU, "much")], &[]),
        &ResourceRequirements::default(),
        &K8sConfig::default(),
        Unset::Assign,
    );
    assert!(error.unwrap_err().to_string().contains("resource cpu has the amount [much]"));
}

fn quantity() -> impl Strategy<Value = Quantity> {
    (0..4_i64, prop::sample::select(&["", "m", "k", "Mi"][..]))
        .prop_map(|(number, suffix)| format!("{number}{suffix}").parse().unwrap())
}

proptest! {
    #[test]
    fn a_request_never_exceeds_its_limit_nor_the_platforms(
        request in quantity(), limit in quantity(), default in quantity(), platform_limit in quantity(),
    ) {
        let adjusted = adjust_or_default(&request, &limit, &default, &platform_limit);
        prop_assert!(adjusted.request <= adjusted.limit);
        if !platform_limit.is_zero() {
            prop_assert!(adjusted.limit <= platform_limit);
        }
        let again = adjust_or_default(&adjusted.request, &adjusted.limit, &default, &platform_limit);
        prop_assert_eq!(again, adjusted);
    }
}
