//! Flyte's wire messages that Aileron speaks.
//!
//! The `.proto` files of this crate are our own text with Flyte's names and numbers; `tests/descriptors.rs` compares
//! every one of them with the descriptors that Flyte publishes. Types are generated at build time without protoc.
//!
//! - [`flyteidl2`]: the messages, one module per protobuf package. Map fields are ordered, so equal messages have
//!   equal bytes.
//! - [`descriptors()`]: names, numbers and service methods at run time.
//! - [`struct_to_json`] and [`json_to_struct`]: free-form settings.
//! - [`Messages`]: settings in messages of others. [`form`]: messages inside values that serde writes.
//! - [`message_from_struct`], [`message_from_json`], [`message_to_json`], [`message_to_struct`]: typed settings.
//! - [`signed_duration`]: durations to compute with.

mod descriptors;
mod error;
pub mod form;
mod json;
mod messages;
mod number;
mod path;
mod structs;
mod time;

/// The generated code. Its shape is prost's, so our own lints do not apply to it.
#[allow(missing_docs, clippy::all, clippy::use_self, clippy::or_fun_call, rustdoc::all)]
mod packages {
    include!(concat!(env!("OUT_DIR"), "/packages.rs"));
}

pub use descriptors::descriptors;
pub use error::JsonError;
pub use json::{
    FieldNames, message_from_json, message_from_struct, message_to_json, message_to_json_named, message_to_struct,
};
pub use messages::Messages;
pub use packages::flyteidl2;
pub use structs::{json_to_struct, struct_to_json};
pub use time::signed_duration;
