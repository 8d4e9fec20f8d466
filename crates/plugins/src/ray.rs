//! Ray jobs, run by KubeRay.

pub mod config;
