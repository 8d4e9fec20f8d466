//! What the jobs of Kubeflow's training operator have in common, whatever they train with: they are groups of replicas
//! under a run policy, and they report by conditions.

pub mod config;
pub(crate) mod job;
pub(crate) mod links;
pub mod mpi;
pub(crate) mod phase;
pub mod pytorch;
pub(crate) mod replica;
pub mod resource;
pub(crate) mod run_policy;
pub(crate) mod settings;
pub mod tensorflow;
