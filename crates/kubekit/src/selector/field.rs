//! Selectors over a few fields of an object: `metadata.name=x,status.phase!=Running`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::ParseSelectorError;

/// A conjunction of comparisons; the empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    comparisons: Vec<Comparison>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Comparison {
    field: String,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Fields that must have these values.
    pub fn from_fields<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let comparisons = fields
            .into_iter()
            .map(|(field, value)| Comparison { field: field.to_owned(), equal: true, value: value.to_owned() })
            .collect();
        Self { comparisons }
    }

    /// Whether an object with these fields is selected. A field that is not given is empty.
    pub fn matches(&self, fields: &BTreeMap<String, String>) -> bool {
        self.comparisons.iter().all(|comparison| {
            let value = fields.get(&comparison.field).map_or("", String::as_str);
            (value == comparison.value) == comparison.equal
        })
    }

    /// The value this selector asks of a field, if it asks for exactly one: lets a reader fetch one object by name.
    pub fn required_value(&self, field: &str) -> Option<&str> {
        self.comparisons
            .iter()
            .find(|comparison| comparison.equal && comparison.field == field)
            .map(|comparison| comparison.value.as_str())
    }

    /// The fields it looks at, so that a server can refuse those it does not know.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.comparisons.iter().map(|comparison| comparison.field.as_str())
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Comparison { field, equal, value }) in self.comparisons.iter().enumerate() {
            let separator = if index > 0 { "," } else { "" };
            let operator = if *equal { "=" } else { "!=" };
            write!(f, "{separator}{field}{operator}{}", escaped(value))?;
        }
        Ok(())
    }
}

impl FromStr for FieldSelector {
    type Err = ParseSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let terms = split_terms(text).into_iter().filter(|term| !term.is_empty());
        let comparisons = terms.map(|term| comparison(term, text)).collect::<Result<_, _>>()?;
        Ok(Self { comparisons })
    }
}

fn comparison(term: &str, text: &str) -> Result<Comparison, ParseSelectorError> {
    let refused =
        |expected| ParseSelectorError::Unexpected { selector: text.to_owned(), found: term.to_owned(), expected };
    let start = term.find(['=', '!']).ok_or_else(|| refused("a comparison with = or !="))?;
    let (field, rest) = term.split_at(start);
    let (equal, value) = if let Some(value) = rest.strip_prefix("==") {
        (true, value)
    } else if let Some(value) = rest.strip_prefix("!=") {
        (false, value)
    } else if let Some(value) = rest.strip_prefix('=') {
        (true, value)
    } else {
        return Err(refused("a comparison with = or !="));
    };
    let value = unescaped(value).ok_or_else(|| refused("a value whose ',', '=' and '\\' are escaped by '\\'"))?;
    Ok(Comparison { field: field.to_owned(), equal, value })
}

/// The parts between commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

fn unescaped(text: &str) -> Option<String> {
    let mut value = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => value.push(chars.next().filter(|c| matches!(c, '\\' | ',' | '='))?),
            ',' | '=' => return None,
            c => value.push(c),
        }
    }
    Some(value)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn compared_by_value() {
        let pod = fields(&[("metadata.name", "p"), ("status.phase", "Running")]);
        for (text, want) in [
            ("", true),
            ("metadata.name=p", true),
            ("metadata.name==p,status.phase!=Failed", true),
            ("metadata.name=p,status.phase!=Running", false),
            ("spec.nodeName=", true),
            ("spec.nodeName!=", false),
        ] {
            assert_eq!(text.parse::<FieldSelector>().unwrap().matches(&pod), want, "{text}");
        }
    }

    #[test]
    fn a_name_can_be_read_off() {
        let selector: FieldSelector = "metadata.name=p,metadata.namespace!=q".parse().unwrap();
        assert_eq!(selector.required_value("metadata.name"), Some("p"));
        assert_eq!(selector.required_value("metadata.namespace"), None);
        assert_eq!(selector.fields().collect::<Vec<_>>(), ["metadata.name", "metadata.namespace"]);
    }

    #[test]
    fn malformed_selectors_are_refused() {
        for text in ["a", "a!b", "a=b=c", "a=\\x", "a=\\"] {
            assert!(text.parse::<FieldSelector>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_round_trips(value in "[a-c\\\\,=!]{0,8}", other in "[a-z]{0,3}") {
            let selector = FieldSelector::from_fields([("a.b", value.as_str()), ("c", other.as_str())]);
            prop_assert_eq!(selector.to_string().parse::<FieldSelector>().unwrap(), selector);
        }
    }
}
