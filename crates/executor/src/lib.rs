//! Everything of Aileron that touches the world.
//!
//! A change in the cluster is taken in by [`watch`], wakes its action in [`controller`], and is decided on in
//! [`reconcile`], which lets a plugin work ([`registry`], [`manager`]), tells others ([`events`], [`cluster`]) and uses
//! [`storage`] and the task cache ([`catalog`]). [`run`](run::run) wires it together.

pub mod action;
pub mod catalog;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod connect;
pub mod controller;
pub mod error_text;
pub mod events;
pub mod explain;
pub mod garbage;
pub mod gate;
pub mod gob;
mod jitter;
pub mod lease;
pub mod manager;
pub mod monitor;
pub mod object_cleanup;
pub mod offline;
pub mod pending;
pub mod plugin_list;
pub mod pools;
pub mod reconcile;
pub mod registry;
pub mod run;
pub mod serve;
pub mod storage;
pub mod watch;
