//! The executor on the sandbox's API server and on a real one, one file per concern.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod apiserver;
mod cache;
mod chaos;
mod deletion;
mod events;
mod failure;
mod finished;
mod history;
mod installed;
mod invalid;
mod leader;
mod lease_switch;
mod limits;
mod malformed;
mod missing_kind;
mod operators;
mod outages;
mod overview;
mod pending;
mod permissions;
mod pools;
mod quota;
mod restart;
mod rules;
mod success;
mod waiting;
mod watches;
mod writers;
