//! Tasks in services outside the cluster, reached through connectors.

pub mod config;
