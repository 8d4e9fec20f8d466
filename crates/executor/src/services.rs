//! Clients of the control plane's services: events and task cache, over the Connect protocol.

pub mod cache;
pub mod connect;
pub mod events;
pub mod fenced;
