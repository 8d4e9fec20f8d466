//! The built-in task plugins, one folder each.

pub mod builtin;
pub mod clustered;
pub mod connector;
pub mod dask;
mod env_var;
#[cfg(test)]
mod fixture;
pub mod kubeflow;
pub mod mpi;
pub mod pod;
mod pod_template;
pub mod pytorch;
pub mod ray;
pub mod resource;
mod settings;
pub mod sleep;
pub mod spark;
pub mod tensorflow;

pub use builtin::{PluginConfigs, builtin};
