//! Spark applications, run by the Spark operator.

pub mod config;
