//! Compares a create request with quotas, and describes the result in the form of the API server's refusals.

use crate::amounts::{self, Amounts};
use crate::create_request::CreateRequest;
use crate::quota::Quota;
use crate::quota::message::ExceededQuota;

/// The quotas that a create request uses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UsedQuotas {
    /// Quotas that do not have enough left.
    pub(super) insufficient: Vec<ExceededQuota>,
    /// Quotas that have enough left.
    pub(super) sufficient: Vec<ExceededQuota>,
}

/// Compares a create request with what is available of each quota.
pub(super) fn compare<'a>(quotas: impl Iterator<Item = (&'a Quota, Amounts)>, request: &CreateRequest) -> UsedQuotas {
    let mut result = UsedQuotas::default();
    for (quota, available) in quotas {
        let usage = quota.usage_of(request);
        if usage.is_empty() {
            continue;
        }
        let short = amounts::filtered(&usage, |name| available.get(name) < usage.get(name));
        if !short.is_empty() {
            result.insufficient.push(describe(quota, &available, short));
        } else if !quota.knows_usage_of(&usage) {
            result.insufficient.push(describe(quota, &available, usage));
        } else {
            result.sufficient.push(describe(quota, &available, usage));
        }
    }
    result
}

/// The quota, if a create request needs more than its limits, so that it can never fit. Names only these resources.
pub(super) fn never_fits(quota: &Quota, request: &CreateRequest) -> Option<ExceededQuota> {
    let mut usage = quota.usage_of(request);
    usage.retain(|name, amount| quota.hard.get(name).is_some_and(|hard| *amount > *hard));
    (!usage.is_empty()).then(|| describe(quota, &quota.remaining(), usage))
}

/// Describes a quota for the requested resources. `used` is derived from what is available, so it includes reservations.
/// It stays empty if the usage is not known yet.
fn describe(quota: &Quota, available: &Amounts, requested: Amounts) -> ExceededQuota {
    let limited = amounts::filtered(&quota.hard, |name| requested.contains_key(name));
    let mut used = Amounts::new();
    if quota.knows_usage_of(&requested) {
        used = limited.clone();
        amounts::subtract(&mut used, available);
    }
    ExceededQuota { name: quota.name.clone(), requested, used, limited }
}

#[cfg(test)]
mod tests {
    use aileron_machinery::ResourceKind;
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::amounts::of;

    fn request(pods: &str, cpu: &str) -> CreateRequest {
        let amounts = of(&[("pods", pods), ("requests.cpu", cpu)]);
        CreateRequest { kind: ResourceKind::of::<Pod>(), amounts, pod_traits: Some(Default::default()) }
    }

    fn texts(quotas: &[ExceededQuota]) -> Vec<String> {
        quotas.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_the_resources_that_are_short_are_named() {
        let hard = || of(&[("pods", "5"), ("requests.cpu", "4")]);
        let quota = Quota::without_scopes("q", 1, hard(), of(&[("pods", "2"), ("requests.cpu", "3")]));
        let available = || of(&[("pods", "2"), ("requests.cpu", "1")]);
        let result = compare([(&quota, available())].into_iter(), &request("1", "2"));
        assert_eq!(
            texts(&result.insufficient),
            ["quota q: requested requests.cpu=2, used requests.cpu=3, limited requests.cpu=4"]
        );
        let result = compare([(&quota, available())].into_iter(), &request("1", "1"));
        let expected =
            "quota q: requested pods=1,requests.cpu=1, used pods=3,requests.cpu=3, limited pods=5,requests.cpu=4";
        assert_eq!((result.insufficient.len(), texts(&result.sufficient)), (0, vec![expected.to_owned()]));
    }

    #[test]
    fn a_quota_whose_usage_is_not_known_yet_is_insufficient() {
        let quota = Quota::without_scopes("q", 1, of(&[("pods", "5")]), Amounts::new());
        let result = compare([(&quota, quota.remaining())].into_iter(), &request("1", "1"));
        assert_eq!(texts(&result.insufficient), ["quota q: requested pods=1, limited pods=5"]);
    }

    #[test]
    fn a_request_above_a_limit_never_fits_and_one_at_the_limit_may() {
        let quota = Quota::without_scopes("q", 1, of(&[("pods", "5")]), of(&[("pods", "5")]));
        assert_eq!(never_fits(&quota, &request("5", "9")), None);
        let exceeded = never_fits(&quota, &request("6", "9"));
        assert_eq!(
            exceeded.map(|quota| quota.to_string()).as_deref(),
            Some("quota q: requested pods=6, used pods=5, limited pods=5")
        );
    }
}
