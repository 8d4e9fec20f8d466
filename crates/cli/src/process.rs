//! The process as a whole: its threads, the signals it receives, and its log records.

pub mod logging;
pub mod signals;
pub mod threads;
