//! What a target makes of some bytes, and what all targets share.

/// Separates parts of an input that has several, such as files or requests: the record separator of ASCII, which no part
/// needs.
pub const SEPARATOR: char = '\u{1e}';

/// What became of some bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<T> {
    /// They are not what they should be.
    Unreadable,
    /// An error, with its text.
    Refused(String),
    /// What was made of them.
    Made(T),
}

/// The text of an error with all its causes. An error that says nothing is a defect.
pub(crate) fn explained(error: &dyn std::error::Error) -> String {
    let text = chain(error);
    assert!(text.len() > 10, "{text:?} is no help");
    text
}

/// The text of an error with all its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
