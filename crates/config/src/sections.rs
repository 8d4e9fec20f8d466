//! The sections of the configuration that are defined in this crate. The other sections are defined in
//! `aileron_machinery::config` and in the plugins that own them.

pub mod cache;
pub mod catalog;
pub mod executor;
pub mod otel;
pub mod plugin_rules;
pub mod pools;
pub mod resource_limits;
pub mod secrets;
pub mod tasks;
pub mod webhook;
