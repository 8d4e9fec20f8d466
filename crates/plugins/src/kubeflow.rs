//! Distributed training jobs, run by the Kubeflow training operator.

pub mod config;
