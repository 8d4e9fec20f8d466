//! Dask jobs, run by the Dask operator.

pub mod config;
