//! A small operator for `BatchJob`: it creates the pods of a job and writes the job's status.
//!
//! - `decide.rs`: what a job needs now, from the job and its pods. Pure.
//! - `run.rs`: watches jobs and pods, and carries the decisions out.

// TODO(plugin): 2b. Your operator, if there is none yet. README.md says what goes if there is one.
mod decide;
mod run;

pub use decide::{Decision, decide};
pub use run::run;
