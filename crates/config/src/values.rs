//! The values that sources set: checked against the schema, merged, and combined with the defaults.
//!
//! | module | task |
//! | --- | --- |
//! | [`resolve`] | turns a parsed document into known keys and checked values |
//! | [`scalar`] | checks and converts a single value |
//! | [`tree`] | holds checked values with their origin, and merges two sources |
//! | [`findings`] | mistakes, warnings, and parts that are not read |
//! | [`overlay`] | combines the values that were set with the defaults |

pub(crate) mod findings;
pub(crate) mod overlay;
pub(crate) mod resolve;
pub(crate) mod scalar;
pub(crate) mod tree;
