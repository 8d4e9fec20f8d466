//! Removing what is no longer needed: objects of ended tasks and ended actions. Also counts what is left.

pub mod actions;
pub mod object_counts;
pub mod objects;
