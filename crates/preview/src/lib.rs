//! What would a task become, and why? Answered without a cluster.
//!
//! [`read`] and [`task_file`] read tasks from files, [`render`] makes the object that the executor would create,
//! [`explain`] says for each field of the object where its value comes from.

pub mod explain;
pub mod literals;
pub mod read;
pub mod render;
pub mod task_file;
