//! The services of Flyte's control plane that an executor calls, for a sandbox and for tests.
//!
//! Two services exist: the events service (`EventsProxyService`) and the task cache (`CacheService`). Both speak the
//! Connect protocol over HTTP on loopback. [`Services`] holds their state and answers one [`Call`] at a time;
//! [`Server`] listens and passes every call to a handler, so that a test can delay, refuse or lose an answer.
//!
//! The executor does not depend on this crate.

mod cache;
mod connect;
mod events;
mod server;
mod services;

pub use cache::Cache;
pub use connect::{Code, Refusal};
pub use events::{EventStore, EventsFile};
pub use server::Server;
pub use services::{Call, Services};
