//! Rules per kind: which values are filled in, what is valid, and which fields may change.
//!
//! The functions here are pure: they see one object, or the old and the new one. kube-apiserver calls such rules
//! strategies.

pub(crate) mod custom;
pub(crate) mod defaults;
pub(crate) mod definitions;
pub(crate) mod events;
pub(crate) mod metadata;
pub(crate) mod pods;
