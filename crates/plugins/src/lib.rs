//! The built-in task plugins, one folder each.

pub mod builtin;
pub mod clustered;
pub mod connector;
pub mod dask;
pub mod kubeflow;
pub mod pod;
pub mod ray;
pub mod sleep;
pub mod spark;
#[cfg(test)]
mod testing;

pub use builtin::builtin;
