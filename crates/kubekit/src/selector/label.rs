//! Selectors over labels: `app=flyte,tier in (a,b),!canary`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use super::ParseSelectorError;
use crate::names::{label_key_problems, label_value_problems};

/// A conjunction of requirements on labels; the empty one selects everything.
///
/// Requirements are kept in the order of their keys and values, so equal selectors print equal texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// What one label must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// The condition on it.
    pub operator: Operator,
}

/// A condition on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Present with this value.
    Equals(String),
    /// Absent or with another value.
    NotEquals(String),
    /// Present with one of these values.
    In(BTreeSet<String>),
    /// Absent or with a value not among these.
    NotIn(BTreeSet<String>),
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
}

impl LabelSelector {
    /// The selector of these requirements together.
    pub fn new(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        let mut requirements: Vec<_> = requirements.into_iter().collect();
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Self { requirements }
    }

    /// The selector for exactly these labels.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self::new(
            labels
                .into_iter()
                .map(|(key, value)| Requirement { key: key.to_owned(), operator: Operator::Equals(value.to_owned()) }),
        )
    }

    /// The requirements, by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| requirement.operator.accepts(labels.get(&requirement.key)))
    }
}

impl Operator {
    fn accepts(&self, value: Option<&String>) -> bool {
        match self {
            Self::Equals(wanted) => value == Some(wanted),
            Self::NotEquals(unwanted) => value != Some(unwanted),
            Self::In(wanted) => value.is_some_and(|value| wanted.contains(value)),
            Self::NotIn(unwanted) => value.is_none_or(|value| !unwanted.contains(value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let list = |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match &self.operator {
            Operator::Equals(value) => write!(f, "{key}={value}"),
            Operator::NotEquals(value) => write!(f, "{key}!={value}"),
            Operator::In(values) => write!(f, "{key} in ({})", list(values)),
            Operator::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

impl FromStr for LabelSelector {
    type Err = ParseSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut reader = Reader { text, rest: text };
        let mut requirements = Vec::new();
        if reader.word_or_symbol().is_empty() {
            return Ok(Self::default());
        }
        reader.rest = text;
        loop {
            requirements.push(reader.requirement()?);
            match reader.word_or_symbol() {
                "" => return Ok(Self::new(requirements)),
                "," => {}
                found => return Err(reader.unexpected(found, "',' or the end")),
            }
        }
    }
}

/// Reads a selector from the front.
struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn requirement(&mut self) -> Result<Requirement, ParseSelectorError> {
        let first = self.word_or_symbol();
        if first == "!" {
            let key = self.word_or_symbol();
            return Ok(Requirement { key: self.key(key)?, operator: Operator::DoesNotExist });
        }
        let key = self.key(first)?;
        let before = self.rest;
        let operator = match self.word_or_symbol() {
            "=" | "==" => Operator::Equals(self.value()?),
            "!=" => Operator::NotEquals(self.value()?),
            "in" => Operator::In(self.values()?),
            "notin" => Operator::NotIn(self.values()?),
            "" | "," => {
                self.rest = before;
                Operator::Exists
            }
            found => return Err(self.unexpected(found, "one of =, ==, !=, in, notin")),
        };
        Ok(Requirement { key, operator })
    }

    fn key(&self, key: &str) -> Result<String, ParseSelectorError> {
        match label_key_problems(key).into_iter().next() {
            _ if key.is_empty() || is_symbol(key) => Err(self.unexpected(key, "a label key")),
            Some(problem) => Err(ParseSelectorError::Key { key: key.to_owned(), problem }),
            None => Ok(key.to_owned()),
        }
    }

    /// A value, which may be empty: `app=` and `app in (,a)` look for empty labels.
    fn value(&mut self) -> Result<String, ParseSelectorError> {
        let before = self.rest;
        let value = match self.word_or_symbol() {
            "," | ")" => {
                self.rest = before;
                ""
            }
            symbol if is_symbol(symbol) => return Err(self.unexpected(symbol, "a label value")),
            word => word,
        };
        match label_value_problems(value).into_iter().next() {
            Some(problem) => Err(ParseSelectorError::Value { value: value.to_owned(), problem }),
            None => Ok(value.to_owned()),
        }
    }

    fn values(&mut self) -> Result<BTreeSet<String>, ParseSelectorError> {
        let open = self.word_or_symbol();
        if open != "(" {
            return Err(self.unexpected(open, "'('"));
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            match self.word_or_symbol() {
                ")" => return Ok(values),
                "," => {}
                found => return Err(self.unexpected(found, "',' or ')'")),
            }
        }
    }

    /// The next word or symbol, empty at the end.
    fn word_or_symbol(&mut self) -> &'a str {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let length =
            ["==", "!=", "=", "!", ",", "(", ")"].iter().find(|symbol| self.rest.starts_with(**symbol)).map_or_else(
                || self.rest.find([' ', '\t', '\r', '\n', '=', '!', ',', '(', ')']).unwrap_or(self.rest.len()),
                |symbol| symbol.len(),
            );
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        token
    }

    fn unexpected(&self, found: &str, expected: &'static str) -> ParseSelectorError {
        ParseSelectorError::Unexpected { selector: self.text.to_owned(), found: found.to_owned(), expected }
    }
}

fn is_symbol(token: &str) -> bool {
    matches!(token, "=" | "==" | "!=" | "!" | "," | "(" | ")")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn selector(text: &str) -> LabelSelector {
        text.parse().unwrap()
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn printed_in_one_form() {
        for (text, want) in [
            ("", ""),
            ("  ", ""),
            ("b==2, a = 1", "a=1,b=2"),
            ("x in (b, a),!y", "x in (a,b),!y"),
            ("x notin(a)", "x notin (a)"),
            ("flyte.org/run", "flyte.org/run"),
            ("a!=b,a", "a!=b,a"),
            ("a=", "a="),
            ("in in (in)", "in in (in)"),
        ] {
            assert_eq!(selector(text).to_string(), want);
        }
    }

    #[test]
    fn absent_labels_satisfy_only_negations() {
        let none = labels(&[]);
        for (text, want) in [
            ("", true),
            ("a=1", false),
            ("a!=1", true),
            ("a in (1)", false),
            ("a notin (1)", true),
            ("a", false),
            ("!a", true),
        ] {
            assert_eq!(selector(text).matches(&none), want, "{text}");
        }
    }

    #[test]
    fn all_requirements_must_hold() {
        let object = labels(&[("app", "flyte"), ("tier", "a")]);
        assert!(selector("app=flyte,tier in (a,b)").matches(&object));
        assert!(!selector("app=flyte,tier notin (a,b)").matches(&object));
        assert!(LabelSelector::from_labels([("app", "flyte")]).matches(&object));
        assert!(!selector("app=").matches(&object));
        assert!(selector("app in (,flyte)").matches(&object));
    }

    #[test]
    fn malformed_selectors_are_refused() {
        for text in
            [",", "a,", "a b", "=a", "a in b", "a in (b", "a in (b c)", "a=b=c", "!", "a==!b", "-a=1", "a=b/c", "(a)"]
        {
            assert!(text.parse::<LabelSelector>().is_err(), "{text}");
        }
    }

    fn requirement() -> impl Strategy<Value = Requirement> {
        let value = || "[a-z]{0,3}";
        let values = || prop::collection::btree_set("[a-z]{1,3}", 1..4);
        let operator = prop_oneof![
            value().prop_map(Operator::Equals),
            value().prop_map(Operator::NotEquals),
            values().prop_map(Operator::In),
            values().prop_map(Operator::NotIn),
            Just(Operator::Exists),
            Just(Operator::DoesNotExist),
        ];
        ("[a-z]{1,3}", operator).prop_map(|(key, operator)| Requirement { key, operator })
    }

    proptest! {
        #[test]
        fn text_round_trips(requirements in prop::collection::vec(requirement(), 0..4)) {
            let selector = LabelSelector::new(requirements);
            prop_assert_eq!(selector.to_string().parse::<LabelSelector>().unwrap(), selector);
        }

        #[test]
        fn arbitrary_text_never_panics(text in "\\PC{0,30}") {
            let _ = text.parse::<LabelSelector>();
        }
    }
}
