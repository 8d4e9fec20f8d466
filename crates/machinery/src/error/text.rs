//! Errors as text: all of the story, or only its beginning.

use std::error::Error;

/// An error and its causes, since the outermost error alone rarely says what went wrong on the way. Some messages hold
/// their cause already; it is not said twice.
///
/// ```
/// use aileron_machinery::{ServiceError, error_text};
///
/// let error = ServiceError::caused_by("failed to read s3://data/x", std::io::Error::other("connection reset"));
/// assert_eq!(error.to_string(), "failed to read s3://data/x");
/// assert_eq!(error_text::chain(&error), "failed to read s3://data/x: connection reset");
/// ```
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

/// The first cause: what a service itself said, which is the part that helps.
///
/// ```
/// use aileron_machinery::{ServiceError, error_text};
///
/// let error = ServiceError::caused_by("failed to read s3://data/x", std::io::Error::other("connection reset"));
/// assert_eq!(error_text::innermost(&error), "connection reset");
/// ```
pub fn innermost(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Told(&'static str, #[source] Option<Box<Self>>);

    #[test]
    fn every_cause_is_told_and_none_twice() {
        let error = Told("no answer", Some(Box::new(Told("refused", Some(Box::new(Told("port 1", None)))))));
        assert_eq!(chain(&error), "no answer: refused: port 1");
        assert_eq!(innermost(&error), "port 1");
        let repeated = Told("no answer: refused", Some(Box::new(Told("refused", None))));
        assert_eq!(chain(&repeated), "no answer: refused");
    }
}
