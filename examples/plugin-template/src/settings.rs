//! The settings of a task, generated from `proto/batch.proto`.
#![allow(missing_docs, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/example.batch.v1.rs"));

/// The names and numbers of the message's fields.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
