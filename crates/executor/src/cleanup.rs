//! Deletes objects of ended tasks and ended actions, and counts the remaining objects.

pub mod actions;
pub mod object_counts;
pub mod objects;
