//! Processes of containers: how they start, are limited and end.

pub(crate) mod guardian;
pub(crate) mod memory;
pub(crate) mod mount_view;
pub(crate) mod process;
pub(crate) mod process_table;
