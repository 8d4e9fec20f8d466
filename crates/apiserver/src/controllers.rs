//! Consequences of a write that a cluster's controllers bring about.
//!
//! In a real cluster, controllers do most of this a moment after the write. Here it happens in the same transaction, so
//! that tests need not wait. [`crate::Options::controllers`] switches it off.

pub(crate) mod deletion;
pub(crate) mod garbage;
mod quota;
