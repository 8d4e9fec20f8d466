//! The process as a whole: its threads, the signals it receives, its log records, and its namespace.

pub mod logging;
pub mod namespace;
pub mod signals;
pub mod threads;
