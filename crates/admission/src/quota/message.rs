//! Parser for the message with which the API server refuses a create request because of a quota.
//!
//! An example: `pods "x" is forbidden: exceeded quota: team, requested: limits.cpu=1,pods=1, used: limits.cpu=8,pods=9,
//! limited: limits.cpu=8,pods=9`

use std::collections::BTreeSet;

use crate::amounts::{self, Amounts};

/// A quota that does not have enough left for a create request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExceededQuota {
    /// Name of the ResourceQuota; empty if the message does not contain it.
    pub name: String,
    /// What the create request needs.
    pub requested: Amounts,
    /// What is used already.
    pub used: Amounts,
    /// The limits of the quota.
    pub limited: Amounts,
}

/// The message contains this text before the name of each quota.
const EXCEEDED: &str = "exceeded quota:";

/// Reads all quotas that a message names. Parts that cannot be parsed are left out. For any other message the result is
/// empty.
///
/// # Differs from upstream
///
/// Flyte 1 ignores or misreads resource names without a prefix, resource names with digits, dots or slashes, and quantities
/// with a fraction, and reads only the first quota of a message. Aileron reads every resource of every quota.
#[must_use]
pub fn exceeded_quotas(message: &str) -> Vec<ExceededQuota> {
    message.split(EXCEEDED).skip(1).map(parse_quota).collect()
}

impl ExceededQuota {
    /// The names of all resources that are requested or limited.
    #[must_use]
    pub fn resources(&self) -> BTreeSet<&str> {
        self.requested.keys().chain(self.limited.keys()).map(String::as_str).collect()
    }

    /// The resources of which more is requested than the limit. Such a request never fits, however little is used.
    #[must_use]
    pub fn above_limit(&self) -> Vec<&str> {
        let above =
            self.requested.iter().filter(|(name, amount)| self.limited.get(*name).is_some_and(|limit| *amount > limit));
        above.map(|(name, _)| name.as_str()).collect()
    }
}

impl std::fmt::Display for ExceededQuota {
    /// `quota team: requested pods=1, used pods=20, limited pods=20`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "quota {}", self.name)?;
        let names = self.resources();
        let parts = [("requested", &self.requested), ("used", &self.used), ("limited", &self.limited)];
        let mut separator = ": ";
        for (label, list) in parts.iter().filter(|(_, list)| !list.is_empty()) {
            write!(f, "{separator}{label} {}", amounts::to_text(list, names.iter().copied()))?;
            separator = ", ";
        }
        Ok(())
    }
}

fn parse_quota(text: &str) -> ExceededQuota {
    let labels = ["requested:", "used:", "limited:"];
    let end_of_name = labels.iter().filter_map(|label| text.find(label)).min().unwrap_or(text.len());
    let name = text[..end_of_name].trim().trim_end_matches(',').trim();
    let list = |label: &str| {
        let Some(start) = text.find(label).map(|start| start + label.len()) else { return Amounts::new() };
        let rest = &text[start..];
        let end = labels.iter().filter_map(|label| rest.find(label)).min().unwrap_or(rest.len());
        rest[..end].split(',').filter_map(parse_amount).collect()
    };
    ExceededQuota {
        name: name.to_owned(),
        requested: list("requested:"),
        used: list("used:"),
        limited: list("limited:"),
    }
}

/// Parses `name=quantity`. Text after the quantity is ignored.
fn parse_amount(piece: &str) -> Option<(String, aileron_kubekit::quantity::Quantity)> {
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
    fn resource_names_of_every_form_are_read() {
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
    fn several_quotas_of_one_message_are_separated() {
        let quotas = exceeded_quotas(
            "x is forbidden: exceeded quota: a, requested: pods=1, used: pods=2, limited: pods=2, exceeded quota: b, \
             requested: limits.cpu=2, used: limits.cpu=0, limited: limits.cpu=1",
        );
        assert_eq!(quotas.len(), 2);
        assert_eq!((quotas[0].name.as_str(), quotas[0].requested.clone()), ("a", of(&[("pods", "1")])));
        assert_eq!(quotas[1].above_limit(), ["limits.cpu"]);
    }

    #[test]
    fn a_request_equal_to_the_limit_is_not_above_it() {
        assert_eq!(read("requested: cpu=2, used: cpu=1, limited: cpu=2000m").above_limit(), Vec::<&str>::new());
        assert_eq!(read("requested: cpu=2001m, used: cpu=0, limited: cpu=2").above_limit(), ["cpu"]);
    }

    #[test]
    fn parts_that_cannot_be_parsed_are_left_out() {
        assert_eq!(exceeded_quotas("pods is forbidden: something else"), []);
        let quota = exceeded_quotas("exceeded quota: q").remove(0);
        assert_eq!((quota.name.as_str(), quota.requested.len()), ("q", 0));
        assert_eq!(read("requested: cpu=lots,pods=1,=3,memory").requested, of(&[("pods", "1")]));
        assert_eq!(read("requested: pods=1; and more.").requested, of(&[("pods", "1")]));
    }

    #[test]
    fn the_display_text_is_one_sentence() {
        let quota = read("requested: pods=1, used: pods=20, limited: pods=20");
        assert_eq!(quota.to_string(), "quota team: requested pods=1, used pods=20, limited pods=20");
        assert_eq!(exceeded_quotas("exceeded quota: q").remove(0).to_string(), "quota q");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".*", lists in "(requested:|used:|limited:|exceeded quota:|[a-z./=,0-9 é])*") {
            for quota in exceeded_quotas(&format!("exceeded quota:{text}{lists}")) {
                let _ = (quota.to_string(), quota.above_limit().len());
            }
        }

        #[test]
        fn messages_of_api_servers_are_read_exactly(
            name in "[a-z]([-a-z0-9]{0,20}[a-z0-9])?",
            milli in proptest::collection::btree_map("(requests\\.|limits\\.|count/)?[a-z]+([./-][a-z]+){0,3}", 1_i64..1_000_000, 1..6),
        ) {
            let amounts: Amounts = milli.iter().map(|(name, milli)| (name.clone(), format!("{milli}m").parse().unwrap())).collect();
            let text = amounts::to_text(&amounts, amounts.keys().map(String::as_str));
            let message = format!("pods \"x\" is forbidden: exceeded quota: {name}, requested: {text}, used: {text}, limited: {text}");
            let quota = exceeded_quotas(&message).remove(0);
            prop_assert_eq!(&quota.name, &name);
            prop_assert!(quota.requested == amounts && quota.used == amounts && quota.limited == amounts);
        }
    }
}
