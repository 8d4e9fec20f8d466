//! Label and field selectors.

mod field;
mod label;

pub use field::FieldSelector;
pub use label::{LabelSelector, Operator, Requirement};

use crate::names::NameProblem;

/// Why a text is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseSelectorError {
    /// Something else was expected at this place.
    #[error("invalid selector {selector:?}: found {found:?}, expected {expected}")]
    Unexpected {
        /// The whole selector.
        selector: String,
        /// What stands there; empty at the end.
        found: String,
        /// What could stand there.
        expected: &'static str,
    },
    /// A key that no object can have.
    #[error("invalid label key {key:?} in selector: {problem}")]
    Key {
        /// The key.
        key: String,
        /// What is wrong with it.
        #[source]
        problem: NameProblem,
    },
    /// A value that no label can have.
    #[error("invalid label value {value:?} in selector: {problem}")]
    Value {
        /// The value.
        value: String,
        /// What is wrong with it.
        #[source]
        problem: NameProblem,
    },
}
