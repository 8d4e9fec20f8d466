//! Errors as text: all of the story, or only its beginning.

use std::error::Error;

/// An error and its causes, since the outermost error alone rarely says what went wrong on the way. Some messages hold
/// their cause already; it is not said twice.
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
