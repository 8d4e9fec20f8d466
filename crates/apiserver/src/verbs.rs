//! The verbs of the API: create, update, patch, delete, list and watch.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod table;
pub(crate) mod update;
pub(crate) mod watch;
