//! The executor on the sandbox's API server and on a real one, one file per concern.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod apiserver;
mod cache;
mod deletion;
mod events;
mod failure;
mod invalid;
mod leader;
mod operators;
mod restart;
mod success;
mod waiting;
mod writers;
