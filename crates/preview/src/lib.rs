//! Shows the Kubernetes object that the executor would create for a task, and explains its fields, without a cluster.
//!
//! This crate does no I/O: callers pass the content of files, the environment and the time.
//!
//! | module | task |
//! | --- | --- |
//! | [`read`] | reads TaskActions, task templates, pod templates and inputs, in all forms in which users have them |
//! | [`task_file`] | reads task files: a short form of a task template that users write by hand |
//! | [`literals`] | converts between the values that users write and Flyte's literals |
//! | [`render`] | builds the object |
//! | [`explain`] | finds for each field of the object where its value comes from |

pub mod explain;
pub mod literals;
pub mod read;
pub mod render;
pub mod task_file;
