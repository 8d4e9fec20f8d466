//! The part of Aileron that talks to the cluster and to services.
//!
//! [`watch`] fills the [`caches`] and puts the action that a change concerns into the [`queue`]. The [`controller`] takes
//! actions from the queue and runs one reconcile round each ([`reconcile`]). A round calls the plugin ([`registry`],
//! [`manager`]), writes to the cluster ([`cluster`]), and uses [`services`] and [`storage`]. [`assembly`] wires the process
//! together.

pub mod assembly;
pub mod caches;
pub mod cleanup;
pub mod cluster;
pub mod controller;
pub mod manager;
pub mod queue;
pub mod reconcile;
pub mod registry;
pub mod serve;
pub mod services;
pub mod status_writer;
pub mod storage;
pub mod watch;
