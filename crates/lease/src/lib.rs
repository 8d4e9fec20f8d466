//! Leader election with a Kubernetes Lease, and a fence that stops the writes of a process that no longer leads.
//!
//! - [`record`]: the content of the lease, in the format of client-go, and the decision about it. No I/O.
//! - [`elector`]: takes the lease, renews it and releases it.
//! - [`fence`]: what every write passes. It opens when the lease is taken and closes by itself when the lease is not
//!   renewed, also if the process did not run meanwhile.

pub mod elector;
pub mod fence;
pub mod record;
mod request_error;
#[cfg(test)]
mod tests;

pub use elector::{Elector, LeaseApi, LeaseError};
pub use fence::{Fence, NotLeading};
pub use record::{LEASE_NAME, LeaseConfig, replica_identity};
pub use request_error::{RequestError, request_error_text};
