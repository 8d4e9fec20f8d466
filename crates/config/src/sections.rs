//! The sections that only the executor reads.

pub mod cache;
pub mod catalog;
pub mod executor;
pub mod otel;
pub mod plugin_rules;
pub mod pools;
pub mod secrets;
pub mod tasks;
pub mod webhook;
