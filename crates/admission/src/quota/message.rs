//! What a refusal for quota says: which quota, and how much was requested, used and allowed of what.
//!
//! `pods "x" is forbidden: exceeded quota: team, requested: limits.cpu=1,pods=1, used: limits.cpu=8,pods=9, limited:
//! limits.cpu=8,pods=9`

use std::collections::BTreeSet;

use crate::amounts::{self, Amounts};

/// One quota of a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExceededQuota {
    /// Its name; empty if the text does not tell.
    pub name: String,
    /// What the request would take.
    pub requested: Amounts,
    /// What is taken already.
    pub used: Amounts,
    /// What may be taken in all.
    pub limited: Amounts,
}

/// Stands in front of each quota.
const EXCEEDED: &str = "exceeded quota:";

/// Everything that a message says about quotas. What cannot be read is left out; a message of another kind says nothing.
///
/// # Differs from upstream
///
/// Flyte 1 reads names without a prefix, with digits, dots or slashes, and quantities with a fraction not at all or
/// wrongly, and only the first list of a message; here every resource counts.
#[must_use]
pub fn exceeded_quotas(message: &str) -> Vec<ExceededQuota> {
    message.split(EXCEEDED).skip(1).map(one_quota).collect()
}

impl ExceededQuota {
    /// The resources that this is about, those first of which more is requested than is left.
    #[must_use]
    pub fn resources(&self) -> BTreeSet<&str> {
        self.requested.keys().chain(self.limited.keys()).map(String::as_str).collect()
    }

    /// The resources of which more is requested than there will ever be.
    #[must_use]
    pub fn impossible(&self) -> Vec<&str> {
        let too_much =
            self.requested.iter().filter(|(name, amount)| self.limited.get(*name).is_some_and(|limit| *amount > limit));
        too_much.map(|(name, _)| name.as_str()).collect()
    }
}

impl std::fmt::Display for ExceededQuota {
    /// `quota team: requested pods=1, used pods=20, limited pods=20`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "quota {}", self.name)?;
        let names = self.resources();
        let lists = [("requested", &self.requested), ("used", &self.used), ("limited", &self.limited)];
        let mut before = ": ";
        for (word, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
            write!(f, "{before}{word} {}", amounts::text(list, names.iter().copied()))?;
            before = ", ";
        }
        Ok(())
    }
}

fn one_quota(text: &str) -> ExceededQuota {
    let labels = ["requested:", "used:", "limited:"];
    let end_of_name = labels.iter().filter_map(|label| text.find(label)).min().unwrap_or(text.len());
    let name = text[..end_of_name].trim().trim_end_matches(',').trim();
    let list = |label: &str| {
        let Some(start) = text.find(label).map(|start| start + label.len()) else { return Amounts::new() };
        let rest = &text[start..];
        let end = labels.iter().filter_map(|label| rest.find(label)).min().unwrap_or(rest.len());
        rest[..end].split(',').filter_map(amount).collect()
    };
    ExceededQuota {
        name: name.to_owned(),
        requested: list("requested:"),
        used: list("used:"),
        limited: list("limited:"),
    }
}

/// `name=quantity`, whatever else stands behind it.
fn amount(piece: &str) -> Option<(String, aileron_kubekit::quantity::Quantity)> {
    let (name, amount) = piece.trim().split_once('=')?;
    let end = amount.find(|letter: char| !(letter.is_ascii_alphanumeric() || "+-.".contains(letter)));
    let amount = amount[..end.unwrap_or(amount.len())].trim_end_matches('.');
    let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
    is_name.then_some((name.to_owned(), amount.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::amounts::of;

    fn read(fragment: &str) -> ExceededQuota {
        exceeded_quotas(&format!("pods \"x\" is forbidden: exceeded quota: team, {fragment}")).remove(0)
    }

    #[test]
    fn every_resource_counts_whatever_its_name() {
        let lists =
            "count/pods=1,cpu=250m,limits.ephemeral-storage=1Gi,limits.memory=1.5Gi,pods=1,requests.nvidia.com/gpu=2";
        let quota = read(&format!("requested: {lists}, used: pods=20, limited: pods=20,requests.nvidia.com/gpu=4"));
        let expected = [
            ("count/pods", "1"),
            ("cpu", "250m"),
            ("limits.ephemeral-storage", "1Gi"),
            ("limits.memory", "1536Mi"),
            ("pods", "1"),
            ("requests.nvidia.com/gpu", "2"),
        ];
        assert_eq!(quota.name, "team");
        assert_eq!(quota.requested, of(&expected));
        assert_eq!(quota.used, of(&[("pods", "20")]));
        assert_eq!(quota.limited, of(&[("pods", "20"), ("requests.nvidia.com/gpu", "4")]));
    }

    #[test]
    fn several_quotas_are_told_apart() {
        let quotas = exceeded_quotas(
            "x is forbidden: exceeded quota: a, requested: pods=1, used: pods=2, limited: pods=2, exceeded quota: b, \
             requested: limits.cpu=2, used: limits.cpu=0, limited: limits.cpu=1",
        );
        assert_eq!(quotas.len(), 2);
        assert_eq!((quotas[0].name.as_str(), quotas[0].requested.clone()), ("a", of(&[("pods", "1")])));
        assert_eq!(quotas[1].impossible(), ["limits.cpu"]);
    }

    #[test]
    fn equal_to_the_limit_is_possible_and_more_is_not() {
        assert_eq!(read("requested: cpu=2, used: cpu=1, limited: cpu=2000m").impossible(), Vec::<&str>::new());
        assert_eq!(read("requested: cpu=2001m, used: cpu=0, limited: cpu=2").impossible(), ["cpu"]);
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        assert_eq!(exceeded_quotas("pods is forbidden: something else"), []);
        let quota = exceeded_quotas("exceeded quota: q").remove(0);
        assert_eq!((quota.name.as_str(), quota.requested.len()), ("q", 0));
        assert_eq!(read("requested: cpu=lots,pods=1,=3,memory").requested, of(&[("pods", "1")]));
        assert_eq!(read("requested: pods=1; and more.").requested, of(&[("pods", "1")]));
    }

    #[test]
    fn it_is_told_in_one_sentence() {
        let quota = read("requested: pods=1, used: pods=20, limited: pods=20");
        assert_eq!(quota.to_string(), "quota team: requested pods=1, used pods=20, limited pods=20");
        assert_eq!(exceeded_quotas("exceeded quota: q").remove(0).to_string(), "quota q");
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in ".*", lists in "(requested:|used:|limited:|exceeded quota:|[a-z./=,0-9 é])*") {
            for quota in exceeded_quotas(&format!("exceeded quota:{text}{lists}")) {
                let _ = (quota.to_string(), quota.impossible().len());
            }
        }

        #[test]
        fn what_a_server_writes_is_read_exactly(
            name in "[a-z]([-a-z0-9]{0,20}[a-z0-9])?",
            milli in proptest::collection::btree_map("(requests\\.|limits\\.|count/)?[a-z]+([./-][a-z]+){0,3}", 1_i64..1_000_000, 1..6),
        ) {
            let amounts: Amounts = milli.iter().map(|(name, milli)| (name.clone(), format!("{milli}m").parse().unwrap())).collect();
            let text = amounts::text(&amounts, amounts.keys().map(String::as_str));
            let message = format!("pods \"x\" is forbidden: exceeded quota: {name}, requested: {text}, used: {text}, limited: {text}");
            let quota = exceeded_quotas(&message).remove(0);
            prop_assert_eq!(&quota.name, &name);
            prop_assert!(quota.requested == amounts && quota.used == amounts && quota.limited == amounts);
        }
    }
}
