//! Requests of the node to the API server.

pub(crate) mod events;
pub(crate) mod registration;
pub(crate) mod retry;
