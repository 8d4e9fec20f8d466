//! Names of objects and values of labels: what is valid, and how to make an arbitrary text valid.
//!
//! Lengths are in bytes, as everywhere in Kubernetes; valid names are ASCII, so the two only differ on invalid ones.

use crate::digest::{base32, fnv1a_32};

/// Longest DNS-1123 label.
pub const LABEL_MAX_LENGTH: usize = 63;

/// Longest DNS-1123 subdomain, which is what most objects may be called.
pub const SUBDOMAIN_MAX_LENGTH: usize = 253;

/// Longest value of a label.
pub const LABEL_VALUE_MAX_LENGTH: usize = 63;

/// Room kept at the end of an overlong subdomain for a digest of the whole.
///
/// A digest takes eight characters of it; upstream's limit for ids sets the number, and names must stay equal.
const DIGEST_ROOM: usize = 30;

/// One way in which a text fails to be a name. Displayed in the words of apimachinery's validation, since they sit
/// beside those of the API server in what users read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameProblem {
    /// Longer than allowed.
    #[error("must be no more than {0} characters")]
    TooLong(usize),
    /// A subdomain where only a single label is allowed.
    #[error("must not contain dots")]
    Dots,
    /// Not a DNS-1123 label.
    #[error(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
         end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    )]
    NotLabel,
    /// Not a DNS-1123 subdomain.
    #[error(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
         start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )]
    NotSubdomain,
    /// Not a label value.
    #[error(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
         start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
         validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    )]
    NotLabelValue,
    /// Not the name part of a label key.
    #[error(
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
         alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    )]
    NotNamePart,
    /// The name part of a label key is missing.
    #[error("name part must be non-empty")]
    EmptyNamePart,
    /// The name part of a label key is longer than allowed.
    #[error("name part must be no more than {0} characters")]
    NamePartTooLong(usize),
    /// The part of a label key before the slash is missing.
    #[error("prefix part must be non-empty")]
    EmptyPrefix,
    /// The part of a label key before the slash is not a subdomain.
    #[error("prefix part {0}")]
    Prefix(#[source] Box<Self>),
    /// More than one slash in a label key.
    #[error(
        "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
         alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
         'example.com/MyName')"
    )]
    TooManySlashes,
}

/// Everything that keeps `name` from being a DNS-1123 label.
pub fn label_problems(name: &str) -> Vec<NameProblem> {
    let mut problems = too_long(name, LABEL_MAX_LENGTH);
    if !has_label_shape(name) {
        problems.push(if has_subdomain_shape(name) { NameProblem::Dots } else { NameProblem::NotLabel });
    }
    problems
}

/// Whether `name` is a DNS-1123 label: the name of a container, a service or a namespace.
pub fn is_label(name: &str) -> bool {
    label_problems(name).is_empty()
}

/// Everything that keeps `name` from being a DNS-1123 subdomain.
pub fn subdomain_problems(name: &str) -> Vec<NameProblem> {
    let mut problems = too_long(name, SUBDOMAIN_MAX_LENGTH);
    if !has_subdomain_shape(name) {
        problems.push(NameProblem::NotSubdomain);
    }
    problems
}

/// Whether `name` is a DNS-1123 subdomain: the name of most objects.
pub fn is_subdomain(name: &str) -> bool {
    subdomain_problems(name).is_empty()
}

/// Everything that keeps `value` from being the value of a label.
pub fn label_value_problems(value: &str) -> Vec<NameProblem> {
    let mut problems = too_long(value, LABEL_VALUE_MAX_LENGTH);
    if !value.is_empty() && !has_name_part_shape(value) {
        problems.push(NameProblem::NotLabelValue);
    }
    problems
}

/// Everything that keeps `key` from being the key of a label or an annotation: `name` or `sub.domain/name`.
pub fn label_key_problems(key: &str) -> Vec<NameProblem> {
    let mut problems = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, name)) if name.contains('/') => return vec![NameProblem::TooManySlashes],
        Some((prefix, name)) => {
            if prefix.is_empty() {
                problems.push(NameProblem::EmptyPrefix);
            } else {
                problems.extend(subdomain_problems(prefix).into_iter().map(|p| NameProblem::Prefix(Box::new(p))));
            }
            name
        }
    };
    if name.is_empty() {
        problems.push(NameProblem::EmptyNamePart);
    } else if name.len() > LABEL_MAX_LENGTH {
        problems.push(NameProblem::NamePartTooLong(LABEL_MAX_LENGTH));
    }
    if !has_name_part_shape(name) {
        problems.push(NameProblem::NotNamePart);
    }
    problems
}

/// `name` itself if it is a DNS-1123 subdomain, otherwise the nearest text that is likely one.
///
/// Words in camel case are separated first, so that a Java class keeps a readable name. The result can still be
/// invalid: it may be empty, or hold a label that begins or ends with a hyphen (`a.-b`).
/// Mirrors `utils.ConvertToDNS1123SubdomainCompatibleString`.
pub fn to_subdomain(name: &str) -> String {
    if is_subdomain(name) {
        return name.to_owned();
    }
    let kebab = to_kebab_case(name);
    let allowed: String = kebab.chars().filter(|c| is_lower_alphanumeric(*c) || matches!(c, '-' | '.')).collect();
    let trimmed = allowed.trim_matches(['-', '.']);
    if trimmed.len() <= SUBDOMAIN_MAX_LENGTH {
        return trimmed.to_owned();
    }
    let digest = base32(&fnv1a_32(trimmed.as_bytes()).to_be_bytes());
    format!("{}-f{digest}", &trimmed[..SUBDOMAIN_MAX_LENGTH - DIGEST_ROOM - 1])
}

/// Camel case in lower case with hyphens between words; a run of capitals counts as one word.
/// Mirrors `utils.ConvertCamelCaseToKebabCase`.
pub fn to_kebab_case(name: &str) -> String {
    let mut kebab = String::with_capacity(name.len() + 8);
    let mut word_can_end = false;
    for c in name.chars() {
        if word_can_end && c.is_ascii_uppercase() {
            kebab.push('-');
        }
        word_can_end = is_lower_alphanumeric(c);
        // One character for one, as Go does: the full mapping of 'İ' has two.
        kebab.extend(c.to_lowercase().take(1));
    }
    kebab
}

/// `value` made valid as the value of a label: other characters become hyphens, the end is cut, and a first or last
/// character that may not stand there becomes an `x`. Mirrors `utils.SanitizeLabelValue`.
pub fn to_label_value(value: &str) -> String {
    let mut sanitized: Vec<char> = value
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
        .take(LABEL_VALUE_MAX_LENGTH)
        .collect();
    if let Some(first) = sanitized.first_mut().filter(|c| !c.is_ascii_alphanumeric()) {
        *first = 'x';
    }
    if let Some(last) = sanitized.last_mut().filter(|c| !c.is_ascii_alphanumeric()) {
        *last = 'x';
    }
    sanitized.into_iter().collect()
}

fn too_long(name: &str, limit: usize) -> Vec<NameProblem> {
    if name.len() > limit { vec![NameProblem::TooLong(limit)] } else { Vec::new() }
}

fn has_label_shape(name: &str) -> bool {
    name.starts_with(is_lower_alphanumeric)
        && name.ends_with(is_lower_alphanumeric)
        && name.chars().all(|c| is_lower_alphanumeric(c) || c == '-')
}

fn has_subdomain_shape(name: &str) -> bool {
    name.split('.').all(has_label_shape)
}

fn has_name_part_shape(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn is_lower_alphanumeric(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

#[cfg(test)]
mod tests;
